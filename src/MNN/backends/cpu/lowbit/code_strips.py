"""Code generation of the kernels in :mod:`MNN.backends.cpu.lowbit.strips`."""

from __future__ import annotations

import functools

from MNN.backends.cpu.amx.split import PRODUCTS, pair
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS, TILE_BYTES, Tiles, state_bytes
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.halves import to_bf16
from MNN.backends.cpu.lang.module import F32, I8, I64, Kernel, Value
from MNN.backends.cpu.lang.parts import parts_of
from MNN.backends.cpu.lowbit.code import LINE, asks_ahead
from MNN.backends.cpu.lowbit.layout import VECTORS, BlockCode, block_record
from MNN.backends.cpu.lowbit.strips import STEP, STRIP, SUMS, StripRowsSpec, StripTilesSpec, step_bytes
from MNN.backends.cpu.lowbit.words import Reader
from MNN.backends.cpu.products.epilogue import SUM, Epilogue
from MNN.backends.cpu.products.tile_store import TileStore
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can

_LANES = 16
_TILES = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Rows and columns of the tiles of sums."""
_LEFT, _RIGHT = 4, 6
"""The first tile registers of A and of B."""
_SUM_LINE = 4 * STRIP
_AT_ONCE = 2
"""Rows that are finished beside the products of a step."""


@generates(StripRowsSpec)
def emit_strip_rows(spec: StripRowsSpec, target: Target) -> str:
    """The module's text."""
    k = Kernel.of(spec.slots(), target)
    b, steps, type_, step_size = k.b, k.slot("steps"), storage_type(spec.x), step_bytes(spec.parts)

    def bring(step: Value, row: Value, tile: Value, first: Value) -> None:
        """A step of one row."""
        source = b.gep(k.pointer("x"), type_, b.entry(k.pointer("rows_x"), first + row))
        to = b.gep(tile, I8, step * step_size + row * ROW_BYTES)
        low, high = (
            parts_of(b, element.load(b, spec.x, b.gep(source, type_, step * STEP + i), _LANES), spec.parts)
            for i in (0, _LANES)
        )
        for part in range(spec.parts):
            b.store(to_bf16(b, low[part], high[part]), b.gep(to, I8, part * 2 * TILE_BYTES))

    with b.loop(k.begin, k.end) as tile:
        first = tile.index * ROWS
        count = b.intrinsic("smin", k.slot("m") - first, b.const(I64, ROWS))
        strip = b.gep(k.pointer("y"), I8, b.lshr(tile.index, 1) * steps * step_size)
        half = b.gep(strip, I8, b.and_(tile.index, 1) * TILE_BYTES)
        # Tile by tile: what is written row by row lies too far apart to be fetched ahead.
        with b.loop(0, steps) as step, b.loop(0, count) as row:
            bring(step.index, row.index, half, first)
    return k.finish()


@generates(StripTilesSpec)
def emit_strip_tiles(spec: StripTilesSpec, target: Target) -> str:
    """The module's text."""
    return StripTiles(spec, target).emit()


