"""Code generation of :class:`MNN.backends.cpu.lowbit.int8.Int8Spec`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.routed_rows import rows_of_block
from MNN.backends.cpu.lang.module import F32, I8, I16, I32, I64, Value
from MNN.backends.cpu.lowbit.code import LINE
from MNN.backends.cpu.lowbit.int8 import Int8Spec, flipped, half_of, sums_fours
from MNN.backends.cpu.lowbit.layout import VECTORS, BlockCode, block_record
from MNN.backends.cpu.lowbit.rounded_rows import NUMBERS, digit_bits
from MNN.backends.cpu.lowbit.words import BYTE, Group, Reader, bits_of
from MNN.backends.cpu.products.tile_store import TileStore
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

Part = tuple[list[Value], list[Value]]
"""Where the bytes of a block of some rows begin, and what belongs to it."""
Begin = Callable[[], list[Value]]


@generates(Int8Spec)
def emit_int8(spec: Int8Spec, target: Target) -> str:
    """The module's text."""
    return Int8Rows(spec, target).emit()


class Int8Rows(TileStore):
    """The state of one emission. Columns of a panel, tiles of rows, blocks: a tile's sums in f32 and the integers of a
    block are in registers, and words are taken apart for each tile, or once for all rows of a block (``expanded``).
    (Where sums in f32 waited in memory meanwhile, so that codes could stay in registers for many rows, it took a tenth
    longer.)"""

    begins = False

    def __init__(self, spec: Int8Spec, target: Target) -> None:
        super().__init__(spec, target)
        self.spec, self.half = spec, half_of(target, spec)
        self.acc, self.sums_in = F32.vec(self.lanes), DType.F32
        self.wide, self.ints = VECTORS * self.lanes, I32.vec(self.lanes)
        self.each = 2 if spec.wide else 4
        """Numbers of a row that a lane of 32 bits multiplies."""
        self.reader = Reader(self.k, target, spec, self.wide, flip=flipped(target, spec))
        self.steps = self.reader.steps
        self.per = self.steps // self.each
        self.narrow = not (spec.wide or sums_fours(target))
        self.asks = not target.fetches_ahead or target.vector_bytes < LINE
        """Whether weights come faster when they are asked for, also where one tile reads them from front to back: with
        vectors of 64 bytes, one row would lose 40 % of what memory gives to Zen 4; with those of 32 it gains a fifth on
        Zen 3."""
        self.product = can.DOT4_UNSIGNED if target.can(can.DOT4_UNSIGNED) else can.DOT4_SIGNED

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        n, nb = k.slot("n"), k.slot("nb")
        self.run = k.slot("groups") * self.steps
        self.record_bytes = (
            self.reader.bytes_of(k.slot("groups")) + block_record(spec.zeros, spec.factors, self.wide).size
        )
        n_blocks = b.udiv(n + nb - 1, nb)
        self.c, self.ops = k.pointer("c"), [k.pointer(f"op{i}") for i in range(len(spec.operands))]
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
                if spec.expanded:
                    self._expand(panel)
                self._rows(m0, panel)
        return k.finish()

    def _expand(self, panel: Value) -> None:
        """Takes the codes of the tile's columns apart, to scratch memory: in the order in which they are multiplied."""
        k, b, nv = self.k, self.b, self.spec.nv
        self.expanded, self.taken_bytes = (
            b.gep(k.scratch, self.acc, nv * (self.spec.mr + 2)),
            self.per * nv * 4 * self.lanes,
        )
        with b.loop(0, k.slot("blocks")) as block:
            codes = self._record(b.gep(panel, I8, block.index * self.record_bytes), 0).codes()
            with b.loop(0, k.slot("groups")) as group:
                to = b.gep(self.expanded, I8, (block.index * k.slot("groups") + group.index) * self.taken_bytes)
                groups = self._groups(codes, group.index)
                for i in range(self.per):
                    for j, taken in enumerate(self._taken(g, i) for g in groups):
                        b.store(b.bitcast(taken, self.ints), b.gep(to, self.ints, i * nv + j))

    def _taken(self, group: Group, i: int) -> Value:
        """The codes of a group that are multiplied together, ``i``-th."""
        return group.pairs(i) if self.spec.wide else group.bytes(i)

    def _rows(self, first: Value, panel: Value) -> None:
        """All rows from ``first`` on, times a panel: tiles of one row, which are slow, only where there is one."""
        b, highest = self.b, self.spec.mr
        begin, past = first, self.m1
        for height in sorted({highest, *range(min(highest, 3), 0, -1)}, reverse=True):
            left = b.urem(past - begin, height)
            if height > 2:
                left = b.select(b.icmp("eq", left, 1), b.const(I64, height + 1), left)
            end = b.intrinsic("smax", past - left, begin)
            with b.loop(begin, end, height) as row:
                self._tile(row.index, first, height, panel)
            begin = end

    def _groups(self, codes: Value, group: Value) -> list[Group]:
        """A group of each vector of the tile's columns."""
        b = self.b
        starts = [b.gep(codes, I32, j * self.lanes) for j in range(self.spec.nv)]
        return [self.reader.group(self.reader.places(start, group), self.lanes) for start in starts]

    def _record(self, start: Value, j: int) -> BlockCode:
        """What the block at ``start`` says about vector ``j`` of the tile's columns."""
        return BlockCode(self.b, self.spec, self.wide, start, self.first + j * self.lanes, self.lanes)

    def _ask_results(self, row: Value, height: int) -> None:
        """Asks for the memory of results long before they are stored: it is often far away."""
        b, size = self.b, self.out_type.size
        for r in range(height):
            self.row_tables(row + r)
            for at in range(0, self.nr * size, LINE):
                b.prefetch(b.gep(self.c_row, I8, at), 2)

    def _tile(self, row: Value, first: Value, height: int, panel: Value) -> None:
        """``height`` rows from ``row`` on times a panel, of all rows from ``first`` on."""
        k, b, spec = self.k, self.b, self.spec
        self._ask_results(row, height)
        begins = [b.gep(k.pointer("a"), I8, b.entry(k.pointer("rows_a"), row + r)) for r in range(height)]
        places = [[b.gep(x, I8, k.slot("part") * part) if part else x for x in begins] for part in range(spec.parts)]
        metas = [[b.gep(place, I8, k.slot("meta")) for place in some] for some in places]
        sums = self._at_once if self._fit(height) else self._one_by_one
        ahead, each = self._share(row - first, self.m1 - first, height, panel)
        with b.loop(0, k.slot("blocks"), carry=[*[b.const(self.acc, 0)] * (height * spec.nv), panel]) as block:
            start = block.carried[-1]
            if spec.expanded:
                begin_of_block = block.index * k.slot("groups") * self.taken_bytes
                self.codes = b.gep(self.expanded, I8, begin_of_block)
            if spec.mr > 1 or self.asks:
                self._ask_weights(ahead, block.index * each, each)
            parts = []
            for part, (some, meta) in enumerate(zip(places, metas, strict=True)):
                many = b.udiv(self.run, 2) if self._pairs(part) else self.run * (1 + spec.wide)
                rows = [b.gep(place, I8, block.index * many) for place in some]
                parts.append((rows, [b.gep(place, I32, block.index * NUMBERS) for place in meta]))
            totals = list(block.carried[:-1])
            if height == 1:
                self._keep_factors(start)
            sums(parts, start, totals)
            block.next(*totals, b.gep(start, I8, self.record_bytes))
        for i, total in enumerate(block.results[:-1]):
            b.store(total, b.gep(k.scratch, self.acc, i))
        with b.loop(0, height) as line:
            self.tile = b.gep(k.scratch, F32, line.index * self.nr)
            self.finish(row + line.index, [], 1)

    def _fit(self, height: int) -> bool:
        """Whether registers hold the sums of all parts of so many rows, and what they are added to."""
        return self.spec.nv * height * (self.spec.parts + 1) <= self.target.vector_registers * 3 // 4

    def _share(self, row: Value, rows: Value, height: int, panel: Value) -> tuple[Value, Value]:
        """Where what a tile from ``row`` on, of all ``rows``, asks for of the panel behind its own begins, and bytes
        for each block. All tiles one after the other ask for the whole of it from front to back, so that memory has as
        much to do in each of them, and every page is come to once. A processor that fetches ahead well is not asked
        for codes of 8 bits that one tile alone reads: they come faster so."""
        b, side = self.b, VECTORS // self.spec.nv
        size, tiles = self.k.slot("blocks") * self.record_bytes, rows * side
        past = b.udiv(self.first, self.nr) * rows + row  # rows of tiles before this one
        begin, each = b.gep(panel, I8, size + b.udiv(past * size, tiles)), b.udiv(self.record_bytes * height, tiles)
        if not self.asks and self.spec.width == BYTE:
            each = b.select(b.icmp("eq", rows, height), 0, each)
        return begin, each

    def _ask_weights(self, ahead: Value, at: Value, count: Value) -> None:
        """Asks for the lines that begin within ``count`` bytes from ``at`` on, behind ``ahead``."""
        b = self.b
        first, past = (b.and_(x + (LINE - 1), -LINE) for x in (at, at + count))
        with b.loop(first, past, LINE) as line:
            b.prefetch(b.gep(ahead, I8, line.index), 1)  # nearer caches wait for few lines at a time

    def _pairs(self, part: int) -> bool:
        """Whether a byte of a part is for a pair of numbers, and multiplied by the words as they are."""
        return self.spec.paired and part == self.spec.parts - 1

    def _joined(self, upper: list[Value], lower: list[Value]) -> list[Value]:
        """Sums of digits, and of the next finer ones."""
        b, bits = self.b, digit_bits(bits_of(self.spec), self.spec.parts)
        return [b.add(b.shl(x, bits), y) for x, y in zip(upper, lower, strict=True)]

    def _at_once(self, parts: list[Part], start: Value, totals: list[Value]) -> None:
        """Adds the block at ``start`` to the ``totals`` of some rows, all parts of these side by side."""
        spec = self.spec
        begins = [functools.partial(self._begin, numbers, part) for part, (_, numbers) in enumerate(parts)]
        found = self._products([(part, rows) for part, (rows, _) in enumerate(parts)], start, begins)
        total = found[0]
        for part, (_, numbers) in enumerate(parts):
            last = part == len(parts) - 1
            if not spec.merged or last:
                self._add(total, parts[0][1] if spec.merged else numbers, start, totals)
            if not last:
                total = self._joined(total, found[part + 1]) if spec.merged else found[part + 1]

    def _one_by_one(self, parts: list[Part], start: Value, totals: list[Value]) -> None:
        """The same, one part after the other, so that a tile is of more rows."""
        spec = self.spec
        total: list[Value] = []
        for part, (rows, numbers) in enumerate(parts):

            def begin(before: list[Value] = total, numbers: list[Value] = numbers, part: int = part) -> list[Value]:
                found = self._begin(numbers, part)
                return self._joined(before, found) if spec.merged and part else found

            some = self._any_fine(parts[0][1]) if spec.coarse and part else None
            total = self._products([(part, rows)], start, [begin], some)[0]
            if not spec.merged or part == len(parts) - 1:
                self._add(total, parts[0][1] if spec.merged else numbers, start, totals)

    def _products(
        self, parts: list[tuple[int, list[Value]]], start: Value, begins: Sequence[Begin], some: Value | None = None
    ) -> list[list[Value]]:
        """The sums of some parts of the block at ``start``, each with what it begins with; only that where not
        ``some``."""
        b, spec = self.b, self.spec
        codes = self.codes if spec.expanded else self._record(start, 0).codes()
        groups = self.k.slot("groups")

        def first() -> list[Value]:
            return [x for begin in begins for x in begin()]

        def whole() -> list[Value]:
            """What sums begin with is added last, so that no register holds it meanwhile."""
            found = self._pairs_times_rows(parts, codes, b.const(I64, 0), groups)
            return [b.add(x, y) for x, y in zip(found, first(), strict=True)]

        if self.narrow and not spec.words:
            found = whole() if some is None else b.if_else(some, whole, first)
        else:
            groups = groups if some is None else b.select(some, groups, 0)
            with b.loop(0, groups, spec.words or 1, carry=first()) as group:
                sums = list(group.carried)
                if self.narrow:
                    more = self._pairs_times_rows(parts, codes, group.index, group.index + spec.words)
                    sums = [b.add(x, y) for x, y in zip(sums, more, strict=True)]
                else:
                    self._word_times_rows(parts, codes, group.index, sums)
                group.next(*sums)
            found = group.results
        count = len(found) // len(parts)
        return [list(found[i * count : (i + 1) * count]) for i in range(len(parts))]

    def _pairs_times_rows(
        self, parts: list[tuple[int, list[Value]]], codes: Value, first: Value, past: Value
    ) -> list[Value]:
        """The words of groups from ``first`` to ``past`` times rows of some parts: sums of pairs, which stay in 16
        bits, then in 32. (As one long sequence without a loop they would need more registers.)"""
        b, pairs = self.b, I16.vec(2 * self.lanes)
        count = len(parts[0][1]) * self.spec.nv * len(parts)
        with b.loop(first, past, carry=[b.const(pairs, 0)] * count) as group:
            sums = list(group.carried)
            self._word_times_rows(parts, codes, group.index, sums)
            group.next(*sums)
        ones = b.splat(b.const(I16, 1), 2 * self.lanes)
        return [b.perform(can.PAIRS_I16, self.ints, x, ones) for x in group.results]

    def _word_times_rows(
        self, parts: list[tuple[int, list[Value]]], codes: Value, group: Value, sums: list[Value]
    ) -> None:
        """The words of a group times rows of some parts, added to ``sums``."""
        count = len(sums) // len(parts)
        b, nv = self.b, self.spec.nv
        if self.spec.expanded:
            groups, here = [], b.gep(codes, I8, group * self.taken_bytes)
        else:
            groups, here = self._groups(codes, group), codes
        for i in range(self.per):
            if self.spec.expanded:
                right = [b.load(self.ints, b.gep(here, self.ints, i * nv + j)) for j in range(nv)]
            else:
                right = [self._taken(g, i) for g in groups]
            for number, (part, rows) in enumerate(parts):
                if not self._pairs(part):
                    at = group * (self.steps * (1 + self.spec.wide)) + 4 * i
                    self._dots(sums, number * count, right, rows, at)
                elif i == 0:
                    self._dots(sums, number * count, [g.words[0] for g in groups], rows, group * 4)

    def _any_fine(self, numbers: list[Value]) -> Value:
        """Whether a block of some rows has a second digit (see :mod:`.rounded_rows`)."""
        b = self.b
        fine = [b.load(I32, b.gep(place, I32, 2)) for place in numbers]
        while len(fine) > 1:
            fine = [*fine[2:], b.or_(fine[0], fine[1])]
        return b.icmp("ne", fine[0], 0)

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
        """Codes of each column times four bytes of each row, added to ``sums`` from ``first`` on."""
        b = self.b
        for r, row in enumerate(rows):
            left = b.splat(b.load(I32, b.gep(row, I8, at), align=1), self.lanes)
            for j, codes in enumerate(right):
                n = first + r * len(right) + j
                sums[n] = self._dot(sums[n], codes, left)

    def _dot(self, total: Value, codes: Value, left: Value) -> Value:
        """Adds products of four bytes, or of two numbers of 16 bits, to sums of 32 bits; or pairs of products of bytes
        to sums of 16."""
        b, small, pairs = self.b, I8.vec(4 * self.lanes), I16.vec(2 * self.lanes)
        if self.spec.wide:
            return b.add(total, b.perform(can.PAIRS_I16, self.ints, b.bitcast(codes, pairs), b.bitcast(left, pairs)))
        codes, left = b.bitcast(codes, small), b.bitcast(left, small)
        if self.narrow:
            return b.add(total, b.perform(can.PAIRS_BYTES, pairs, codes, left))
        return b.perform(self.product, self.ints, total, codes, left)

    def _keep_factors(self, start: Value) -> None:
        """Scales and offsets of the block at ``start``, in scratch memory until its sums are there: one row waits for
        memory, which processors fetch ahead where it is read from front to back."""
        b, spec = self.b, self.spec
        for j in range(spec.nv):
            for i, factor in enumerate(self._factors(start, j)):
                if factor is not None:
                    b.store(factor, self._kept(i, j))

    def _kept(self, i: int, j: int) -> Value:
        """Where scales (0) or offsets (1) of a vector of columns are kept, behind a tile of sums."""
        return self.b.gep(self.k.scratch, self.acc, self.spec.nv * (self.spec.mr + i) + j)

    def _kept_factors(self, j: int) -> tuple[Value, Value | None]:
        b = self.b
        scale = b.load(self.acc, self._kept(0, j))
        return scale, None if self.spec.zeros == "none" else b.load(self.acc, self._kept(1, j))

    def _factors(self, start: Value, j: int) -> tuple[Value, Value | None]:
        """Scales and offsets of the block at ``start``, for vector ``j`` of the tile's columns."""
        record = self._record(start, j)
        return record.scale(), self._offset(record)

    def _add(self, sums: list[Value], numbers: list[Value], start: Value, totals: list[Value]) -> None:
        """Adds the integers of the block at ``start``, times their scales, to ``totals``."""
        b, nv = self.b, self.spec.nv
        for j in range(nv):
            scale, offset = self._kept_factors(j) if len(numbers) == 1 else self._factors(start, j)
            for r, place in enumerate(numbers):
                total = totals[r * nv + j]
                if offset is not None:
                    total = b.fma(offset, b.splat(b.load(F32, b.gep(place, F32, 1)), self.lanes), total)
                scaled = b.mul(b.convert("sitofp", sums[r * nv + j], self.acc), scale)
                totals[r * nv + j] = b.fma(scaled, b.splat(b.load(F32, place), self.lanes), total)

    def _offset(self, record: BlockCode) -> Value | None:
        """What a number of A is multiplied by besides the codes less ``half``, times ``2^SHIFT``."""
        b, zeros = self.b, self.spec.zeros
        if zeros == "none":
            return None
        return b.fneg(b.mul(record.zero(), record.scale())) if zeros == "i8" else record.zero()
