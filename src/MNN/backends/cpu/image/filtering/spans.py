"""Large windows without weights, which take as long as small ones.

Along a row, windows are doubled until they are as wide as asked for. Rows are reduced in spans as high as the window:
from each row to the end of its span, and from the span's begin to each row. A window is the end of one span and the
begin of the next (van Herk, 1992; Gil and Werman, 1993), so that errors do not pile up as in a sum that runs on.
"""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.image.numbers import widened
from MNN.backends.cpu.lang.element import compute_type
from MNN.backends.cpu.lang.module import I8, I64, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

Vectors = Callable[[Value], list[Value]]
"""What gives a few vectors of a row, from an element on."""


def doublings(width: int, whole: bool) -> list[tuple[int, int, int]]:
    """How windows of one element become such of ``width``: how far the other half of each lies, where one more element
    is (below 0: none), and how many elements are missing then. Unless ``whole``, halves may overlap."""
    steps, covered = [], 1
    while covered < width:
        apart, more = covered, -1
        if not whole:
            apart = min(covered, width - covered)
            covered += apart
        else:
            covered *= 2
            if width >> (width.bit_length() - covered.bit_length()) & 1:
                more, covered = covered, covered + 1
        steps.append((apart, more, width - covered))
    return steps


class Spans:
    """The part of a kernel of :class:`MNN.backends.cpu.image.filtering.filter.FilterSpec` that reduces such windows.

    Of its slots it reads ``elements``, ``ring_rows`` (the window's height), ``x_taps`` and ``x_offsets`` (for each
    doubling: how far the other half lies, where one more element is, below 0 for none, and how many are needed), and
    where rows lie in scratch: ``edge_row``, ``sums`` (of the type that is reduced along rows), ``ring``, ``begun`` and
    ``nothing`` (of the type of totals).
    """

    def __init__(
        self, kernel: Kernel, target: Target, kinds: tuple[DType, DType], unroll: int,
        joined: Callable[[DType, Value, Value], Value], identity: Callable[[DType], float],
    ) -> None:  # fmt: skip
        """``kinds``: the types along rows and of totals; ``joined`` reduces two vectors of a type, for which
        ``identity`` changes nothing."""
        self._k, self._b, self._target, self._unroll = kernel, kernel.b, target, unroll
        (self._middle, self._total), self._joined, self._identity = kinds, joined, identity

    def rows(
        self, start: Value, end: Value, bordered: Callable[[Value, Value], None],
        put: Callable[[Value, Vectors], None],
    ) -> None:  # fmt: skip
        """Rows from ``start`` to ``end`` of the result. ``bordered`` writes a row of those that the filter sees,
        ``put`` a row of the result."""
        b, high, kind = self._b, self._k.slot("ring_rows"), self._total
        none = [b.const(compute_type(kind, self._target.lanes(kind)), self._identity(kind))] * self._unroll
        self._each(self._scratch("nothing"), lambda _: none)

        def make(number: Value, to: Value) -> None:
            bordered(number, self._scratch("edge_row"))
            self._doubled(to)

        with b.loop(start, end, high) as span:
            first = span.index
            with b.loop(b.select(b.icmp("eq", first, start), b.const(I64, 0), high - 1), high) as row:
                make(first + row.index, self._ring(row.index))
            with b.loop(1, high) as up:  # from each row to the end of the span, in its place
                place = self._ring(high - 1 - up.index)
                self._each(place, self._both(place, self._ring(high - up.index)))
            self._put(first, b.const(I64, 0), put)
            with b.loop(1, minimum(self._k, high, end - first)) as down:
                number = down.index
                make(first + high - 1 + number, self._ring(number - 1))
                self._put(first, number, put)

    def _put(self, first: Value, number: Value, put: Callable[[Value, Vectors], None]) -> None:
        """The row of the result that begins with row ``number`` of a span, and ends before that row of the next one."""
        b = self._b
        nothing, begun = self._scratch("nothing"), self._scratch("begun")
        fresh = b.select(b.icmp("eq", number, 0), nothing, self._ring(number - 1))
        self._each(begun, self._both(b.select(b.icmp("sle", number, 1), nothing, begun), fresh))
        put(first + number, self._both(self._ring(number), begun))

    def _both(self, one: Value, other: Value) -> Vectors:
        """Two rows reduced to one."""
        kind = self._total

        def joined(at: Value) -> list[Value]:
            pairs = zip(self._vectors(one, kind, at), self._vectors(other, kind, at), strict=True)
            return [self._joined(kind, x, y) for x, y in pairs]

        return joined

    def _doubled(self, to: Value) -> None:
        """The windows along the row between its borders."""
        b, kind, edge_row, sums = self._b, self._middle, self._scratch("edge_row"), self._scratch("sums")
        count = self._k.slot("x_taps")
        with b.loop(0, count) as each:
            table = b.gep(self._k.pointer("x_offsets"), I64, each.index * 3)
            apart, more, needed = (b.load(I64, b.gep(table, I64, i)) for i in range(3))
            halves = b.select(b.icmp("eq", each.index, 0), edge_row, sums)

            def windows(*others: tuple[Value, Value], halves: Value = halves, needed: Value = needed) -> None:
                with b.loop(0, needed, self._unroll * self._target.lanes(kind)) as part:
                    found = self._vectors(halves, kind, part.index)
                    for row, far in others:
                        found = [
                            self._joined(kind, x, y)
                            for x, y in zip(found, self._vectors(row, kind, part.index + far), strict=True)
                        ]
                    self._store(found, sums, kind, part.index)

            other = halves, apart
            b.choose(b.icmp("slt", more, 0), lambda: windows(other), lambda: windows(other, (edge_row, more)))
        found = b.select(b.icmp("eq", count, 0), edge_row, sums)
        lanes, t = self._target.lanes(self._total), compute_type(kind)

        def wide(at: Value) -> list[Value]:
            places = (b.gep(found, t, at + i * lanes) for i in range(self._unroll))
            return [widened(b, b.load(t.vec(lanes), place), kind, self._total) for place in places]

        self._each(to, wide)

    def _ring(self, row: Value) -> Value:
        return self._b.gep(self._scratch("ring"), I8, row * self._k.slot("ring_step"))

    def _scratch(self, name: str) -> Value:
        return self._b.gep(self._k.scratch, I8, self._k.slot(name))

    def _each(self, row: Value, values: Vectors) -> None:
        """A row of totals from what ``values`` gives for a few vectors of it."""
        with self._b.loop(0, self._k.slot("elements"), self._unroll * self._target.lanes(self._total)) as each:
            self._store(values(each.index), row, self._total, each.index)

    def _vectors(self, row: Value, kind: DType, at: Value) -> list[Value]:
        t, lanes = compute_type(kind), self._target.lanes(kind)
        return [self._b.load(t.vec(lanes), self._b.gep(row, t, at + i * lanes)) for i in range(self._unroll)]

    def _store(self, values: list[Value], row: Value, kind: DType, at: Value) -> None:
        for i, value in enumerate(values):
            self._b.store(value, self._b.gep(row, compute_type(kind), at + i * self._target.lanes(kind)))


__all__ = ["Spans", "doublings"]
