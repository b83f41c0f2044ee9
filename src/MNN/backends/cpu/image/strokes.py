"""Lines of any width, convex polygons and circles, drawn into a picture. Positions are in 1/65536 of a pixel.

Lines are Bresenham's (1965), circles the midpoint algorithm's; edges are stepped in fixed point and rounded as OpenCV
does."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.pixels import CANVAS, HALF, ONE, SHIFT, Pen
from MNN.backends.cpu.lang.module import F64, I8, I64, PTR, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.lang.variables import Function, Record, Variable, repeat
from MNN.backends.cpu.targets.base import Target

INLINE = 4
"""Points that may stand in the arguments themselves."""
FINE = 0
"""A kind of lines of single pixels, which run between positions within pixels."""
_POINTS = tuple(f"{axis}{i}" for i in range(INLINE) for axis in "xy")
_EVEN = 1.5 * 2.0**52
"""Added and taken off again, it rounds numbers below 2^51, halves to even."""
_SHORT = 1e-8
Read = Callable[["Value | int", int], Value]
"""A coordinate, from the number of a point and of the axis."""


class Stroke(enum.IntEnum):
    """What the points are: ``FINE`` and ``WHOLE`` are convex polygons, whose edges run between positions within pixels
    or from pixel to pixel; circles have a middle and (radius, 0) in whole pixels."""

    OPEN, CLOSED, FINE, WHOLE, CIRCLE, DISC = range(6)


@dataclass(frozen=True)
class StrokeSpec(KernelSpec):
    """Draws shapes of pixels of ``size`` bytes.

    Slots: those of :data:`CANVAS`, ``what`` (:class:`Stroke`), ``kind`` (4 or 8: how lines of single pixels touch, or
    :data:`FINE`), ``thickness``, ``shapes``, ``counts`` (i64, of points) and ``points`` (i64); without ``points`` there
    is one shape, whose ``count`` points are the remaining slots.
    """

    size: int

    def slots(self) -> tuple[str, ...]:
        return (*CANVAS, "what", "kind", "thickness", "shapes", "counts", "points", "count", *_POINTS)

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        strokes = _Strokes(k, Pen(k, self.size))
        b, what = k.b, k.slot("what")
        alone = b.icmp("eq", k.slot("points"), 0)
        inline = b.gep(k.args, I64, len(self.slots()) - len(_POINTS))
        shapes = b.select(alone, b.const(I64, 1), k.slot("shapes"))

        def each(points: Value, n: Value) -> None:
            kind, thickness = k.slot("kind"), k.slot("thickness")

            def polygon() -> None:
                strokes.convex.call(k, points, n, kind, b.convert("zext", b.icmp("eq", what, Stroke.WHOLE), I64))

            def circle() -> None:
                x, y, radius = (b.load(I64, b.gep(points, I64, i), check=False) for i in range(3))
                filled = b.icmp("eq", what, Stroke.DISC)
                b.choose(filled, lambda: strokes.disc.call(k, x, y, radius),
                         lambda: strokes.circle.call(k, x, y, radius))  # fmt: skip

            def line() -> None:
                strokes.path.call(k, points, n, kind, thickness, what)

            b.choose(b.icmp("sle", what, Stroke.CLOSED), line,
                     lambda: b.choose(b.icmp("sle", what, Stroke.WHOLE), polygon, circle))  # fmt: skip

        def every() -> None:
            with b.loop(0, shapes, carry=(k.pointer("points"),)) as shape:
                n = b.load(I64, b.gep(k.pointer("counts"), I64, shape.index))
                each(shape.carried[0], n)
                shape.next(b.gep(shape.carried[0], I64, n * 2))

        b.if_(b.icmp("slt", k.begin, k.end), lambda: b.choose(alone, lambda: each(inline, k.slot("count")), every))
        return k.finish()


class _Strokes:
    """The functions of the kernel. Points are read without checks: whoever counts them has them."""

    def __init__(self, kernel: Kernel, pen: Pen) -> None:
        self.pen = pen
        self.fine, self.circle, self.disc = self._fine(kernel), self._round(kernel, False), self._round(kernel, True)
        self.convex = self._convex(kernel)
        self.thick = self._thick(kernel)
        self.path = self._path(kernel)

    def _fine(self, kernel: Kernel) -> Function:
        """A line of single pixels between positions within pixels."""
        f = Function(kernel, "fine", [(I64, "x"), (I64, "y"), (I64, "u"), (I64, "v")])
        b, width, height = f.b, f.slot("width"), f.slot("height")
        ends = Record(b, *f.params)

        def draw() -> None:
            x, y, u, v = (ends.get(i) for i in range(4))
            flat = b.icmp("sgt", _size(f, u - x), _size(f, v - y))
            x, y = b.select(flat, x, y), b.select(flat, y, x)
            u, v = b.select(flat, u, v), b.select(flat, v, u)
            back = b.icmp("slt", u, x)
            x, u = b.select(back, u, x), b.select(back, x, u)
            y, v = b.select(back, v, y), b.select(back, y, v)
            step = b.sdiv(b.shl(v - y, SHIFT), b.or_(u - x, 1))
            far, wide = b.select(flat, width, height), b.select(flat, height, width)
            pixel, row = b.const(I64, self.pen.size), f.slot("row")
            ahead, aside = b.select(flat, pixel, row), b.select(flat, row, pixel)

            def dot(along: Value, across: Value) -> None:
                there = b.and_(b.icmp("ult", along, far), b.icmp("ult", across, wide))
                place = b.gep(f.pointer("img"), I8, along * ahead + across * aside)
                b.if_(there, lambda: self.pen.put(f, place))

            first = b.ashr(x + HALF, SHIFT)
            with b.loop(0, b.ashr(u - x, SHIFT) + 1, carry=(y + HALF,), guard=False) as each:
                dot(first + each.index, b.ashr(each.carried[0], SHIFT))
                each.next(each.carried[0] + step)
            dot(b.ashr(u + HALF, SHIFT), b.ashr(v + HALF, SHIFT))

        b.if_(self.pen.clip(b, ends.place, b.shl(width, SHIFT), b.shl(height, SHIFT)), draw)
        b.ret()
        return f

    def _round(self, kernel: Kernel, filled: bool) -> Function:
        """A circle about a whole pixel, or all that is in it."""
        name = "disc" if filled else "circle"
        f = Function(kernel, name, [(I64, "x"), (I64, "y"), (I64, "radius")])
        b = f.b
        x, y, radius = f.params
        error, plus, minus = Variable(b, 0), Variable(b, 1), Variable(b, radius * 2 - 1)
        far, near = Variable(b, radius), Variable(b, 0)

        def rows(across: Value, down: Value) -> None:
            for row in (y - down, y + down):
                if filled:
                    self.pen.span.call(f, row, x - across, x + across)
                else:
                    self.pen.dot(f, x - across, row)
                    self.pen.dot(f, x + across, row)

        def turn() -> None:
            across, down = far.get(), near.get()
            rows(across, down)
            near.add(1)
            error.add(plus.get())
            plus.add(2)
            narrower = b.icmp("sgt", error.get(), 0)
            if not filled:
                rows(down, across)
            else:  # a row is as wide as it becomes, before the next one begins
                last = b.icmp("sgt", near.get(), across)
                b.if_(b.or_(narrower, last), lambda: rows(down, across))

            def shrink() -> None:
                error.set(error.get() - minus.get())
                far.add(-1)
                minus.add(-2)

            b.if_(narrower, shrink)

        repeat(b, lambda: b.icmp("sge", far.get(), near.get()), turn)
        b.ret()
        return f

    def _convex(self, kernel: Kernel) -> Function:
        """A convex polygon with its edges: two chains of them are stepped from row to row."""
        f = Function(kernel, "convex", [(PTR, "points"), (I64, "n"), (I64, "kind"), (I64, "whole")])
        b = f.b
        points, n, kind, whole = f.params
        whole = b.icmp("ne", whole, 0)
        read = _reader(f, points)
        highest, index = Variable(b, read(0, 1)), Variable(b, 0)
        top, bottom = (Variable(b, _rounded(f, read(0, 1))) for _ in range(2))
        with b.loop(0, n) as each:
            i = each.index
            before = b.select(b.icmp("eq", i, 0), n, i) - 1
            edge = [read(at, axis) for at in (before, i) for axis in (0, 1)]
            self._edge(f, whole, edge, kind)
            v = edge[3]
            row = _rounded(f, v)
            top.set(minimum(f, top.get(), row))
            bottom.set(b.select(b.icmp("sgt", row, bottom.get()), row, bottom.get()))
            higher = b.icmp("slt", v, highest.get())
            highest.set(b.select(higher, v, highest.get()))
            index.set(b.select(higher, i, index.get()))

        def fill() -> None:
            y, left, last = Variable(b, top.get()), Variable(b, n), minimum(f, bottom.get(), f.slot("height") - 1)
            sides = [_Side(f, index.get(), y.get(), forward) for forward in (True, False)]

            def row() -> None:
                for side in sides:
                    side.reach(read, n, y, left)

                def draw() -> None:
                    one, other = (side.x.get() for side in sides)
                    low, high = minimum(f, one, other), b.select(b.icmp("slt", one, other), other, one)
                    self.pen.span.call(f, y.get(), _rounded(f, low), _rounded(f, high))
                    above = minimum(f, minimum(f, sides[0].end.get(), sides[1].end.get()), b.const(I64, 0)) - y.get()
                    rows = b.select(b.icmp("slt", y.get(), 0), above, b.const(I64, 1))  # none is seen above the picture
                    for side in sides:
                        side.x.add(side.step.get() * rows)
                    y.add(rows)

                b.if_(b.icmp("sge", left.get(), 0), draw)

            repeat(b, lambda: b.and_(b.icmp("sle", y.get(), last), b.icmp("sge", left.get(), 0)), row)

        b.if_(b.icmp("sge", n, 3), fill)
        b.ret()
        return f

    def _edge(self, f: Kernel, whole: Value, ends: list[Value], kind: Value) -> None:
        def pixels() -> None:
            self.pen.thin.call(f, *(_rounded(f, p) for p in ends), kind)

        f.b.choose(whole, pixels, lambda: self.fine.call(f, *ends))

    def _thick(self, kernel: Kernel) -> Function:
        """A line with round ends: of its first point (``ends`` 1), its second one (2), or both (3)."""
        names = ("x", "y", "u", "v", "thickness", "kind", "ends")
        f = Function(kernel, "thick", [(I64, name) for name in names])
        b = f.b
        x, y, u, v, thickness, kind, rounds = f.params

        def wide() -> None:
            # whole pixels are cut to whole ones, as OpenCV does, which turns the line a little
            between = b.icmp("ne", b.and_(b.or_(b.or_(x, y), b.or_(u, v)), ONE - 1), 0)
            shift, back = (b.select(between, b.const(I64, n), b.const(I64, SHIFT - n)) for n in (0, SHIFT))
            far = b.shl(thickness, back)
            ends = Record(b, *(b.ashr(p, shift) + far for p in (x, y, u, v)))
            sizes = (b.shl(f.slot(name), back) + far * 2 for name in ("width", "height"))
            b.if_(
                self.pen.clip(b, ends.place, *sizes), lambda: draw(*(b.shl(ends.get(i) - far, shift) for i in range(4)))
            )

        def draw(x: Value, y: Value, u: Value, v: Value) -> None:
            dx, dy = (b.mul(b.convert("sitofp", n, F64), b.const(F64, 1 / ONE)) for n in (x - u, v - y))
            length = b.intrinsic("sqrt", b.add(b.mul(dx, dx), b.mul(dy, dy)))
            half = b.convert("sitofp", (thickness + b.and_(thickness, 1)) * HALF, F64)

            def between() -> None:
                reach = b.fdiv(half, length)
                right, down = (b.convert("fptosi", _even(f, b.mul(n, reach)), I64) for n in (dy, dx))
                corners = Record(b, x + right, y + down, x - right, y - down, u - right, v - down, u + right, v + down)
                self.convex.call(f, corners.place, 4, kind, 0)

            b.if_(b.fcmp("ogt", length, b.const(F64, _SHORT)), between)
            radius = b.ashr(thickness * HALF + HALF, SHIFT)
            for bit, (px, py) in ((1, (x, y)), (2, (u, v))):
                end, middle = b.icmp("ne", b.and_(rounds, bit), 0), (_rounded(f, px), _rounded(f, py))
                b.if_(end, lambda middle=middle: self.disc.call(f, *middle, radius))  # type: ignore[misc]

        def single() -> None:
            b.choose(b.icmp("eq", kind, FINE), lambda: self.fine.call(f, x, y, u, v),
                     lambda: self.pen.thin.call(f, *(_rounded(f, p) for p in (x, y, u, v)), kind))  # fmt: skip

        b.choose(b.icmp("sle", thickness, 1), single, wide)
        b.ret()
        return f

    def _path(self, kernel: Kernel) -> Function:
        """Lines from point to point, and back to the first one."""
        f = Function(kernel, "path", [(PTR, "points"), *((I64, n) for n in ("n", "kind", "thickness", "closed"))])
        b = f.b
        points, n, kind, thickness, closed = f.params
        read = _reader(f, points)
        around = b.icmp("ne", closed, 0)
        zero, one = b.const(I64, 0), b.const(I64, 1)
        before = b.select(around, n - 1, zero)
        rounds = b.select(around, b.const(I64, 2), b.const(I64, 3))
        with b.loop(b.select(around, zero, one), n, carry=(before, rounds)) as each:
            last, ends = each.carried
            x, y, u, v = (read(at, axis) for at in (last, each.index) for axis in (0, 1))
            self.thick.call(f, x, y, u, v, thickness, kind, ends)
            each.next(each.index, b.const(I64, 2))
        b.ret()
        return f


class _Side:
    """One of the two chains of edges of a convex polygon."""

    def __init__(self, f: Kernel, index: Value, top: Value, forward: bool) -> None:
        b = f.b
        self._f, self._forward = f, forward
        self.index, self.end, self.x, self.step = Variable(b, index), Variable(b, top), Variable(b, 0), Variable(b, 0)

    def _after(self, i: Value, n: Value) -> Value:
        b = self._f.b
        if self._forward:
            return b.select(b.icmp("eq", i + 1, n), b.const(I64, 0), i + 1)
        return b.select(b.icmp("eq", i, 0), n, i) - 1

    def reach(self, read: Read, n: Value, y: Variable, left: Variable) -> None:
        """At the end of an edge goes on to the next one that reaches below row ``y``; ``left`` counts those left."""
        b = self._f.b
        b.if_(b.icmp("sge", y.get(), self.end.get()), lambda: self._advance(read, n, y, left))

    def _advance(self, read: Read, n: Value, y: Variable, left: Variable) -> None:
        f, b = self._f, self._f.b
        start, following = Variable(b, self.index.get()), Variable(b, self._after(self.index.get(), n))

        def reaches() -> None:
            at, to = start.get(), following.get()
            x, row = read(at, 0), _rounded(f, read(to, 1))
            rise = row - y.get()
            self.end.set(row)
            self.index.set(to)
            self.x.set(x)
            self.step.set(b.sdiv((read(to, 0) - x) * 2 + rise, rise * 2))

        def above() -> Value:
            enough = b.icmp("sge", left.get(), 0)
            return b.and_(enough, b.icmp("sle", _rounded(f, read(following.get(), 1)), y.get()))

        def skip() -> None:
            start.set(following.get())
            following.set(self._after(following.get(), n))
            left.add(-1)

        left.add(-1)
        repeat(b, above, skip)
        b.if_(b.icmp("sge", left.get(), 0), reaches)


def _reader(f: Kernel, points: Value) -> Read:
    def read(index: Value | int, axis: int) -> Value:
        at = f.b.gep(points, I64, index * 2 + axis)
        return f.b.load(I64, at, check=False)

    return read


def _rounded(f: Kernel, position: Value) -> Value:
    """The pixel that a position is in."""
    return f.b.ashr(position + HALF, SHIFT)


def _even(f: Kernel, x: Value) -> Value:
    shift = f.b.const(F64, _EVEN)
    return f.b.sub(f.b.add(x, shift), shift)


def _size(f: Kernel, x: Value) -> Value:
    return f.b.select(f.b.icmp("slt", x, 0), 0 - x, x)


__all__ = ["FINE", "INLINE", "Stroke", "StrokeSpec"]
