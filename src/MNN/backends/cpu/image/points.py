"""Convex hulls, smallest rectangles, areas and extents of points."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.lang.module import F64, I1, I32, I64, Kernel, Value
from MNN.backends.cpu.lang.variables import Function, Variable, repeat
from MNN.backends.cpu.targets.base import Target

NUMBERS = 8
"""f64 that results may need."""
_SHRINK = 5, 11
"""From one gap to the next where points are put in order (Gonnet and Baeza-Yates, 1991)."""
_CLOSE = 1e-12
"""Of the square of an extent: what a point must be inside by to be left out."""


class Measure(enum.IntEnum):
    """``HULL``: the corners' places in ``order`` and their number in ``result``. ``RECTANGLE``: the same in the order
    of the scan, and in ``result`` from 1 on the smallest rectangle: a direction (x, y), the least and greatest place
    along it, and across it. ``AREA``: that of the polygon. ``EXTENT``: least x and y, greatest x and y."""

    HULL, RECTANGLE, AREA, EXTENT = range(4)


@dataclass(frozen=True)
class PointsSpec(KernelSpec):
    """Measures ``count`` points (f64: x, y).

    Hulls are Andrew's monotone chain (1979), anticlockwise with y pointing up, of what lies outside of the quadrangle
    of the outermost points along the diagonals (Akl and Toussaint, 1978); rectangles have a side along the hull
    (Freeman and Shapira, 1975). Slots: ``points``, ``count``, ``what`` (:class:`Measure`), ``clockwise`` (of a hull:
    from its leftmost corner on, else from the rightmost one; turned round so that places rise or fall, where that can
    be), ``result`` (:data:`NUMBERS` f64), ``order`` (i32, twice as many as points and two more: where rounding decides,
    points may be on both sides of a hull), and ``sorted`` and ``chain`` (i32, memory of as many)."""

    def slots(self) -> tuple[str, ...]:
        return ("points", "count", "what", "clockwise", "result", "order", "sorted", "chain")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, what = k.b, k.slot("what")
        area, extent, hull, rectangle = (make(k) for make in (_area, _extent, _hull, _rectangle))

        def corners() -> None:
            hull.call(k)
            b.if_(b.icmp("eq", what, Measure.RECTANGLE), lambda: rectangle.call(k))

        def other() -> None:
            b.choose(b.icmp("eq", what, Measure.AREA), lambda: area.call(k), lambda: extent.call(k))

        def all_() -> None:
            b.choose(b.icmp("sle", what, Measure.RECTANGLE), corners, other)

        b.if_(b.icmp("slt", k.begin, k.end), all_)
        return k.finish()


def _point(f: Kernel, index: Value) -> tuple[Value, Value]:
    place = f.b.gep(f.pointer("points"), F64, index * 2)
    return f.b.load(F64, place), f.b.load(F64, f.b.gep(place, F64, 1))


def _get(f: Kernel, name: str, index: Value) -> Value:
    return f.b.entry(f.pointer(name), index)


def _put(f: Kernel, name: str, index: Value, value: Value) -> None:
    f.b.store(f.b.convert("trunc", value, I32), f.b.gep(f.pointer(name), I32, index))


def _result(f: Kernel, index: int, value: Value) -> None:
    f.b.store(value, f.b.gep(f.pointer("result"), F64, index))


def _cross(f: Kernel, a: tuple[Value, Value], c: tuple[Value, Value], d: tuple[Value, Value]) -> Value:
    """Twice the area of a triangle, above 0 where it is anticlockwise."""
    b = f.b
    return b.sub(b.mul(b.sub(c[0], a[0]), b.sub(d[1], a[1])), b.mul(b.sub(c[1], a[1]), b.sub(d[0], a[0])))


def _area(kernel: Kernel) -> Function:
    f = Function(kernel, "area", [])
    b, n = f.b, f.slot("count")
    with b.loop(0, n, carry=(*_point(f, n - 1), b.const(F64, 0))) as each:
        u, v, total = each.carried
        x, y = _point(f, each.index)
        each.next(x, y, b.add(total, b.sub(b.mul(u, y), b.mul(x, v))))
    _result(f, 0, b.mul(each.results[2], b.const(F64, 0.5)))
    b.ret()
    return f


def _extent(kernel: Kernel) -> Function:
    f = Function(kernel, "extent", [])
    b, first = f.b, _point(f, f.b.const(I64, 0))
    with b.loop(1, f.slot("count"), carry=(*first, *first)) as each:
        here = _point(f, each.index)
        low = [b.select(b.fcmp("olt", p, old), p, old) for p, old in zip(here, each.carried[:2], strict=True)]
        high = [b.select(b.fcmp("ogt", p, old), p, old) for p, old in zip(here, each.carried[2:], strict=True)]
        each.next(*low, *high)
    for i, value in enumerate(each.results):
        _result(f, i, value)
    b.ret()
    return f


def _outer(f: Kernel) -> Variable:
    """Puts into ``sorted`` all points but what is inside of a quadrangle; their number."""
    b, n, zero = f.b, f.slot("count"), f.b.const(I64, 0)

    def diagonals(p: tuple[Value, Value]) -> list[Value]:
        up, down = b.add(*p), b.sub(*p)
        return [b.fneg(up), down, up, b.fneg(down)]  # anticlockwise, from the lower left on

    first = diagonals(_point(f, zero))
    with b.loop(1, n, carry=(*first, *[zero] * 4)) as each:
        values, places = [], []
        for value, most, place in zip(
            diagonals(_point(f, each.index)), each.carried[:4], each.carried[4:], strict=True
        ):
            further = b.fcmp("ogt", value, most)
            values.append(b.select(further, value, most))
            places.append(b.select(further, each.index, place))
        each.next(*values, *places)
    corners = [_point(f, place) for place in each.results[4:]]
    extent = b.add(b.add(each.results[0], each.results[2]), b.add(each.results[1], each.results[3]))
    least = b.mul(b.mul(extent, extent), b.const(F64, _CLOSE))
    kept = Variable(b, 0)
    with b.loop(0, n) as each:
        here, inside = _point(f, each.index), b.const(I1, 1)
        for one, other in zip(corners, corners[1:] + corners[:1], strict=True):
            inside = b.and_(inside, b.fcmp("ogt", _cross(f, one, other, here), least))
        _put(f, "sorted", kept.get(), each.index)
        kept.set(b.select(inside, kept.get(), kept.get() + 1))
    return kept


def _order(f: Kernel, count: Value) -> None:
    """Puts points in order by x, y and their places (Shell, 1959)."""
    b, gap = f.b, Variable(f.b, count)

    def passed(gap: Value) -> None:
        with b.loop(gap, count) as each:
            held, at = _get(f, "sorted", each.index), Variable(b, each.index)
            x, y = _point(f, held)

            def behind() -> list[Value]:
                other = _get(f, "sorted", at.get() - gap)
                u, v = _point(f, other)
                last = b.or_(b.fcmp("ogt", v, y), b.and_(b.fcmp("oeq", v, y), b.icmp("sgt", other, held)))
                return [b.or_(b.fcmp("ogt", u, x), b.and_(b.fcmp("oeq", u, x), last))]

            def unsettled() -> Value:
                return b.if_else(b.icmp("sge", at.get(), gap), behind, lambda: [b.const(I1, 0)])[0]

            def shift() -> None:
                _put(f, "sorted", at.get(), _get(f, "sorted", at.get() - gap))
                at.set(at.get() - gap)

            repeat(b, unsettled, shift)
            _put(f, "sorted", at.get(), held)

    def turn() -> None:
        smaller = b.sdiv(gap.get() * _SHRINK[0], _SHRINK[1])
        gap.set(b.select(b.icmp("slt", smaller, 1), b.const(I64, 1), smaller))
        passed(gap.get())

    repeat(b, lambda: b.icmp("sgt", gap.get(), 1), turn)


def _different(f: Kernel, count: Value) -> Value:
    """Keeps the first of equal points in ``sorted``; how many are left."""
    b, kept = f.b, Variable(f.b, 1)
    with b.loop(1, count) as each:
        place = _get(f, "sorted", each.index)
        (x, y), (u, v) = _point(f, place), _point(f, _get(f, "sorted", kept.get() - 1))
        _put(f, "sorted", kept.get(), place)
        kept.set(b.select(b.or_(b.fcmp("one", x, u), b.fcmp("one", y, v)), kept.get() + 1, kept.get()))
    return kept.get()


def _hull(kernel: Kernel) -> Function:
    f = Function(kernel, "hull", [])
    b = f.b
    outer = _outer(f).get()
    _order(f, outer)
    count, made = _different(f, outer), Variable(b, 0)
    rightmost = Variable(b, count - 1)

    def chain(start: Value, place: Callable[[Value], Value]) -> None:
        """Appends the points at ``place`` of 0, 1, ... to what is kept from ``start`` on."""
        with b.loop(0, count) as each:
            new = _get(f, "sorted", place(each.index))
            c = _point(f, new)

            def bends() -> list[Value]:
                one, two = (_point(f, _get(f, "chain", made.get() - i)) for i in (2, 1))
                return [b.not_(b.fcmp("ogt", _cross(f, one, two, c), b.const(F64, 0)))]

            def back() -> Value:
                return b.if_else(b.icmp("sgt", made.get() - start, 1), bends, lambda: [b.const(I1, 0)])[0]

            repeat(b, back, lambda: made.add(-1))
            _put(f, "chain", made.get(), new)
            made.add(1)

    def few() -> None:
        with b.loop(0, count) as each:
            _put(f, "chain", each.index, _get(f, "sorted", each.index))
        made.set(count)

    def many() -> None:
        chain(b.const(I64, 0), lambda i: i)
        made.add(-1)
        rightmost.set(made.get())
        chain(made.get(), lambda i: count - 1 - i)
        made.add(-1)

    b.choose(b.icmp("slt", count, 3), few, many)
    n = made.get()
    _result(f, 0, b.convert("sitofp", n, F64))
    plain, clockwise = b.icmp("eq", f.slot("what"), Measure.RECTANGLE), b.icmp("ne", f.slot("clockwise"), 0)
    turned = b.select(b.or_(plain, clockwise), b.const(I64, 0), rightmost.get())

    def corner(i: Value) -> Value:
        """The place of a corner, from the one that the hull is to begin with on."""
        ahead = _wrapped(f, i + turned, n)
        return _get(f, "chain", b.select(b.and_(b.not_(plain), clockwise), _wrapped(f, n - i, n), ahead))

    start = _start(f, n, corner, plain)
    with b.loop(0, n) as each:
        _put(f, "order", each.index, corner(_wrapped(f, each.index + start, n)))
    b.ret()
    return f


def _wrapped(f: Kernel, i: Value, n: Value) -> Value:
    return f.b.select(f.b.icmp("sge", i, n), i - n, i)


def _start(f: Kernel, n: Value, corner: Callable[[Value], Value], plain: Value) -> Value:
    """From which corner on places rise or fall all the way round; 0 where they do neither."""
    b, zero = f.b, f.b.const(I64, 0)
    first = corner(zero)
    carry = (zero, first, zero, first, zero)
    with b.loop(0, n, carry=carry) as each:
        falls, least, low, most, high = each.carried
        here, following = corner(each.index), corner(_wrapped(f, each.index + 1, n))
        smaller, larger = b.icmp("slt", here, least), b.icmp("sgt", here, most)
        each.next(
            falls + b.convert("zext", b.icmp("slt", following, here), I64), b.select(smaller, here, least),
            b.select(smaller, each.index, low), b.select(larger, here, most), b.select(larger, each.index, high),
        )  # fmt: skip
    falls, _, low, _, high = each.results
    turned = b.and_(b.not_(plain), b.icmp("sgt", n, 2))
    rising, falling = b.icmp("eq", falls, 1), b.icmp("eq", falls, n - 1)
    return b.select(b.and_(turned, rising), low, b.select(b.and_(turned, falling), high, zero))


def _rectangle(kernel: Kernel) -> Function:
    """The smallest rectangle of the hull in ``order``, of at least two corners."""
    f = Function(kernel, "rectangle", [])
    b = f.b
    n = b.convert("fptosi", b.load(F64, f.pointer("result")), I64)
    best = Variable(b, b.const(F64, float("inf")), F64)
    with b.loop(0, n) as side:
        x, y = _point(f, _get(f, "order", side.index))
        u, v = _point(f, _get(f, "order", _wrapped(f, side.index + 1, n)))
        dx, dy = b.sub(u, x), b.sub(v, y)
        length = b.intrinsic("sqrt", b.add(b.mul(dx, dx), b.mul(dy, dy)))
        dx, dy = b.fdiv(dx, length), b.fdiv(dy, length)
        far = b.const(F64, float("inf"))
        with b.loop(0, n, carry=(far, b.fneg(far), far, b.fneg(far))) as each:
            x, y = _point(f, _get(f, "order", each.index))
            along, across = b.add(b.mul(x, dx), b.mul(y, dy)), b.sub(b.mul(y, dx), b.mul(x, dy))
            low, high, left, right = each.carried
            each.next(*(b.select(b.fcmp("olt", p, old), p, old) if lower else b.select(b.fcmp("ogt", p, old), p, old)
                        for p, old, lower in ((along, low, True), (along, high, False),
                                              (across, left, True), (across, right, False))))  # fmt: skip
        low, high, left, right = each.results
        area = b.mul(b.sub(high, low), b.sub(right, left))

        def better(values: tuple[Value, ...] = (dx, dy, low, high, left, right), area: Value = area) -> None:
            best.set(area)
            for i, value in enumerate(values):
                _result(f, i + 1, value)

        b.if_(b.fcmp("olt", area, best.get()), better)
    b.ret()
    return f


__all__ = ["NUMBERS", "Measure", "PointsSpec"]
