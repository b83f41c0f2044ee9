"""Pixels at places between the pixels of a picture: under a matrix, or where maps say."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.lines import move, put_line
from MNN.backends.cpu.image.numbers import widened
from MNN.backends.cpu.image.places import LANES, PlaceCode, Places, each_row
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import F32, I1, I8, I16, I32, I64, Builder, Kernel, Type, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_KINDS = 10
"""The buffer, of those behind each other, of what is to be done for a pixel."""
_FOUND = (_KINDS + 1) * 4 * LANES
"""Bytes for the places and weights of so many pixels; behind them lies what is found for groups of them."""
_GROUPS = 16
"""Groups of pixels whose places are found before any is read: each has to be waited for by what reads the pixels, and
what is waited for together takes no longer."""
_GROUP = 4 * 4 * LANES
_STRIP = 8 * LANES
"""Columns whose nearest pixels are taken, row by row, before those of the next ones: a whole row of a result that is
turned lies on more pages of its source than a processor knows the places of at once. Maps are read as they lie."""
_BUFFERS = _FOUND + _GROUPS * _GROUP


class Border(enum.Enum):
    """What lies outside of a picture."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    """cba|abcd|dcb"""
    REFLECT_101 = "reflect 101"
    """dcb|abcd|cba"""


class Interpolation(enum.Enum):
    """From which pixels a place between them is computed: the nearest one, 2 x 2, or 4 x 4 (Keys, 1981)."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


_TAPS = {Interpolation.NEAREST: 1, Interpolation.LINEAR: 2, Interpolation.CUBIC: 4}
_CUBIC = -0.75


@dataclass(frozen=True)
class SampleSpec(KernelSpec):
    """``out[y, x] = src`` at the place of (x, y), in f32 and rounded to the picture's ``dtype``; 1 to 4 ``channels``.

    Slots: ``src``, ``src_row`` (elements from one row to the next; all of them less than 2^31), ``src_width``,
    ``src_height``, ``fill`` (a pixel of what lies outside), ``out``, ``out_row``, ``width``, ``height``, ``band`` (rows
    of a block), ``m0`` to ``m8`` (f64) or ``map_x``, ``map_y`` (f32, of the result's size), ``bytes`` (of scratch:
    :meth:`places`).
    """

    shaped: ClassVar[bool] = True

    dtype: DType
    channels: int
    where: Places
    how: Interpolation
    border: Border

    def slots(self) -> tuple[str, ...]:
        sizes = ("src_row", "src_width", "src_height", "fill", "out", "out_row", "width", "height", "band", "bytes")
        return ("src", *sizes, *PlaceCode.slots(self.where))

    def places(self, target: Target, width: int) -> dict[str, int]:
        """The slots about scratch, for rows of so many pixels."""
        whole = width + LANES  # what lies outside is filled by so many pixels, also behind the end of a row
        return {"bytes": _BUFFERS + whole * self.channels * 4 + 4 * target.vector_bytes}

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        return args["bytes"]

    def emit(self, target: Target) -> str:
        return _Code(self, target).text()


