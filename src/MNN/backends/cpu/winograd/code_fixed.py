"""Code generation of :class:`MNN.backends.cpu.winograd.spec.WinogradSpec` in fixed point, see
:mod:`MNN.backends.cpu.winograd.fixed`.

The transform of a tile works on vectors of 32 channels, those at even and those at odd places as two vectors of f32.
"""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import Tail, make_tail
from MNN.backends.cpu.lang.module import BF16, F32, I16, I32, I64, Value
from MNN.backends.cpu.math.rounding import to_nearest
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.winograd.code import Winograd
from MNN.backends.cpu.winograd.fixed import WIDTH, scale_of
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.backends.cpu.winograd.transform import few_products
from MNN.ir.dtype import DType

_LEAST = 1e-30
"""Tiles whose largest input is smaller than that count as zeros."""
_MAGNITUDES = 0x7FFF7FFF


class FixedWinograd(Winograd):
    """The state of one emission."""

    def __init__(self, spec: WinogradSpec, target: Target) -> None:
        super().__init__(spec, target)
        assert self.lanes * 2 == WIDTH
        self.wide = F32.vec(self.lanes)

    def emit(self) -> str:
        self.limit = scale_of(self.spec.filterings)
        return super().emit()

    # -- stage 1 ------------------------------------------------------------------------------------------------------

    def _tile_factor(self, index: Value) -> Value:
        """Where the scales of tiles lie, and behind each what the tile's sums are multiplied by."""
        behind = self.b.gep(self.tile_memory, F32, self.spec.mh * self.spec.mw * self.lanes)
        return self.b.gep(behind, F32, index)

    def _pairs(self, pointer: Value, tail: Tail | None) -> Value:
        """32 bf16 as pairs of neighbours; zeros for those behind the last."""
        if tail is None:
            return self.b.load(I32.vec(self.lanes), pointer, align=2)
        return self.b.bitcast(self.b.load_masked(I16.vec(WIDTH), pointer, tail.mask), I32.vec(self.lanes))

    def _inputs(self) -> None:
        with self.b.loop(0, self.count) as tile:  # apart, so that what a scale waits for is not waited for by the rest
            self._scale_tile(tile.index)
        with self._slices() as place, self.b.loop(0, self.count) as tile:
            self._transform_tile(tile.index, place)

    def _places(self, tile: Value, slice_: Value | None) -> Callable[[Value], tuple[list[Value], list[Value]]]:
        """For a channel: the addresses of a tile's rows, and the offsets of its columns."""
        k, b = self.k, self.b
        height, width = self.f_h.inputs, self.f_w.inputs
        base = self._slice(b.gep(k.pointer("x"), BF16, self._entry(tile, "x")), BF16, tile, slice_)
        last_row, last_column = self._entry(tile, "last_row"), self._entry(tile, "last_column")
        ends = [(i, last_row, "row_x") for i in range(1, height)] + [(j, last_column, "col_x") for j in range(1, width)]
        offsets = [b.intrinsic("smin", b.const(I64, i), last) * k.slot(slot) for i, last, slot in ends]
        hidden = self._hide(offsets)

        def places(channel: Value) -> tuple[list[Value], list[Value]]:
            found = hidden()
            first = b.gep(base, BF16, channel)
            rows = [first, *(b.gep(first, BF16, offset) for offset in found[: height - 1])]
            return rows, [b.const(I64, 0), *found[height - 1 :]]

        return places

    def _vectors(
        self, carry: list[Value], body: Callable[[Value, list[Value], Tail | None], list[Value]]
    ) -> list[Value]:
        """``body`` for every 32 channels, with values that go from one to the next."""
        b, c = self.b, self.k.slot("c")
        whole = b.and_(c, -WIDTH) if self.spec.c_tail else c
        with b.loop(0, whole, WIDTH, carry=carry) as vector:
            vector.next(*body(vector.index, vector.carried, None))
        if not self.spec.c_tail:
            return vector.results
        with b.loop(whole, c, WIDTH, carry=vector.results) as last:  # at most once
            last.next(*body(last.index, last.carried, make_tail(b, c - last.index, WIDTH)))
        return last.results

    def _scale_tile(self, tile: Value) -> None:
        """Keeps a tile's scale, and what its sums are multiplied by."""
        b, zeros = self.b, self.b.const(I32.vec(self.lanes), 0)

        def most_of(place: Value | None, most: Value) -> Value:
            places = self._places(tile, place)

            def look(channel: Value, most: list[Value], tail: Tail | None) -> list[Value]:
                return [self._most(*places(channel), channel, most[0], tail)]

            return self._vectors([most], look)[0]

        if self.spec.deep:
            with b.loop(0, self.k.slot("n_slices"), carry=[zeros]) as slices:
                slices.next(most_of(slices.index, slices.carried[0]))
            most = slices.results[0]
        else:
            most = most_of(None, zeros)
        top = b.bitcast(b.call(I32, f"llvm.vector.reduce.umax.{most.type.suffix}", most), F32)
        number = b.select(b.fcmp("olt", top, _LEAST), b.const(F32, _LEAST), top)
        b.store(b.fdiv(b.const(F32, self.limit), number), self._tile_factor(tile * 2))
        # inf - inf is NaN, which the sums of such a tile become.
        b.store(b.add(b.sub(top, top), b.mul(number, 1.0 / self.limit)), self._tile_factor(tile * 2 + 1))

    def _transform_tile(self, tile: Value, slice_: Value | None) -> None:
        b, places = self.b, self._places(tile, slice_)
        hidden = self._hide([self.step_v])
        to = b.gep(self.v, F32, self._row(tile, slice_) * self.row_v)
        scale = b.splat(b.load(F32, self._tile_factor(tile * 2)), self.lanes)

        def transform(channel: Value, nothing: list[Value], tail: Tail | None) -> list[Value]:
            rows, columns = places(channel)
            place, (step,) = b.gep(to, F32, b.lshr(channel, 1)), hidden()
            factors = [b.mul(factor, scale) for factor in self._channel_factors(channel)]
            self._tile(rows, columns, place, step, factors, tail)
            return nothing

        self._vectors([], transform)

    def _channel_factors(self, channel: Value) -> list[Value]:
        """What even and odd channels are multiplied by."""
        b = self.b
        at = b.gep(self.k.pointer("factors"), F32, channel)
        return [b.load(self.wide, b.gep(at, F32, i * self.lanes)) for i in (0, 1)]

    def _most(self, rows: list[Value], offsets: list[Value], channel: Value, most: Value, tail: Tail | None) -> Value:
        """The largest magnitudes, as bits of f32 in the order of unsigned numbers, with those of the tile's inputs at
        ``channel ..`` times the channels' factors. NaN is larger than all numbers."""
        b = self.b
        top = b.const(I16.vec(WIDTH), 0)
        for row in rows:
            for offset in offsets:
                pairs = b.and_(self._pairs(b.gep(row, BF16, offset), tail), _MAGNITUDES)
                top = b.intrinsic("umax", top, b.bitcast(pairs, I16.vec(WIDTH)))
        pairs = b.bitcast(top, I32.vec(self.lanes))
        factors = self._channel_factors(channel)
        for half, factor in enumerate(factors):
            found = b.bitcast(b.mul(self._half(pairs, half), factor), I32.vec(self.lanes))
            most = b.intrinsic("umax", most, found)
        return most

    def _half(self, pairs: Value, half: int) -> Value:
        """The even or the odd ones of pairs of bf16, in f32."""
        b = self.b
        return b.bitcast(b.and_(pairs, -0x10000) if half else b.shl(pairs, 16), self.wide)

    def _tile(
        self,
        rows: list[Value],
        offsets: list[Value],
        to: Value,
        step_v: Value,
        factors: list[Value],
        tail: Tail | None,
    ) -> None:
        """Transforms 32 channels of a tile, times their ``factors``, and stores them as 16-bit numbers."""
        b = self.b
        for step in self.f_h.steps():
            matrix = [self.f_h.bt[i] for i in step]
            lines: tuple[list[list[Value]], list[list[Value]]] = ([], [])  # of a half, by column, the rows of the step
            for offset in offsets:
                used = [i for i in range(len(rows)) if any(row[i] for row in matrix)]
                pairs = {i: self._pairs(b.gep(rows[i], BF16, offset), tail) for i in used}
                for half, line in enumerate(lines):
                    values = {i: self._half(pair, half) for i, pair in pairs.items()}
                    line.append(few_products(b, matrix, values.__getitem__))
            for row in range(len(step)):
                for across in self.f_w.steps():
                    both = [
                        few_products(b, [self.f_w.bt[i] for i in across], [column[row] for column in line].__getitem__)
                        for line in lines
                    ]
                    for even_odd in zip(*both, strict=True):
                        whole = [to_nearest(b, b.mul(v, f)) for v, f in zip(even_odd, factors, strict=True)]
                        b.store(b.perform(can.PACK_I32, I16.vec(WIDTH), *whole), to)
                        to = b.gep(to, F32, step_v)

    # -- stage 2 ------------------------------------------------------------------------------------------------------

    def _dot(self, total: Value, left: Value, right: Value) -> Value:
        b, pairs = self.b, I16.vec(WIDTH)
        return b.perform(can.DOT2_I16, total.type, total, b.bitcast(right, pairs), b.bitcast(left, pairs))

    def _product(self, v: Value, row: Value, right: list[Value], to: Value) -> None:
        k, b, spec = self.k, self.b, self.spec
        rows = []
        for r in range(spec.mr):
            index = row if r == 0 else b.intrinsic("smin", row + r, self.rows - 1)
            rows.append(b.gep(v, F32, index * self.row_v))
        chunk = k.slot("chunk")
        columns = (k.slot("n") + (self.nr - 1)) // self.nr * self.nr
        place = self._factor(self.position) * columns + (self.n0 + self.panel_column)
        if spec.chunked:
            place = place * b.udiv(self.depth + (chunk - 1), chunk)
        scales = b.gep(k.pointer("scales"), F32, place)
        if spec.deep:
            scales = b.gep(scales, F32, self.tap * k.slot("u_tap"))
        if not spec.chunked:
            sums = self._sums(rows, b.const(I64, 0), self.depth, right)
            self._first(None, lambda add: self._write_scaled(sums, to, scales, add))
            return
        with b.loop(0, self.depth, chunk, carry=[scales, *right]) as part:
            past = b.intrinsic("smin", part.index + chunk, self.depth)
            results = self._sums(rows, part.index, past, part.carried[1:])
            self._first(part.index, lambda add: self._write_scaled(results, to, part.carried[0], add))
            part.next(b.gep(part.carried[0], F32, self.nr), *results[-len(right) :])

    def _write_scaled(self, sums: list[Value], to: Value, scales: Value, add: bool) -> tuple[()]:
        """Stores what ``sums`` begins with as f32, times the columns' scales, or adds it."""
        b, spec = self.b, self.spec
        by = [b.load(self.wide, b.gep(scales, self.wide, j)) for j in range(spec.nv)]
        for r in range(spec.mr):
            row = b.gep(to, F32, self.row_m * r)
            for j in range(spec.nv):
                pointer = b.gep(row, self.wide, j)
                value = b.convert("sitofp", sums[r * spec.nv + j], self.wide)
                b.store(b.fma(value, by[j], b.load(self.wide, pointer)) if add else b.mul(value, by[j]), pointer)
        return ()

    # -- stage 3 ------------------------------------------------------------------------------------------------------

    def _output_tile(self, source: Value, step_m: Value, lanes: int, tile: Value) -> list[Value]:
        b = self.b
        factor = b.splat(b.load(F32, self._tile_factor(tile * 2 + 1)), lanes)
        return [b.mul(value, factor) for value in super()._output_tile(source, step_m, lanes, tile)]


@generates(WinogradSpec, fixed=True)
def emit_fixed(spec: WinogradSpec, target: Target) -> str:
    """The module's text."""
    assert spec.x is DType.BF16
    return FixedWinograd(spec, target).emit()
