"""Polygons filled row by row, with edges stepped in fixed point and rounded as OpenCV does."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.pixels import CANVAS, FOUR, HALF, ONE, SHIFT, Pen
from MNN.backends.cpu.lang.module import I1, I64, PTR, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.lang.variables import Function, Record, Variable, repeat
from MNN.backends.cpu.targets.base import Target

_TOP, _END, _X, _STEP = range(4)
"""An edge: its first row, the row behind its last, its place in 1/65536 of a pixel, and how far that moves in a row."""
EDGE = 4
_NEVER = 1 << 62
_SHRINK = 5, 11
"""From one gap to the next where edges are put in order (Gonnet and Baeza-Yates, 1991)."""


@dataclass(frozen=True)
class PolygonSpec(KernelSpec):
    """Fills polygons with their edges; what lies in an even number of them stays free. Pixels have ``size`` bytes.

    Slots: those of :data:`CANVAS`, ``kind`` (4 or 8: how pixels of edges touch), ``shapes``, ``counts`` (i64, of
    points), ``points`` (i64, in 1/65536 of a pixel), ``edges`` and ``live``: memory for :data:`EDGE` i64 a point and
    for one point more, and for two i64 a point.
    """

    size: int

    def slots(self) -> tuple[str, ...]:
        return (*CANVAS, "kind", "shapes", "counts", "points", "edges", "live")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        fill = _Fill(k, Pen(k, self.size))
        k.b.if_(k.b.icmp("slt", k.begin, k.end), lambda: fill.all.call(k))
        return k.finish()


class _Fill:
    def __init__(self, kernel: Kernel, pen: Pen) -> None:
        self.pen = pen
        self.edge, self.order = self._edge(kernel), self._order(kernel)
        self.between = self._between(kernel)
        self.all = self._all(kernel)

    def _all(self, kernel: Kernel) -> Function:
        f = Function(kernel, "all", [])
        b, points, made = f.b, f.pointer("points"), Variable(f.b, 0)
        with b.loop(0, f.slot("shapes"), carry=(points,)) as shape:
            n, corners = b.load(I64, b.gep(f.pointer("counts"), I64, shape.index)), shape.carried[0]
            with b.loop(0, n) as each:
                before = b.select(b.icmp("eq", each.index, 0), n, each.index) - 1
                x, y, u, v = (b.load(I64, b.gep(corners, I64, at * 2 + axis)) for at in (before, each.index)
                              for axis in (0, 1))  # fmt: skip
                y, v = (b.ashr(p + HALF, SHIFT) for p in (y, v))
                one, other = (b.ashr(p + HALF, SHIFT) for p in (x, u))
                self.pen.thin.call(f, one, y, other, v, f.slot("kind"))

                def edge(values: tuple[Value, ...] = (one, y, other, v, x, u)) -> None:
                    self.edge.call(f, *values, _edge_at(f, made.get()))
                    made.add(1)

                b.if_(b.icmp("ne", y, v), edge)
            shape.next(b.gep(corners, I64, n * 2))
        edges = made.get()
        b.store(b.const(I64, _NEVER), b.gep(_edge_at(f, edges), I64, _TOP))

        def fill() -> None:
            self.order.call(f, edges)
            self.between.call(f, edges)

        b.if_(b.icmp("sgt", edges, 1), fill)
        b.ret()
        return f

    def _edge(self, kernel: Kernel) -> Function:
        """Stores an edge between two pixels, whose columns before rounding are ``p`` and ``q``: as its line is drawn,
        cut to the picture, if one of its ends is not in there."""
        f = Function(kernel, "edge", [*((I64, n) for n in ("x", "y", "u", "v", "p", "q")), (PTR, "to")])
        b = f.b
        x, y, u, v, p, q, to = f.params
        down = b.icmp("slt", y, v)
        upper, lower = b.select(down, y, v), b.select(down, v, y)
        width, height = f.slot("width"), f.slot("height")
        there = b.and_(b.and_(b.icmp("ult", x, width), b.icmp("ult", u, width)),
                       b.and_(b.icmp("ult", y, height), b.icmp("ult", v, height)))  # fmt: skip

        def inside() -> list[Value]:
            high, low = b.select(down, p, q), b.select(down, q, p)
            # as OpenCV, whose fill is half a pixel further there
            within = b.select(b.icmp("eq", f.slot("kind"), FOUR), b.const(I64, HALF), b.const(I64, 0))
            return [high + within, b.sdiv(low - high, lower - upper)]

        def cut() -> list[Value]:
            ends = Record(b, x, y, u, v)
            self.pen.clip(b, ends.place, width, height)
            left, top, right, bottom = (ends.get(i) for i in range(4))
            flat = b.icmp("eq", top, bottom)  # one row is left, whose columns stand for all rows
            top, bottom = b.select(flat, y, top), b.select(flat, v, bottom)
            step = b.sdiv(b.shl(right - left, SHIFT), bottom - top)
            column, row = b.select(down, left, right), b.select(down, top, bottom)
            return [b.shl(column, SHIFT) + (upper - row) * step, step]

        place, step = b.if_else(there, inside, cut)
        for i, value in ((_TOP, upper), (_END, lower), (_X, place), (_STEP, step)):
            b.store(value, b.gep(to, I64, i))
        b.ret()
        return f

    def _order(self, kernel: Kernel) -> Function:
        """Puts edges in order, by first row, place and step (Shell, 1959)."""
        f = Function(kernel, "order", [(I64, "count")])
        b, (count,) = f.b, f.params
        keys = (_TOP, _X, _STEP)

        def passed(gap: Value) -> None:
            with b.loop(gap, count) as each:
                held = [_field(f, _edge_at(f, each.index), i) for i in range(EDGE)]
                at = Variable(b, each.index)

                def later() -> Value:
                    """Whether the edge a gap before is behind the one that is held."""
                    other = [_field(f, _edge_at(f, at.get() - gap), i) for i in keys]
                    found = b.const(I1, 0)
                    for i, value in reversed(list(zip(keys, other, strict=True))):
                        same = b.icmp("eq", value, held[i])
                        found = b.select(same, found, b.icmp("sgt", value, held[i]))
                    return found

                def unsettled() -> Value:
                    return b.if_else(b.icmp("sge", at.get(), gap), lambda: [later()], lambda: [b.const(I1, 0)])[0]

                def shift() -> None:
                    source, to = _edge_at(f, at.get() - gap), _edge_at(f, at.get())
                    for i in range(EDGE):
                        b.store(_field(f, source, i), b.gep(to, I64, i))
                    at.set(at.get() - gap)

                repeat(b, unsettled, shift)
                for i in range(EDGE):
                    b.store(held[i], b.gep(_edge_at(f, at.get()), I64, i))

        gap = Variable(b, count)

        def turn() -> None:
            smaller = b.sdiv(gap.get() * _SHRINK[0], _SHRINK[1])
            gap.set(b.select(b.icmp("slt", smaller, 1), b.const(I64, 1), smaller))
            passed(gap.get())

        repeat(b, lambda: b.icmp("sgt", gap.get(), 1), turn)
        b.ret()
        return f

    def _between(self, kernel: Kernel) -> Function:
        """Fills what lies between the first and the second edge of each row, the third and the fourth, and so on. They
        are put in order after a row, not before."""
        f = Function(kernel, "between", [(I64, "count")])
        b, (count,) = f.b, f.params
        old = Variable(b, f.pointer("live"), PTR)
        new = Variable(b, b.gep(f.pointer("live"), I64, count), PTR)
        waiting, live, y = Variable(b, 0), Variable(b, 0), Variable(b, _field(f, _edge_at(f, b.const(I64, 0)), _TOP))

        def begins() -> Value:
            return b.icmp("eq", _field(f, _edge_at(f, waiting.get()), _TOP), y.get())

        def row() -> None:
            taken, made = Variable(b, 0), Variable(b, 0)
            rest = live.get()

            def put(edge: Value) -> None:
                b.store(edge, b.gep(new.get(), PTR, made.get()))
                made.add(1)

            def wait() -> None:
                put(_edge_at(f, waiting.get()))
                waiting.add(1)

            def one() -> None:
                edge = b.load(PTR, b.gep(old.get(), PTR, taken.get()))
                later = b.icmp("sge", _field(f, edge, _X), _field(f, _edge_at(f, waiting.get()), _X))

                def keep() -> None:
                    put(edge)
                    taken.add(1)

                def still() -> None:
                    b.choose(b.and_(begins(), later), wait, keep)

                b.choose(b.icmp("eq", _field(f, edge, _END), y.get()), lambda: taken.add(1), still)

            repeat(b, lambda: b.or_(b.icmp("slt", taken.get(), rest), begins()),
                   lambda: b.choose(b.icmp("slt", taken.get(), rest), one, wait))  # fmt: skip
            held = old.get()
            old.set(new.get())
            new.set(held)
            live.set(made.get())
            rows_until(_field(f, _edge_at(f, waiting.get()), _TOP))

        def rows_until(following: Value) -> None:
            """Draws rows until an edge begins (``following``) or ends; those above the picture are passed by."""
            until = Variable(b, minimum(f, following, f.slot("height")))
            with b.loop(0, live.get()) as each:
                end = _field(f, b.load(PTR, b.gep(old.get(), PTR, each.index)), _END)
                until.set(minimum(f, until.get(), end))

            def draw(rows: Value) -> None:
                self._draw(f, old.get(), live.get(), y.get(), rows)
                y.add(rows)

            def draw_all() -> None:
                above = minimum(f, until.get(), b.const(I64, 0)) - y.get()
                b.if_(b.icmp("sgt", above, 0), lambda: draw(above))
                repeat(b, lambda: b.icmp("slt", y.get(), until.get()), lambda: draw(b.const(I64, 1)))

            b.choose(b.icmp("eq", live.get(), 0), lambda: y.set(until.get()), draw_all)

        repeat(
            b,
            lambda: b.and_(
                b.icmp("slt", y.get(), f.slot("height")),
                b.or_(b.icmp("sgt", live.get(), 0), b.icmp("slt", waiting.get(), count)),
            ),
            row,
        )
        b.ret()  # fmt: skip
        return f

    def _draw(self, f: Kernel, live: Value, count: Value, y: Value, rows: Value) -> None:
        """Fills row ``y``, moves edges on by so many ``rows`` and puts them in order."""
        b = f.b
        with b.loop(1, count, 2) as each:
            pair = [b.load(PTR, b.gep(live, PTR, each.index + i)) for i in (-1, 0)]
            left, right = (_field(f, edge, _X) for edge in pair)
            ordered = b.icmp("slt", left, right)
            low, high = b.select(ordered, left, right), b.select(ordered, right, left)
            self.pen.span.call(f, y, b.ashr(low + (ONE - 1), SHIFT), b.ashr(high, SHIFT))
            for edge, x in zip(pair, (left, right), strict=True):
                b.store(x + _field(f, edge, _STEP) * rows, b.gep(edge, I64, _X))
        with b.loop(1, count) as each:
            edge, place = b.load(PTR, b.gep(live, PTR, each.index)), Variable(b, each.index)
            x = _field(f, edge, _X)

            def behind(place: Variable = place, x: Value = x) -> Value:
                def compare() -> list[Value]:
                    return [b.icmp("sgt", _field(f, b.load(PTR, b.gep(live, PTR, place.get() - 1)), _X), x)]

                return b.if_else(b.icmp("sgt", place.get(), 0), compare, lambda: [b.const(I1, 0)])[0]

            def shift(place: Variable = place) -> None:
                b.store(b.load(PTR, b.gep(live, PTR, place.get() - 1)), b.gep(live, PTR, place.get()))
                place.add(-1)

            repeat(b, behind, shift)
            b.store(edge, b.gep(live, PTR, place.get()))


def _edge_at(f: Kernel, index: Value) -> Value:
    return f.b.gep(f.pointer("edges"), I64, index * EDGE)


def _field(f: Kernel, edge: Value, field: int) -> Value:
    return f.b.load(I64, f.b.gep(edge, I64, field))


__all__ = ["EDGE", "PolygonSpec"]
