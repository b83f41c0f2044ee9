"""Resizing: weighted sums of a few rows of the source, then of a few of their pixels; or pixels picked as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.lines import move, put_line
from MNN.backends.cpu.image.numbers import widened
from MNN.backends.cpu.lang.element import Tail, load, make_tail, storage_type
from MNN.backends.cpu.lang.module import F32, I8, I64, PTR, Builder, Kernel, Value, int_type
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

_UNROLL = 4
_LINE = 64
_HALVED = 16
"""Pixels that are worked on at a time where pictures are halved."""


@dataclass(frozen=True)
class ResizeSpec(KernelSpec):
    """``out[y, x, c] = sum over i, j of y_weights[y, i] * x_weights[j, x] * src[y_places[y, i], x_places[x] + j, c]``,
    computed in f32 and rounded to ``result``; 1 to 4 ``channels`` beside each other. ``taps`` is how many j there are,
    0 for any number. Left of the first pixel and right of the last one are ``before`` and ``behind`` more of the same.

    ``vectors`` (of one channel alone): the places of a vector of results lie in so many vectors that begin with the
    first of them, for each tap; 0 where they may lie anywhere.

    Slots: ``src``, ``src_row`` (elements from one row to the next), ``src_width`` (pixels), ``out``, ``out_row``,
    ``width``, ``height``, ``band`` (rows of a block), ``y_taps``, ``y_places`` (i32, by row and tap), ``y_weights``
    (f32), ``x_taps``, ``x_places`` (i32, in elements from the first of those before), ``x_weights`` (f32, by tap and
    pixel), ``before``, ``behind`` (pixels), ``line`` (bytes from the begin of scratch), ``bytes`` (of scratch:
    :meth:`places`).
    """

    shaped: ClassVar[bool] = True

    source: DType
    result: DType
    channels: int
    taps: int
    vectors: int = 0

    def slots(self) -> tuple[str, ...]:
        return (
            "src", "src_row", "src_width", "out", "out_row", "width", "height", "band", "y_taps", "y_places",
            "y_weights", "x_taps", "x_places", "x_weights", "before", "behind", "line", "bytes",
        )  # fmt: skip

    def places(self, target: Target, source: int, width: int, borders: int) -> dict[str, int]:
        """The slots that say where things lie in scratch, for rows of so many pixels and ``borders`` more."""
        spare = _UNROLL * target.vector_bytes
        line = _up((source + borders) * self.channels * 4 + spare)
        return {"line": line, "bytes": line + _up(width * self.channels * 4 + spare)}

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        return args["bytes"]

    def emit(self, target: Target) -> str:
        return _Code(self, target).text()


def _up(count: int) -> int:
    return -(-count // _LINE) * _LINE


class _Code:
    def __init__(self, spec: ResizeSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = target.lanes(DType.F32)

    def text(self) -> str:
        k, b, slot = self.k, self.b, self.k.slot
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            with b.loop(start, minimum(k, slot("height"), start + slot("band"))) as row:
                self._down(row.index)
                self._across()
                self._finish(row.index)
        return k.finish()

    def _down(self, y: Value) -> None:
        """The sum of rows, in f32, with pixels repeated on both sides."""
        b, slot, spec, channels = self.b, self.k.slot, self.spec, self.spec.channels
        element, lanes = storage_type(spec.source), self.lanes
        to = b.gep(self.k.scratch, F32, slot("before") * channels)
        first = y * slot("y_taps")
        count = slot("src_width") * channels

        def sums(at: Value, vectors: int, tail: Tail | None = None) -> None:
            with b.loop(0, slot("y_taps"), carry=[b.const(F32.vec(lanes), 0.0)] * vectors, guard=False) as tap:
                number = first + tap.index
                row = b.entry(self.k.pointer("y_places"), number) * slot("src_row") + at
                weight = b.splat(b.load(F32, b.gep(self.k.pointer("y_weights"), F32, number)), lanes)
                place = b.gep(self.k.pointer("src"), element, row)
                after = []
                for i, total in enumerate(tap.carried):
                    x = load(b, spec.source, b.gep(place, element, i * lanes), lanes, None, tail)
                    after.append(b.fma(widened(b, x, spec.source, DType.F32), weight, total))
                tap.next(*after)
            for i, total in enumerate(tap.results):
                b.store(total, b.gep(to, F32, at + i * lanes))

        most, whole = b.and_(count, -lanes * _UNROLL), b.and_(count, -lanes)
        with b.loop(0, most, lanes * _UNROLL) as each:
            sums(each.index, _UNROLL)
        with b.loop(most, whole, lanes) as each:
            sums(each.index, 1)
        rest = count - whole
        b.if_(b.icmp("sgt", rest, 0), lambda: sums(whole, 1, make_tail(b, rest, lanes)))
        ends = ((self.k.scratch, to, "before"), (b.gep(to, F32, count), b.gep(to, F32, count - channels), "behind"))
        for place, pixel, name in ends:
            with b.loop(0, slot(name)) as each:
                for c in range(channels):
                    x = b.load(F32, b.gep(pixel, F32, c))
                    b.store(x, b.gep(place, F32, each.index * channels + c))

    # -- along a row --------------------------------------------------------------------------------------------------

    def _across(self) -> None:
        """The sums of neighbours in the row at the begin of scratch, into the line."""
        b, slot, spec = self.b, self.k.slot, self.spec
        line = b.gep(self.k.scratch, I8, slot("line"))
        if spec.channels > 1:
            self._pixels(line)
            return
        lanes = self.lanes
        whole = b.and_(slot("width"), -lanes)
        with b.loop(0, whole, lanes) as each:
            places = b.load(int_type(32, lanes), b.gep(self.k.pointer("x_places"), int_type(32), each.index))
            total = self._gathered(places, each.index)
            b.store(total, b.gep(line, F32, each.index))
        with b.loop(whole, slot("width")) as each:
            place = b.gep(self.k.scratch, F32, b.entry(self.k.pointer("x_places"), each.index))
            b.store(self._sum(place, each.index, 1), b.gep(line, F32, each.index))

    def _gathered(self, places: Value, x: Value) -> Value:
        """Sums of a vector of pixels of one channel."""
        b, lanes = self.b, self.lanes
        near = self.spec.vectors and b.can(can.PICK_F32)
        if near:
            base = b.extract(places, 0)
            places = b.sub(places, b.splat(base, lanes))
        wide = base if near else b.convert("zext", places, I64.vec(lanes))

        def weight(tap: Value | int) -> Value:
            return b.load(F32.vec(lanes), b.gep(self.k.pointer("x_weights"), F32, x + tap * self.k.slot("width")))

        def gathered(tap: Value | int) -> Value:
            start = b.gep(self.k.scratch, F32, tap)
            if near:
                return self._picked(b.gep(start, F32, wide), places)
            text = f"getelementptr float, ptr {start.text}, <{lanes} x i64> {wide.text}"
            return b.load_gather(F32.vec(lanes), b.emit(PTR.vec(lanes), text))

        if self.spec.taps:
            total = b.mul(gathered(0), weight(0))
            for tap in range(1, self.spec.taps):
                total = b.fma(gathered(tap), weight(tap), total)
            return total
        with b.loop(0, self.k.slot("x_taps"), carry=[b.const(F32.vec(lanes), 0.0)]) as each:
            each.next(b.fma(gathered(each.index), weight(each.index), each.carried[0]))
        return each.results[0]

    def _picked(self, start: Value, places: Value) -> Value:
        """Numbers from a few vectors, by their places from ``start`` on."""
        b, t = self.b, F32.vec(self.lanes)
        found = b.perform(can.PICK_F32, t, b.load(t, start), places)
        for i in range(1, self.spec.vectors):
            other = b.perform(can.PICK_F32, t, b.load(t, b.gep(start, F32, i * self.lanes)), places)
            found = b.select(b.icmp("sge", places, i * self.lanes), other, found)
        return found

    def _pixels(self, line: Value) -> None:
        """Pixel by pixel, all channels at once; what is written beyond a pixel is the next one's."""
        b, channels = self.b, self.spec.channels
        with b.loop(0, self.k.slot("width")) as each:
            place = b.gep(self.k.scratch, F32, b.entry(self.k.pointer("x_places"), each.index))
            total = self._sum(place, each.index, 2 if channels == 2 else 4)
            b.store(total, b.gep(line, F32, each.index * channels))

    def _sum(self, place: Value, x: Value, lanes: int) -> Value:
        """The sum of the taps of a pixel, of so many channels."""
        b, t = self.b, F32.vec(lanes)

        def weight(tap: Value | int) -> Value:
            at = b.gep(self.k.pointer("x_weights"), F32, x + tap * self.k.slot("width"))
            return b.splat(b.load(F32, at), lanes)

        def pixel(tap: Value | int) -> Value:
            return b.load(t, b.gep(place, F32, tap * self.spec.channels))

        if self.spec.taps:
            total = b.mul(pixel(0), weight(0))
            for tap in range(1, self.spec.taps):
                total = b.fma(pixel(tap), weight(tap), total)
            return total
        with b.loop(0, self.k.slot("x_taps"), carry=[b.const(t, 0.0)]) as each:
            each.next(b.fma(pixel(each.index), weight(each.index), each.carried[0]))
        return each.results[0]

    def _finish(self, y: Value) -> None:
        """The line, rounded, as a row of the result."""
        b, slot, spec = self.b, self.k.slot, self.spec
        line = b.gep(self.k.scratch, I8, slot("line"))
        out = b.gep(self.k.pointer("out"), storage_type(spec.result), y * slot("out_row"))
        put_line(b, self.target, line, out, slot("width") * spec.channels, spec.result)