class _Code:
    def __init__(self, spec: SampleSpec, target: Target) -> None:
        self.spec, self.target, self.taps = spec, target, _TAPS[spec.how]
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.element = storage_type(spec.dtype)
        self.nearest = spec.how is Interpolation.NEAREST
        self.where = PlaceCode(self.k, spec.where, self.nearest)
        plain = spec.dtype in (DType.U8, DType.F32) and spec.how is Interpolation.LINEAR
        self.at_once = self.nearest or (spec.channels == 1 and plain)
        self.beyond = int(spec.channels == 3 and not self.nearest)  # pixels that are read right of the last tap

    def text(self) -> str:
        k, b, slot = self.k, self.b, self.k.slot
        self.line = b.gep(k.scratch, I8, _BUFFERS)
        if self.nearest:  # too little is done with a place for more of them to be worth keeping
            with each_row(k, 0 if self.spec.where is Places.MAPS else _STRIP) as (row, first, end):
                self._row(row)
                with b.loop(first, end, LANES) as each:
                    self._several(each.index, *self._places(each.index, row))
            return k.finish()
        with each_row(k) as (row, first, end):
            self._row(row)
            with b.loop(first, end, LANES * _GROUPS) as far:
                self._groups(far.index, row)
            count = slot("width") * self.spec.channels
            put_line(b, self.target, self.line, self.out, count, self.spec.dtype)
        return k.finish()

    def _row(self, row: Value) -> None:
        self.where.row(row)
        self.out = self.b.gep(self.k.pointer("out"), self.element, row * self.k.slot("out_row"))

    def _groups(self, first: Value, row: Value) -> None:
        """Groups of pixels: the places of all of them, then what lies there."""
        b = self.b
        end = minimum(self.k, self.k.slot("width"), first + LANES * _GROUPS)
        kept = I32.vec(LANES), I32.vec(LANES), F32.vec(LANES), F32.vec(LANES)

        def buffers(x: Value) -> list[Value]:
            group = (x - first) * (_GROUP // LANES)
            return [b.gep(self.k.scratch, I8, group + (_FOUND + 4 * LANES * i)) for i in range(len(kept))]

        with b.loop(first, end, LANES) as each:
            starts, fractions = self._places(each.index, row)
            for values, buffer in zip((*starts, *fractions), buffers(each.index), strict=True):
                b.store(values, buffer)
        with b.loop(first, end, LANES) as each:
            found = [b.load(t, buffer) for t, buffer in zip(kept, buffers(each.index), strict=True)]
            self._several(each.index, found[:2], found[2:])

    def _places(self, x: Value, y: Value) -> tuple[list[Value], list[Value]]:
        """The first taps of the next pixels of a row, and how far behind them the pixels lie."""
        b, starts, fractions = self.b, [], []
        count = minimum(self.k, self.k.slot("width") - x, b.const(I64, LANES))
        for base, at in self.where.around(x, y, count):
            near = b.intrinsic("rint" if self.nearest else "floor", self.where.bounded(at))
            start = b.add(b.convert("fptosi", near, I32.vec(LANES)), b.splat(base, LANES))
            starts.append(b.sub(start, 1) if self.spec.how is Interpolation.CUBIC else start)
            fraction = b.sub(at, near)
            fractions.append(b.convert("fptrunc", fraction, F32.vec(LANES)) if fraction.type.bits > 32 else fraction)
        return starts, fractions

    def _several(self, x: Value, starts: list[Value], fractions: list[Value]) -> None:
        """The next pixels of a row."""
        b, slot = self.b, self.k.slot
        count = minimum(self.k, slot("width") - x, b.const(I64, LANES))
        across, down = starts
        places_type = across.type
        row = b.splat(b.convert("trunc", slot("src_row"), I32), LANES)
        offsets = b.add(b.mul(down, row), b.mul(across, self.spec.channels))
        sizes = [b.convert("trunc", slot(name), I32) for name in ("src_width", "src_height")]
        more = (self.taps - 1 + self.beyond, self.taps - 1)
        ends = [b.intrinsic("smax", b.sub(n, m), b.const(I32, 0)) for n, m in zip(sizes, more, strict=True)]
        fits = [b.icmp("ult", start, b.splat(end, LANES)) for start, end in zip(starts, ends, strict=True)]
        inside = self._all(b.and_(*fits))

        def lone() -> None:
            if self.nearest:
                self._taken(x, count, offsets, b.and_(*fits))
                return
            self._store(across, down, fractions)
            self._one_by_one(x, count, self._near)

        def fast() -> None:
            if self.at_once:
                together = self._copied if self.nearest else self._together
                b.choose(b.icmp("eq", count, LANES), lambda: together(x, offsets, fractions), lone)
            else:
                lone()

        def slow() -> None:
            if self.nearest and self.spec.border is Border.CONSTANT:
                self._taken(x, count, offsets, b.and_(*fits))
                return
            self._store(across, down, fractions)
            if self.spec.border is not Border.CONSTANT:
                self._one_by_one(x, count, self._far)
                return
            out = []
            for start, size in zip(starts, sizes, strict=True):
                out.append(b.icmp("sge", start, b.splat(size, LANES)))
                out.append(b.icmp("slt", start, 1 - self.taps))
            outside = b.or_(b.or_(out[0], out[1]), b.or_(out[2], out[3]))
            b.choose(self._all(outside), lambda: self._all_filled(x), lambda: by_kind(outside))

        def by_kind(outside: Value) -> None:
            kinds = b.select(outside, b.const(places_type, 2), b.const(places_type, 1))
            b.store(b.select(b.and_(*fits), 0, kinds), self._buffer(_KINDS))
            self._one_by_one(x, count, self._either)

        b.choose(inside, fast, slow, likely=True)

    def _all(self, mask: Value) -> Value:
        return self.b.icmp("eq", self.b.bitcast(mask, I16), -1)

    # -- what every pixel is computed from, in scratch ----------------------------------------------------------------

    def _buffer(self, number: int) -> Value:
        return self.b.gep(self.k.scratch, I8, 4 * LANES * number)

    def _store(self, across: Value, down: Value, fractions: list[Value]) -> None:
        """Keeps places and weights for what is done pixel by pixel."""
        b = self.b
        for number, values in enumerate((across, down)):
            b.store(values, self._buffer(number))
        if self.nearest:
            return
        for i, fraction in enumerate(fractions):
            for j, weight in enumerate(_weights(b, fraction, self.spec.how)):
                b.store(weight, self._buffer(2 + i * self.taps + j))

    def _entry(self, number: int, lane: Value) -> Value:
        return self.b.entry(self._buffer(number), lane)

    def _weight(self, axis: int, tap: int, lane: Value, lanes: int) -> Value:
        place = self.b.gep(self._buffer(2 + axis * self.taps + tap), F32, lane)
        return self.b.splat(self.b.load(F32, place), lanes)

    def _one_by_one(self, x: Value, count: Value, pixel: Callable[[Value, Value], None]) -> None:
        with self.b.loop(0, count, guard=False) as each:
            pixel(each.index, (x + each.index) * self.spec.channels)

    def _either(self, lane: Value, at: Value) -> None:
        """A pixel whose taps lie inside, outside, or on both sides."""
        b, kind = self.b, self._entry(_KINDS, lane)

        def border() -> None:
            b.choose(b.icmp("eq", kind, 2), lambda: self._filled(lane, at), lambda: self._far(lane, at))

        b.choose(b.icmp("eq", kind, 0), lambda: self._near(lane, at), border)

    def _all_filled(self, x: Value) -> None:
        """The same pixel many times, also behind the end of the row."""
        b, channels = self.b, self.spec.channels
        pixel = self._exact(self.k.pointer("fill"))
        for i in range(LANES):
            b.store(pixel, b.gep(self.line, F32, (x + i) * channels))

    def _filled(self, lane: Value, at: Value) -> None:
        self.b.store(self._exact(self.k.pointer("fill")), self.b.gep(self.line, F32, at))

    # -- places inside ------------------------------------------------------------------------------------------------

    def _near(self, lane: Value, at: Value) -> None:
        """A pixel all of whose taps lie inside of the picture."""
        b, slot, spec = self.b, self.k.slot, self.spec
        offset = self._entry(1, lane) * slot("src_row") + self._entry(0, lane) * spec.channels
        place = b.gep(self.k.pointer("src"), self.element, offset)
        lanes = {1: 1, 2: 2, 3: 4, 4: 4}[spec.channels]

        def tap(i: int, j: int) -> Value:
            start = b.gep(b.gep(place, self.element, slot("src_row") * i), self.element, spec.channels * j)
            return widened(b, b.load(self.element.vec(lanes), start), spec.dtype, DType.F32)

        b.store(self._total(tap, lane, lanes), b.gep(self.line, F32, at))

    def _total(self, tap: Callable[[int, int], Value], lane: Value, lanes: int) -> Value:
        b = self.b
        across = [self._weight(0, j, lane, lanes) for j in range(self.taps)]
        total: Value | None = None
        for i in range(self.taps):
            row = b.mul(tap(i, 0), across[0])
            for j in range(1, self.taps):
                row = b.fma(tap(i, j), across[j], row)
            weight = self._weight(1, i, lane, lanes)
            total = b.mul(row, weight) if total is None else b.fma(row, weight, total)
        assert total is not None
        return total

    def _copied(self, x: Value, offsets: Value, _: list[Value]) -> None:
        """All pixels, as they are."""
        b, spec = self.b, self.spec
        b.store(offsets, self._buffer(0))
        source, out = self.k.pointer("src"), b.gep(self.out, self.element, x * spec.channels)
        for lane in range(LANES):
            place = b.gep(source, self.element, self._entry(0, b.const(I64, lane)))
            move(b, spec.channels * spec.dtype.size, place, b.gep(out, self.element, lane * spec.channels))

    def _taken(self, x: Value, count: Value, offsets: Value, fits: Value) -> None:
        """Pixels as they are, or of the fill where they do not fit in."""
        b, spec = self.b, self.spec
        b.store(b.select(fits, offsets, -1), self._buffer(0))
        source, fill, out = self.k.pointer("src"), self.k.pointer("fill"), self.out

        with b.loop(0, count, guard=False) as each:
            offset = self._entry(0, each.index)
            place = b.select(b.icmp("slt", offset, 0), fill, b.gep(source, self.element, offset))
            to = b.gep(out, self.element, (x + each.index) * spec.channels)
            move(b, spec.channels * spec.dtype.size, place, to)

    def _together(self, x: Value, offsets: Value, fractions: list[Value]) -> None:
        """All pixels at once, of one channel, two neighbours with one access."""
        b = self.b
        b.store(offsets, self._buffer(0))
        starts = [self._entry(0, b.const(I64, lane)) for lane in range(LANES)]
        rows = []
        for i in range(2):
            row = b.gep(self.k.pointer("src"), self.element, self.k.slot("src_row") * i)
            left, right = self._neighbours([b.gep(row, self.element, start) for start in starts])
            rows.append(b.fma(b.sub(right, left), fractions[0], left))
        total = b.fma(b.sub(rows[1], rows[0]), fractions[1], rows[0])
        b.store(total, b.gep(self.line, F32, x))

    def _neighbours(self, places: list[Value]) -> tuple[Value, Value]:
        """A pixel and the next one, for all: loads one by one, which are faster than gathers of small elements."""
        b, whole = self.b, self.spec.dtype is DType.U8
        pairs = b.poison((I16 if whole else I64).vec(LANES))
        for lane, place in enumerate(places):
            pairs = b.insert(pairs, b.load(pairs.type.element, place, self.spec.dtype.size), lane)
        if whole:
            wide = b.convert("zext", pairs, I32.vec(LANES))
            parts = b.and_(wide, 255), b.lshr(wide, 8)
            left, right = (b.convert("sitofp", part, F32.vec(LANES)) for part in parts)
            return left, right
        both = b.bitcast(pairs, F32.vec(2 * LANES))
        return b.shuffle(both, None, range(0, 2 * LANES, 2)), b.shuffle(both, None, range(1, 2 * LANES, 2))

    # -- places at the border -----------------------------------------------------------------------------------------

    def _exact(self, place: Value) -> Value:
        """A pixel in f32 (lanes beyond its channels hold anything), of which nothing beyond is read."""
        b, channels = self.b, self.spec.channels
        if channels != 3:
            return widened(b, b.load(self.element.vec(channels), place), self.spec.dtype, DType.F32)
        t: Type = self.element.vec(4)
        found = b.const(t, 0)
        for c in range(channels):
            found = b.insert(found, b.load(self.element, b.gep(place, self.element, c)), c)
        return widened(b, found, self.spec.dtype, DType.F32)

    def _far(self, lane: Value, at: Value) -> None:
        """A pixel some of whose taps may lie outside."""
        b, slot, spec = self.b, self.k.slot, self.spec
        names = ("src_width", "src_height")
        taps = [
            [self._inside(self._entry(axis, lane) + i, slot(names[axis])) for i in range(self.taps)]
            for axis in range(2)
        ]

        def place(i: int, j: int) -> Value:
            (row, row_out), (column, column_out) = taps[1][i], taps[0][j]
            out = b.or_(row_out, column_out)
            offset = b.select(out, 0, row * slot("src_row") + column * spec.channels)
            inside = b.gep(self.k.pointer("src"), self.element, offset)
            return b.select(out, self.k.pointer("fill"), inside)

        if self.nearest:
            move(b, spec.channels * spec.dtype.size, place(0, 0), b.gep(self.out, self.element, at))
            return
        lanes = 4 if spec.channels == 3 else spec.channels
        total = self._total(lambda i, j: self._exact(place(i, j)), lane, lanes)
        b.store(total, b.gep(self.line, F32, at))

    def _inside(self, p: Value, length: Value) -> tuple[Value, Value]:
        """A row or column of the picture for one that may lie outside, and whether it does for good."""
        b, no = self.b, self.b.const(I1, 0)
        if self.spec.border is Border.CONSTANT:
            return p, b.icmp("uge", p, length)
        if self.spec.border is Border.REFLECT:
            period = length * 2
            folded = b.srem(p, period)
            folded = b.select(b.icmp("slt", folded, 0), folded + period, folded)
            return b.select(b.icmp("slt", folded, length), folded, period - 1 - folded), no
        period = b.intrinsic("smax", (length - 1) * 2, b.const(I64, 1))
        size = b.select(b.icmp("slt", p, 0), b.index_sub(0, p), p)
        folded = b.urem(size, period)
        return b.select(b.icmp("slt", folded, length), folded, period - folded), no


def _weights(b: Builder, fraction: Value, how: Interpolation) -> list[Value]:
    rest = b.sub(b.const(fraction.type, 1.0), fraction)
    if how is Interpolation.LINEAR:
        return [rest, fraction]

    def near(d: Value) -> Value:
        return b.add(b.mul(b.mul(b.sub(b.mul(d, _CUBIC + 2), _CUBIC + 3), d), d), 1.0)

    def far(d: Value) -> Value:
        d = b.add(d, 1.0)
        inner = b.add(b.mul(b.sub(b.mul(d, _CUBIC), 5 * _CUBIC), d), 8 * _CUBIC)
        return b.sub(b.mul(inner, d), 4 * _CUBIC)

    return [far(fraction), near(fraction), near(rest), far(rest)]


__all__ = ["Border", "Interpolation", "SampleSpec"]
