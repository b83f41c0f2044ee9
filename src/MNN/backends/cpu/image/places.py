"""Where in a source the pixels of a result lie: under a matrix, or where maps say."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager

from MNN.backends.cpu.lang.module import F32, F64, I32, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum

LANES = 16
"""Pixels whose places are found at a time."""
_FAR = float(1 << 29)
"""Places beyond are taken to be as far away."""


class Places(enum.Enum):
    """Where in the source the pixel (x, y) of the result lies."""

    AFFINE = "affine"
    """At (m0 x + m1 y + m2, m3 x + m4 y + m5)."""
    PERSPECTIVE = "perspective"
    """The same over m6 x + m7 y + m8; at (0, 0) where that is 0."""
    MAPS = "maps"
    """At (map_x[y, x], map_y[y, x])."""


@contextmanager
def each_row(k: Kernel, strip: int = 0) -> Iterator[tuple[Value, Value, Value]]:
    """The rows of a kernel's blocks, of which each has a ``band`` of the ``height``, and the first and last of their
    columns: all of them, or those of one ``strip`` after the other."""
    b, width = k.b, k.slot("width")
    with b.loop(k.begin, k.end) as block:
        start = block.index * k.slot("band")
        end = minimum(k, k.slot("height"), start + k.slot("band"))
        with b.loop(0, width, strip or width) as part:
            last = minimum(k, width, part.index + strip) if strip else width
            with b.loop(start, end) as row:
                yield row.index, part.index, last


class PlaceCode:
    """Generates what finds the places of pixels, in rows one after the other."""

    def __init__(self, k: Kernel, where: Places, exact: bool) -> None:
        """``k`` has the slots :meth:`slots`, ``width``, and scratch of ``LANES`` f32 at its begin. With
        ``exact``, places are what the formula gives in f64, to the last bit."""
        self._k, self._b, self._where, self._exact = k, k.b, where, exact
        self._rows: list[tuple[Value, Value, Value]] = []  # of the matrix: what is added for x, for y, and always

    @staticmethod
    def slots(where: Places) -> tuple[str, ...]:
        """``m0`` to ``m8`` (bits of f64), or ``map_x``, ``map_y`` (addresses of f32, of the result's size)."""
        count = {Places.AFFINE: 6, Places.PERSPECTIVE: 9, Places.MAPS: 0}[where]
        return tuple(f"m{i}" for i in range(count)) or ("map_x", "map_y")

    def around(self, x: Value, y: Value, count: Value) -> list[tuple[Value, Value]]:
        """Column and row that pixels lie at, each as a whole number (i32) and what is to be added to it: in f32 where
        that is small, as pixels are near each other."""
        b = self._b
        if self._where is Places.MAPS:
            at = y * self._k.slot("width") + x
            return [
                (b.const(I32, 0), self._numbers(b.gep(self._k.pointer(name), F32, at), count))
                for name in ("map_x", "map_y")
            ]
        column = b.convert("sitofp", x, F64)
        if self._where is Places.AFFINE and not self._exact:
            found = []
            for step, down, plus in self._rows:
                first = b.add(b.mul(step, column), b.add(down, plus))
                base = b.intrinsic("floor", self.bounded(first))
                found.append((b.convert("fptosi", base, I32), self._line(b.sub(first, base), step)))
            return found
        columns = b.add(b.splat(column, LANES), b.const_vector(F64, range(LANES)))
        places = []
        for row in self._rows:
            step, down, plus = (b.splat(n, LANES) for n in row)
            places.append(b.add(b.add(b.mul(columns, step), down), plus))
        if self._where is Places.AFFINE:
            return [(b.const(I32, 0), place) for place in places]
        u, v, w = places
        none = b.fcmp("oeq", w, 0.0)
        scale = b.select(none, 0.0, b.fdiv(b.const(w.type, 1.0), b.select(none, 1.0, w)))
        return [(b.const(I32, 0), b.mul(n, scale)) for n in (u, v)]

    def row(self, y: Value) -> None:
        """Begins row ``y`` of the result."""
        b = self._b
        self._rows = []
        if self._where is not Places.MAPS:
            for i in range(0, 9 if self._where is Places.PERSPECTIVE else 6, 3):
                by_x, by_y, plus = (self._k.slot(f"m{i + j}", F64) for j in range(3))
                self._rows.append((by_x, b.mul(by_y, b.convert("sitofp", y, F64)), plus))

    def _line(self, first: Value, step: Value) -> Value:
        """``first + l step`` for every lane l."""
        b = self._b
        first, step = (b.splat(b.convert("fptrunc", n, F32), LANES) for n in (first, step))
        return b.fma(b.const_vector(F32, range(LANES)), step, first)

    def _numbers(self, place: Value, count: Value) -> Value:
        """The next ``count`` numbers of a map, and any behind them."""
        b, t = self._b, F32.vec(LANES)

        def part() -> list[Value]:
            b.store(b.const(t, 0.0), self._k.scratch)
            with b.loop(0, count) as each:
                b.store(b.load(F32, b.gep(place, F32, each.index)), b.gep(self._k.scratch, F32, each.index))
            return [b.load(t, self._k.scratch)]

        return b.if_else(b.icmp("eq", count, LANES), lambda: [b.load(t, place)], part)[0]

    def bounded(self, place: Value) -> Value:
        b = self._b
        place = b.select(b.fcmp("ogt", place, -_FAR), place, -_FAR)
        return b.select(b.fcmp("olt", place, _FAR), place, _FAR)


__all__ = ["LANES", "PlaceCode", "Places"]