@dataclass(frozen=True)
class PickSpec(KernelSpec):
    """``out[y, x] = src[y_places[y], x_places[x]]`` for pixels of ``size`` bytes.

    Slots: ``src``, ``src_row`` (bytes from one row to the next), ``out``, ``out_row``, ``width``, ``height``, ``band``
    (rows of a block), ``y_places`` and ``x_places`` (i32; the latter in bytes).
    """

    shaped: ClassVar[bool] = True

    size: int

    def slots(self) -> tuple[str, ...]:
        return ("src", "src_row", "out", "out_row", "width", "height", "band", "y_places", "x_places")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, slot = k.b, k.slot
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            with b.loop(start, minimum(k, slot("height"), start + slot("band"))) as row:
                source = b.gep(k.pointer("src"), I8, b.entry(k.pointer("y_places"), row.index) * slot("src_row"))
                out = b.gep(k.pointer("out"), I8, row.index * slot("out_row"))

                def pick(x: Value, source: Value = source, out: Value = out) -> None:
                    place = b.gep(source, I8, b.entry(k.pointer("x_places"), x))
                    move(b, self.size, place, b.gep(out, I8, x * self.size))

                whole = b.and_(slot("width"), -_UNROLL)
                with b.loop(0, whole, _UNROLL) as each:
                    for i in range(_UNROLL):
                        pick(each.index + i)
                with b.loop(whole, slot("width")) as each:
                    pick(each.index)
        return k.finish()


