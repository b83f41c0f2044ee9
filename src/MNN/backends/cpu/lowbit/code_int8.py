"""Code generation of :class:`MNN.backends.cpu.lowbit.int8.Int8Spec`."""

from __future__ import annotations

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.routed_rows import rows_of_block
from MNN.backends.cpu.lang.module import F32, I8, I32, Value
from MNN.backends.cpu.lowbit.code import AHEAD, LINE
from MNN.backends.cpu.lowbit.int8 import ROWS, Int8Spec, flipped, half_of
from MNN.backends.cpu.lowbit.layout import VECTORS, WORD, BlockCode, block_record
from MNN.backends.cpu.lowbit.rounded_rows import NUMBERS, digit_bits
from MNN.backends.cpu.products.tile_store import TileStore
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType


@generates(Int8Spec)
def emit_int8(spec: Int8Spec, target: Target) -> str:
    """The module's text."""
    return Int8Rows(spec, target).emit()


class Int8Rows(TileStore):
    """The state of one emission. Columns of a panel, some rows, blocks, tiles of rows: so a block is taken apart once
    for all of these rows, and lies in the nearest cache until they are done. Sums in f32 lie in scratch memory, those
    of a block in registers."""

    begins = False

    def __init__(self, spec: Int8Spec, target: Target) -> None:
        super().__init__(spec, target)
        self.spec, self.half = spec, half_of(target, spec.width)
        self.acc, self.sums_in = F32.vec(self.lanes), DType.F32
        self.wide, self.ints = VECTORS * self.lanes, I32.vec(self.lanes)
        self.steps = WORD // spec.width
        self.per = self.steps // 4
        self.flip = flipped(target, spec.width)
        self.product = can.DOT4_UNSIGNED if target.can(can.DOT4_UNSIGNED) else can.DOT4_SIGNED

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        n, nb = k.slot("n"), k.slot("nb")
        self.run = k.slot("groups") * self.steps
        self.record_bytes = k.slot("groups") * (4 * self.wide) + block_record(spec.zeros, self.wide).size
        n_blocks = b.udiv(n + nb - 1, nb)
        self.c, self.ops = k.pointer("c"), [k.pointer(f"op{i}") for i in range(len(spec.operands))]
        self.totals = k.scratch
        self.factors = b.gep(self.totals, F32, ROWS * self.nr)
        self.bytes_of_block = b.gep(self.factors, F32, 2 * self.nr)
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
                with b.loop(m0, self.m1, ROWS) as some:
                    self._rows(some.index, b.intrinsic("smin", some.index + ROWS, self.m1), panel)
        return k.finish()

    def _rows(self, first: Value, past: Value, panel: Value) -> None:
        """The rows from ``first`` on, at most :data:`ROWS`, of a panel."""
        k, b, spec = self.k, self.b, self.spec
        with b.loop(0, (past - first) * spec.nv) as place:
            b.store(b.const(self.acc, 0), b.gep(self.totals, self.acc, place.index))
        with b.loop(0, k.slot("blocks"), carry=[panel]) as block:
            start = block.carried[0]
            if spec.mr > 1 or not self.target.fetches_ahead:  # would cost one row 40 % of what memory gives
                with b.loop(0, self.record_bytes, LINE) as line:
                    b.prefetch(b.gep(start, I8, line.index + AHEAD), 1)  # nearer caches wait for few lines at a time
            self._keep_factors(start)
            if spec.expands:
                self._expand(start)
            begin = first
            for height in sorted({spec.mr, min(spec.mr, 2), 1}, reverse=True):
                end = past - b.urem(past - begin, height)
                with b.loop(begin, end, height) as row:
                    self._tile(row.index, first, height, start, block.index)
                begin = end
            block.next(b.gep(start, I8, self.record_bytes))

    def _words(self, codes: Value, group: Value) -> list[Value]:
        """The words of a group of the tile's columns."""
        b = self.b
        here = [b.gep(codes, I32, group * self.wide + j * self.lanes) for j in range(self.spec.nv)]
        words = [b.load(self.ints, place) for place in here]
        return [b.xor(w, self.flip) if self.flip else w for w in words]

    def _codes(self, word: Value, i: int) -> Value:
        """The codes of a word that are multiplied by group ``i`` of four."""
        width = self.spec.width
        if width == 8:
            return word
        mask = sum(((1 << width) - 1) << 8 * j for j in range(4))
        return self.b.and_(self.b.lshr(word, width * i) if i else word, mask)

    def _expand(self, start: Value) -> None:
        """Takes the words of a block apart."""
        k, b = self.k, self.b
        codes = self._record(start, 0).codes()
        with b.loop(0, k.slot("groups")) as group:
            words = self._words(codes, group.index)
            for i in range(self.per):
                for j, word in enumerate(words):
                    b.store(self._codes(word, i), self._byte(group.index, i, j), align=4)

    def _byte(self, group: Value, i: int, j: int) -> Value:
        """Where group ``i`` of four codes of a word lies, of vector ``j`` of the tile's columns."""
        return self.b.gep(self.bytes_of_block, self.ints, (group * self.per + i) * self.spec.nv + j)

    def _record(self, start: Value, j: int) -> BlockCode:
        """What the block at ``start`` says about vector ``j`` of the tile's columns."""
        return BlockCode(self.b, self.spec.zeros, self.wide, start, self.first + j * self.lanes, self.lanes)

    def _ask_results(self, row: Value, height: int) -> None:
        """Asks for the memory of results long before they are stored: it is often far away."""
        b, size = self.b, self.out_type.size
        for r in range(height):
            self.row_tables(row + r)
            for at in range(0, self.nr * size, LINE):
                b.prefetch(b.gep(self.c_row, I8, at), 2)

    def _finish(self, begin: Value, past: Value, first: Value) -> None:
        """Stores the results of some rows, of which those of ``first`` lie at the beginning: while other rows are
        multiplied, so that nobody waits for them."""
        b = self.b
        with b.loop(begin, past) as row:
            self.tile = b.gep(self.totals, F32, (row.index - first) * self.nr)
            self.finish(row.index, [], 1)

    def _tile(self, row: Value, first: Value, height: int, start: Value, block: Value) -> None:
        """Adds a block to the sums of ``height`` rows from ``row`` on."""
        k, b, spec = self.k, self.b, self.spec
        to = b.gep(self.totals, F32, (row - first) * self.nr)
        b.if_(b.icmp("eq", block, 0), lambda: self._ask_results(row, height))
        rows, numbers = [], []
        for part in range(spec.parts):
            for r in range(height):
                begin = b.gep(k.pointer("a"), I8, b.entry(k.pointer("rows_a"), row + r))
                place = b.gep(begin, I8, k.slot("part") * part) if part else begin
                many = b.udiv(self.run, 2) if self._pairs(part) else self.run
                rows.append(b.gep(place, I8, block * many))
                b.prefetch(b.gep(rows[-1], I8, LINE))
                numbers.append(b.gep(b.gep(place, I8, k.slot("meta")), I32, block * NUMBERS))
        parts = [(rows[i : i + height], numbers[i : i + height]) for i in range(0, len(rows), height)]
        codes = self._record(start, 0).codes()
        if spec.few:
            self._at_once(parts, codes, to)
        else:
            self._one_by_one(parts, codes, to)
        b.if_(b.icmp("eq", block, k.slot("blocks") - 1), lambda: self._finish(row, row + height, first))

    def _pairs(self, part: int) -> bool:
        """Whether a byte of a part is for a pair of numbers, and multiplied by the words as they are."""
        return self.spec.paired and part == self.spec.parts - 1

    def _joined(self, upper: list[Value], lower: list[Value]) -> list[Value]:
        """Sums of digits, and of the next finer ones."""
        b, bits = self.b, digit_bits(self.spec.width, self.spec.parts)
        return [b.add(b.shl(x, bits), y) for x, y in zip(upper, lower, strict=True)]

    def _at_once(self, parts: list[tuple[list[Value], list[Value]]], codes: Value, to: Value) -> None:
        """All parts of the rows while codes are in registers."""
        b, spec = self.b, self.spec
        height = len(parts[0][0])
        count = height * spec.nv
        begin = [self._begin(numbers, part) for part, (_, numbers) in enumerate(parts)]
        with b.loop(0, self.k.slot("groups"), carry=[x for some in begin for x in some]) as group:
            sums = list(group.carried)
            words = self._words(codes, group.index)
            for i in range(self.per):
                right = [self._codes(w, i) for w in words]
                for part, (rows, _) in enumerate(parts):
                    if not self._pairs(part):
                        self._dots(sums, part * count, right, rows, group.index * self.steps + 4 * i)
                    elif i == 0:
                        self._dots(sums, part * count, words, rows, group.index * 4)
            group.next(*sums)
        total = group.results[:count]
        for part, (_, numbers) in enumerate(parts):
            last = part == len(parts) - 1
            if not spec.merged or last:
                self._add(total, parts[0][1] if spec.merged else numbers, to)
            if not last:
                after = group.results[(part + 1) * count : (part + 2) * count]
                total = self._joined(total, after) if spec.merged else after

    def _one_by_one(self, parts: list[tuple[list[Value], list[Value]]], codes: Value, to: Value) -> None:
        """One part of the rows after the other, from bytes in scratch memory, so that a tile is of many rows."""
        b, spec = self.b, self.spec
        total: list[Value] = []
        for part, (rows, numbers) in enumerate(parts):
            begin = self._begin(numbers, part)
            if spec.merged and part:
                begin = self._joined(total, begin)
            with b.loop(0, self.k.slot("groups"), carry=begin) as group:
                sums = list(group.carried)
                if self._pairs(part) or self.per == 1:
                    self._dots(sums, 0, self._words(codes, group.index), rows, group.index * 4)
                else:
                    for i in range(self.per):
                        right = [b.load(self.ints, self._byte(group.index, i, j), align=4) for j in range(spec.nv)]
                        self._dots(sums, 0, right, rows, group.index * self.steps + 4 * i)
                group.next(*sums)
            total = group.results
            if not spec.merged or part == len(parts) - 1:
                self._add(total, parts[0][1] if spec.merged else numbers, to)

    def _begin(self, numbers: list[Value], part: int) -> list[Value]:
        """What the integers of a part begin with: all of ``half`` too much that codes have, with the last digit where
        digits become one number."""
        b, spec = self.b, self.spec
        if not self.half or (spec.merged and part < spec.parts - 1):
            return [b.const(self.ints, 0)] * (len(numbers) * spec.nv)
        return [
            begin for place in numbers for begin in [b.splat(b.load(I32, b.gep(place, I32, 2)), self.lanes)] * spec.nv
        ]

    def _dots(self, sums: list[Value], first: int, right: list[Value], rows: list[Value], at: Value) -> None:
        """Four codes of each column times four bytes of each row, added to ``sums`` from ``first`` on."""
        b, small = self.b, I8.vec(4 * self.lanes)
        for r, row in enumerate(rows):
            left = b.bitcast(b.splat(b.load(I32, b.gep(row, I8, at), align=1), self.lanes), small)
            for j, codes in enumerate(right):
                n = first + r * len(right) + j
                sums[n] = b.perform(self.product, self.ints, sums[n], b.bitcast(codes, small), left)

    def _keep_factors(self, start: Value) -> None:
        """Scales and offsets of a block, in scratch memory until its sums are there: processors fetch what is read from
        front to back."""
        b, spec = self.b, self.spec
        for j in range(spec.nv):
            record = self._record(start, j)
            for i, factor in enumerate((record.scale(), self._offset(record))):
                if factor is not None:
                    b.store(factor, b.gep(self.factors, self.acc, i * spec.nv + j))

    def _add(self, sums: list[Value], numbers: list[Value], to: Value) -> None:
        """Adds a block's integers, times their scales, to the sums in f32 from ``to`` on."""
        b, spec = self.b, self.spec
        for j in range(spec.nv):
            scale, offset = (b.load(self.acc, b.gep(self.factors, self.acc, i * spec.nv + j)) for i in (0, 1))
            for r, place in enumerate(numbers):
                where = b.gep(to, self.acc, r * spec.nv + j)
                total = b.load(self.acc, where)
                if spec.zeros != "none":
                    total = b.fma(offset, b.splat(b.load(F32, b.gep(place, F32, 1)), self.lanes), total)
                scaled = b.mul(b.convert("sitofp", sums[r * spec.nv + j], self.acc), scale)
                b.store(b.fma(scaled, b.splat(b.load(F32, place), self.lanes), total), where)

    def _offset(self, record: BlockCode) -> Value | None:
        """What a number of A is multiplied by besides the codes less ``half``, times ``2^SHIFT``."""
        b, zeros = self.b, self.spec.zeros
        if zeros == "none":
            return None
        return b.fneg(b.mul(record.zero(), record.scale())) if zeros == "i8" else record.zero()
