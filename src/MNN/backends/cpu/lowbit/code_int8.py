"""Code generation of :class:`MNN.backends.cpu.lowbit.int8.Int8Spec`."""

from __future__ import annotations

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.routed_rows import rows_of_block
from MNN.backends.cpu.lang.module import F32, I8, I32, Value
from MNN.backends.cpu.lowbit.code import asks_ahead
from MNN.backends.cpu.lowbit.int8 import Int8Spec, flipped, half_of
from MNN.backends.cpu.lowbit.layout import VECTORS, WORD, BlockCode, block_record
from MNN.backends.cpu.lowbit.rounded_rows import NUMBERS
from MNN.backends.cpu.products.tile_store import TileStore
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType


@generates(Int8Spec)
def emit_int8(spec: Int8Spec, target: Target) -> str:
    """The module's text."""
    return Int8Rows(spec, target).emit()


class Int8Rows(TileStore):
    """The state of one emission. Sums in f32 lie in scratch memory, those of a block in registers."""

    begins = False

    def __init__(self, spec: Int8Spec, target: Target) -> None:
        super().__init__(spec, target)
        self.spec, self.half = spec, half_of(target, spec.width)
        self.acc, self.sums_in = F32.vec(self.lanes), DType.F32
        self.steps = WORD // spec.width
        self.flip = flipped(target, spec.width)
        self.product = can.DOT4_UNSIGNED if target.can(can.DOT4_UNSIGNED) else can.DOT4_SIGNED

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        n, nb = k.slot("n"), k.slot("nb")
        self.wide = VECTORS * self.lanes
        self.run = k.slot("groups") * self.steps
        self.record_bytes = k.slot("groups") * (4 * self.wide) + block_record(spec.zeros, self.wide).size
        n_blocks = b.udiv(n + nb - 1, nb)
        self.c, self.ops = k.pointer("c"), [k.pointer(f"op{i}") for i in range(len(spec.operands))]
        self.factors = b.gep(k.scratch, F32, spec.mr * self.nr)
        self.panel_of_bytes = b.gep(self.factors, F32, 2 * self.nr)
        with b.loop(k.begin, k.end) as block:
            part = b.udiv(block.index, n_blocks)
            m0, self.m1, right = rows_of_block(k, spec.routed, part)
            n0 = (block.index - part * n_blocks) * nb
            n1 = b.intrinsic("smin", n0 + nb, n)
            if spec.routed:  # a unit without rows
                n1 = b.select(b.icmp("slt", m0, self.m1), n1, n0)
            with b.loop(n0, n1, self.nr) as column:
                self.column, self.columns = column.index, n1 - column.index
                self.first, number = b.urem(self.column, self.wide), b.udiv(self.column, self.wide)
                panel = b.gep(right, I8, number * k.slot("blocks") * self.record_bytes)
                if not spec.few:
                    self._expand(panel)
                with b.loop(m0, self.m1, spec.mr) as row:
                    self._tile(row.index, panel)
                    self.finish(row.index, [], spec.mr)
        return k.finish()

    def _words(self, codes: Value, group: Value) -> list[Value]:
        """The words of a group of the tile's columns."""
        b = self.b
        here = [b.gep(codes, I32, group * self.wide + j * self.lanes) for j in range(self.spec.nv)]
        words = [b.load(I32.vec(self.lanes), place) for place in here]
        if not self.target.fetches_ahead:  # asking, too, would cost such a processor 40 % of what memory gives
            asks_ahead(b, self.target, here)
        return [b.xor(w, self.flip) if self.flip else w for w in words]

    def _codes(self, word: Value, i: int) -> Value:
        """The codes of a word that are multiplied by group ``i`` of four."""
        width = self.spec.width
        if width == 8:
            return word
        mask = sum(((1 << width) - 1) << 8 * j for j in range(4))
        return self.b.and_(self.b.lshr(word, width * i) if i else word, mask)

    def _expand(self, panel: Value) -> None:
        """Takes the words of a panel apart."""
        k, b = self.k, self.b
        per, line = self.steps // 4, 4 * self.nr
        with b.loop(0, k.slot("blocks"), carry=[panel, self.panel_of_bytes]) as block:
            codes = self._record(block.carried[0], 0).codes()
            with b.loop(0, k.slot("groups"), carry=[block.carried[1]]) as group:
                words = self._words(codes, group.index)
                for i in range(per):
                    for j, word in enumerate(words):
                        to = b.gep(group.carried[0], I8, i * line + 4 * self.lanes * j)
                        b.store(self._codes(word, i), to, align=4)
                group.next(b.gep(group.carried[0], I8, per * line))
            block.next(b.gep(block.carried[0], I8, self.record_bytes), group.results[0])

    def _record(self, start: Value, j: int) -> BlockCode:
        """What the block at ``start`` says about vector ``j`` of the tile's columns."""
        return BlockCode(self.b, self.spec.zeros, self.wide, start, self.first + j * self.lanes, self.lanes)

    def _tile(self, row: Value, panel: Value) -> None:
        """The sums of a tile of rows, in scratch memory."""
        k, b, spec = self.k, self.b, self.spec
        rows = []
        for r in range(spec.mr):
            index = row if r == 0 else b.intrinsic("smin", row + r, self.m1 - 1)
            begin = b.gep(k.pointer("a"), I8, b.entry(k.pointer("rows_a"), index))
            rows += [b.gep(begin, I8, k.slot("part") * part) for part in range(spec.parts)]
        numbers = [b.gep(r, I8, k.slot("meta")) for r in rows]
        for i in range(spec.mr * spec.nv):
            b.store(b.const(self.acc, 0), b.gep(self.tile, self.acc, i))
        with b.loop(0, k.slot("blocks"), carry=[panel, self.panel_of_bytes]) as block:
            start = block.carried[0]
            self._keep_factors(start)
            places = [b.gep(p, I32, block.index * NUMBERS) for p in numbers]
            sums, after = self._block(
                start, block.carried[1], [b.gep(r, I8, block.index * self.run) for r in rows], places
            )
            self._scaled(sums, places)
            block.next(b.gep(start, I8, self.record_bytes), after)

    def _block(self, start: Value, bytes_: Value, rows: list[Value], places: list[Value]) -> tuple[list[Value], Value]:
        """The integer sums of a block, and where the panel of bytes goes on."""
        k, b, spec = self.k, self.b, self.spec
        wide, per = I32.vec(self.lanes), self.steps // 4
        sums = []
        for place in places:
            begin = b.const(wide, 0)
            if spec.zeros == "none" and self.half:
                begin = b.splat(b.load(I32, b.gep(place, I32, 2)), self.lanes)
            sums += [begin] * spec.nv
        codes = self._record(start, 0).codes()
        with b.loop(0, k.slot("groups"), carry=[*sums, bytes_]) as group:
            *sums, bytes_ = group.carried
            words = self._words(codes, group.index) if spec.few else []
            for i in range(per):
                if spec.few:
                    right = [self._codes(w, i) for w in words]
                else:
                    line = [b.gep(bytes_, I8, (i * spec.nv + j) * 4 * self.lanes) for j in range(spec.nv)]
                    right = [b.load(wide, place, align=4) for place in line]
                for r, start_of in enumerate(rows):
                    at = b.gep(start_of, I8, group.index * self.steps + 4 * i)
                    left = b.splat(b.load(I32, at, align=1), self.lanes)
                    for j in range(spec.nv):
                        n = r * spec.nv + j
                        sums[n] = self._dot(sums[n], right[j], left)
            group.next(*sums, bytes_ if spec.few else b.gep(bytes_, I8, self.steps * self.nr))
        *found, after = group.results
        return found, after

    def _dot(self, total: Value, codes: Value, row: Value) -> Value:
        b, small = self.b, I8.vec(4 * self.lanes)
        return b.perform(self.product, total.type, total, b.bitcast(codes, small), b.bitcast(row, small))

    def _keep_factors(self, start: Value) -> None:
        """Scales and offsets of a block, in scratch memory until its sums are there: processors fetch what is read from
        front to back."""
        b, spec = self.b, self.spec
        for j in range(spec.nv):
            record = self._record(start, j)
            for i, factor in enumerate((record.scale(), self._offset(record))):
                if factor is not None:
                    b.store(factor, b.gep(self.factors, self.acc, i * spec.nv + j))

    def _scaled(self, sums: list[Value], places: list[Value]) -> None:
        """Adds a block's integers, times their scales, to the tile; those of all parts to the same numbers."""
        b, spec = self.b, self.spec
        for j in range(spec.nv):
            scale, offset = (b.load(self.acc, b.gep(self.factors, self.acc, i * spec.nv + j)) for i in (0, 1))
            for r in range(spec.mr):
                to = b.gep(self.tile, self.acc, r * spec.nv + j)
                total = b.load(self.acc, to)
                for i in reversed(range(r * spec.parts, (r + 1) * spec.parts)):  # the smallest ones first
                    place = places[i]
                    if spec.zeros != "none":
                        total = b.fma(offset, b.splat(b.load(F32, b.gep(place, F32, 1)), self.lanes), total)
                    scaled = b.mul(b.convert("sitofp", sums[i * spec.nv + j], self.acc), scale)
                    total = b.fma(scaled, b.splat(b.load(F32, place), self.lanes), total)
                b.store(total, to)

    def _offset(self, record: BlockCode) -> Value | None:
        """What a number of A is multiplied by besides the codes, times ``2^SHIFT``."""
        b, zeros = self.b, self.spec.zeros
        if zeros == "none":
            return None
        if zeros == "i8":
            return b.fneg(b.mul(b.add(record.zero(), float(self.half)), record.scale()))
        return b.fma(record.scale(), -float(self.half), record.zero()) if self.half else record.zero()