@dataclass(frozen=True)
class HalveSpec(KernelSpec):
    """``out[y, x]``: the mean of the four pixels from ``src[2y, 2x]`` on; 1 to 4 ``channels`` beside each other. Of
    whole numbers halves are rounded ``up``, or else to the even number.

    Slots: ``src``, ``src_row`` (elements from one row to the next), ``out``, ``out_row``, ``width``, ``height`` (of the
    result), ``band`` (rows of a block).
    """

    shaped: ClassVar[bool] = True

    dtype: DType
    channels: int
    up: bool

    def slots(self) -> tuple[str, ...]:
        return ("src", "src_row", "out", "out_row", "width", "height", "band")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, slot, channels = k.b, k.slot, self.channels
        element = storage_type(self.dtype)
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            with b.loop(start, minimum(k, slot("height"), start + slot("band"))) as row:
                above = b.gep(k.pointer("src"), element, row.index * 2 * slot("src_row"))
                below = b.gep(above, element, slot("src_row"))
                out = b.gep(k.pointer("out"), element, row.index * slot("out_row"))

                def halve(x: Value, pixels: int, above: Value = above, below: Value = below, out: Value = out) -> None:
                    at, count = x * (2 * channels), 2 * channels * pixels
                    one, other = (b.load(element.vec(count), b.gep(r, element, at)) for r in (above, below))
                    b.store(self._mean(b, one, other, pixels), b.gep(out, element, x * channels))

                whole = b.and_(slot("width"), -_HALVED)
                with b.loop(0, whole, _HALVED) as each:
                    halve(each.index, _HALVED)
                with b.loop(whole, slot("width")) as each:
                    halve(each.index, 1)
        return k.finish()

    def _mean(self, b: Builder, above: Value, below: Value, pixels: int) -> Value:
        wide = {DType.U8: DType.U16, DType.F32: DType.F32}.get(self.dtype, DType.I32)
        column = b.add(widened(b, above, self.dtype, wide), widened(b, below, self.dtype, wide))
        lefts = [2 * self.channels * i + c for i in range(pixels) for c in range(self.channels)]
        total = b.add(b.shuffle(column, None, lefts), b.shuffle(column, None, [i + self.channels for i in lefts]))
        if wide is DType.F32:
            return b.mul(total, 0.25)
        shift = b.ashr if wide.is_signed else b.lshr
        half = 2 if self.up else b.add(b.and_(shift(total, 2), 1), 1)
        return b.convert("trunc", shift(b.add(total, half), 2), storage_type(self.dtype).vec(len(lefts)))


__all__ = ["HalveSpec", "PickSpec", "ResizeSpec"]