class StripTiles(TileStore):
    """The state of one emission: chunks of the sums' depth, panels of columns, strips of rows."""

    begins = False

    def __init__(self, spec: StripTilesSpec, target: Target) -> None:
        super().__init__(spec, target)
        k, b = self.k, self.b
        self.spec, self.step = spec, step_bytes(spec.parts)
        self.wide = VECTORS * _LANES
        self.reader = Reader(k, target, spec, self.wide, floats=True)
        self.record = self.reader.bytes_of(k.slot("groups")) + block_record(spec.zeros, spec.factors, self.wide).size
        self.steps, self.chunk = k.slot("steps"), k.slot("chunk")
        self.half = self.chunk * self.step
        state = b.gep(k.scratch, I8, self.half * 2)
        self.tiles = Tiles(k, target, state)
        self.sums = b.gep(state, I8, state_bytes(target, can.TILE_DOT_BF16))

    def emit(self) -> str:
        k, b = self.k, self.b
        n, nb, mb, width = k.slot("n"), k.slot("nb"), k.slot("mb"), self.spec.columns
        n_blocks = b.udiv(n + nb - 1, nb)
        own = [kind != SUM for kind in self.kinds]
        self.c, self.ops = k.pointer("c"), [k.pointer(f"op{i}") if o else self.sums for i, o in enumerate(own)]
        several = b.icmp("slt", self.chunk, self.steps)
        across = b.select(several, b.udiv(mb, STRIP) * SUMS, 0)  # bytes of sums from panel to panel
        with self.tiles.configured(), b.loop(k.begin, k.end) as block:
            part = b.udiv(block.index, n_blocks)
            n0, m0 = (block.index - part * n_blocks) * nb, part * mb
            self.m1 = b.intrinsic("smin", m0 + mb, k.slot("m"))
            n1 = b.select(b.icmp("slt", m0, self.m1), b.intrinsic("smin", n0 + nb, n), n0)
            strips = b.intrinsic("smax", b.udiv(self.m1 - m0 + STRIP - 1, STRIP), b.const(I64, 1))
            with b.loop(0, self.steps, self.chunk) as chunk:
                self.first, self.past = chunk.index, b.intrinsic("smin", chunk.index + self.chunk, self.steps)
                self.last = b.icmp("eq", self.past, self.steps)
                words = (self.past - self.first) * (2 * STEP // self.reader.steps)
                nothing, other = b.const(I64, 0), b.gep(k.scratch, I8, self.half)
                self._take_apart(nothing, b.select(b.icmp("slt", n0, n1), words, nothing), n0, k.scratch)
                with b.loop(n0, n1, width, carry=[self.sums, k.scratch, other]) as column:
                    self.column, self.columns = column.index, n1 - column.index
                    place, self.panel, self.coming = column.carried
                    # The panel behind this one is taken apart beside the products of this one.
                    wanted = b.select(b.icmp("slt", column.index + width, n1), words, nothing)
                    pace = b.udiv(wanted + strips - 1, strips)
                    with b.loop(m0, self.m1, STRIP, carry=[nothing, nothing, self.sums, nothing]) as row:
                        number = b.lshr(row.index - m0, 5)
                        begin, end, before, done = row.carried
                        until = b.intrinsic("smin", (number + 1) * pace, wanted)
                        number = b.select(several, number, b.and_(number, 1))
                        sums = b.gep(place, I8, number * SUMS)
                        done = self._strip(row.index, sums, begin, end, before, done, until)
                        end = b.intrinsic("smin", row.index + STRIP, self.m1)
                        row.next(row.index, b.select(self.last, end, row.index), sums, done)
                    begin, end, sums, done = row.results
                    self._finish_rows(begin, end, begin, sums)
                    self._take_apart(done, wanted, column.index + width, self.coming)
                    column.next(b.gep(place, I8, across), self.coming, self.panel)
        return k.finish()

    def tile_load(self, r: Value, c: Value, lanes: int) -> Value:
        """Sums from scratch."""
        return self.b.load(F32.vec(lanes), self.b.gep(self.tile, F32, r * STRIP + c))

    def row_tables(self, row: Value) -> None:
        super().row_tables(row)
        if self.spec.halves:
            self.op_rows[0] = self.b.gep(self.tile, F32, _LANES)

    def _finish_rows(self, begin: Value, end: Value, first: Value, sums: Value) -> None:
        """Stores the results of some rows, of which those of ``first`` lie at the beginning of ``sums``."""
        b = self.b
        with b.loop(begin, end) as row:
            self.tile = b.gep(sums, I8, (row.index - first) * _SUM_LINE)
            self.finish(row.index, [], 1)

    def _take_apart(self, first: Value, past: Value, column: Value, to: Value) -> None:
        """Some words of the chunk's steps of the panel at ``column``, as tiles at ``to``."""
        with self.b.loop(first, past) as word:
            self._take_word_apart(word.index, column, to)

    def _take_word_apart(self, word: Value, column: Value, to: Value) -> None:
        """Words are numbered along the depth, those of both column tiles in turns."""
        k, b, spec = self.k, self.b, self.spec
        groups, numbers = k.slot("groups"), self.reader.steps
        second, along = b.icmp("ne", b.and_(word, 1), 0), b.lshr(word, 1)
        column = column + b.select(second, k.slot("n") if spec.halves else b.const(I64, _LANES), b.const(I64, 0))
        group = self.first * (STEP // numbers) + along
        block = b.udiv(group, groups)
        panel = b.udiv(column, self.wide) * k.slot("blocks") + block
        start, at = b.gep(k.pointer("b"), I8, panel * self.record), b.urem(column, self.wide)
        record = BlockCode(b, spec, self.wide, start, at, _LANES)
        scale, zero = record.scale(0), None if spec.zeros == "none" else record.zero(0)
        places = self.reader.places(record.codes(), group - block * groups)
        codes = self.reader.group(places, _LANES)
        for place in places:
            asks_ahead(b, self.target, [place])
        row = along * (numbers // 2)  # of pairs
        to = b.gep(to, I8, b.lshr(row, 4) * self.step + b.and_(row, ROWS - 1) * ROW_BYTES)
        to = b.gep(to, I8, b.and_(word, 1) * TILE_BYTES)
        for u in range(0, numbers, 2):
            even, odd = (self._parts(codes.number(i), scale, zero) for i in (u, u + 1))
            for part in range(spec.parts):
                line = 2 * part * TILE_BYTES + u // 2 * ROW_BYTES
                b.store(pair(b, even[part], odd[part]), b.gep(to, I8, line))

    def _parts(self, code: Value, scale: Value, zero: Value | None) -> list[Value]:
        """The parts of what codes stand for."""
        b = self.b
        if zero is None:
            value = b.mul(code, scale)
        elif self.spec.zeros == "offset":
            value = b.fma(code, scale, zero)
        else:
            value = b.mul(b.sub(code, zero), scale)
        return parts_of(b, value, self.spec.parts, True)

    def _strip(
        self, row: Value, sums: Value, begin: Value, end: Value, before: Value, word: Value, until: Value
    ) -> Value:
        """The sums of a chunk, of a strip of rows and the panel; in between the results ``begin <= i < end`` of the
        strip before, whose sums lie at ``before``, and words of the panel behind, from ``word`` on: the last steps have
        those up to ``until``, as the first ones have results. Gives the number of the next word."""
        k, b, tiles = self.k, self.b, self.tiles
        strip = b.gep(k.pointer("a"), I8, b.udiv(row, STRIP) * self.steps * self.step)
        held = [b.gep(sums, I8, r * ROWS * _SUM_LINE + c * ROW_BYTES) for r, c in _TILES]

        def zero() -> tuple[()]:
            for number in range(len(held)):
                tiles.zero(number)
            return ()

        def load() -> tuple[()]:
            for number, place in enumerate(held):
                tiles.load(number, place, _SUM_LINE)
            return ()

        b.if_else(b.icmp("eq", self.first, 0), zero, load, likely=True)
        whole = b.and_(b.icmp("eq", end - begin, STRIP), b.icmp("sge", self.columns, self.spec.columns))
        behind = self.column + self.spec.columns
        with b.loop(self.first, self.past, carry=[self.panel, word], guard=False) as step:
            left, (right, word) = b.gep(strip, I8, step.index * self.step), step.carried
            self._products(left, right)
            at = (step.index - self.first) * _AT_ONCE
            beside = functools.partial(self._finish_beside, at, row, whole, begin, before)
            b.if_(b.and_(self.last, b.icmp("slt", at, STRIP)), beside)
            apart = b.icmp("sge", until - word, self.past - step.index)
            b.if_(apart, functools.partial(self._take_word_apart, word, behind, self.coming))
            step.next(b.gep(right, I8, self.step), b.select(apart, word + 1, word))
        for number, place in enumerate(held):
            tiles.store(number, place, _SUM_LINE)
        done = begin + b.intrinsic("smin", (self.past - self.first) * _AT_ONCE, b.const(I64, STRIP))
        self._finish_rows(b.select(whole, done, begin), end, begin, before)
        return step.results[1]

    def _finish_beside(self, at: Value, row: Value, whole: Value, begin: Value, sums: Value) -> None:
        """Some rows of the strip before, from its row ``at`` on, where it is ``whole``. Memory of those of the strip
        that begins at ``row`` is asked for, as it is often far away."""
        b = self.b
        size = self.out_type.size
        for i in range(_AT_ONCE):
            self.row_tables(b.intrinsic("smin", row + at + i, self.m1 - 1))
            for line in range(0, self.spec.columns * size, LINE):
                b.prefetch(b.gep(self.c_row, I8, line), 2)

        def finish() -> None:
            epilogue = Epilogue(b, self.sums_in, self.out, self.body)
            for i in range(_AT_ONCE):
                self.tile = b.gep(sums, I8, (at + i) * _SUM_LINE)
                self.row_tables(begin + at + i)
                places = [b.const(I64, c) for c in range(0, self.spec.columns, _LANES)]
                values = [self.tile_load(b.const(I64, 0), place, _LANES) for place in places]
                self.store_vectors(epilogue, values, places[0])

        b.if_(whole, finish)

    def _products(self, left: Value, right: Value) -> None:
        """Those of a step. The panel stays in the nearest cache, rows pass through it."""
        b, tiles = self.b, self.tiles
        there: dict[int, int] = {}

        def bring(register: int, side: Value, part: int, tile: int, passing: bool) -> None:
            if there.get(register) != part:
                at = b.gep(side, I8, (2 * part + tile) * TILE_BYTES)
                tiles.load(register, at, ROW_BYTES, passing=passing)
                there[register] = part

        for left_part, right_part in PRODUCTS[self.spec.parts]:
            for number, (r, c) in enumerate(_TILES):
                bring(_LEFT + r, left, left_part, r, True)
                bring(_RIGHT + c, right, right_part, c, False)
                tiles.dot(number, _LEFT + r, _RIGHT + c)


__all__ = ["StripTiles", "emit_strip_rows", "emit_strip_tiles"]
