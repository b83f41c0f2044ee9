"""Borders of regions by following them (Suzuki and Abe, 1985)."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.runs import runs
from MNN.backends.cpu.lang.module import I1, I8, I32, I64, PTR, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.lang.variables import Function, Variable, repeat
from MNN.backends.cpu.targets.base import Target

_AROUND = ((1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1))
"""Steps (x, y) to the eight neighbours, anticlockwise from the right."""
_TABLE = "@around"
_LANES = 8
HOLE, PARENT, FIRST, COUNT = range(4)
"""A border: whether it surrounds a hole, the number of the border around it (-1: none), its first point, how many."""
BORDER = 4


@dataclass(frozen=True)
class BorderSpec(KernelSpec):
    """Follows the borders of regions of bytes that are not 0, in the order in which a scan by rows meets them.

    Slots: ``src``, ``row`` (bytes), ``width``, ``height``, ``corners`` (1: only the ends of straight runs of points, 0:
    all of them), ``borders`` (i32, :data:`BORDER` of each) and ``points`` (i32: x, y) with the ``room`` that they have,
    in ``borders_room`` and ``points_room``, ``counts`` (i64: how many of both there are, which may be more than there
    is room for: then they are incomplete) and memory: ``marks`` (i32, of a picture with a frame of one pixel) and
    ``changes`` (i32, of a row and two more).
    """

    def slots(self) -> tuple[str, ...]:
        return (
            "src", "row", "width", "height", "corners", "borders", "borders_room", "points", "points_room", "counts",
            "marks", "changes",
        )  # fmt: skip

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        numbers = ", ".join(f"i64 {n}" for step in _AROUND for n in step)
        k.module.add(f"{_TABLE} = internal constant [{2 * len(_AROUND)} x i64] [{numbers}]")
        b, scan = k.b, _scan(k)
        b.if_(b.icmp("slt", k.begin, k.end), lambda: scan.call(k))
        return k.finish()


def _step(f: Kernel, direction: Value) -> tuple[Value, Value]:
    table = Value(f.b, _TABLE, PTR)
    x, y = (f.b.load(I64, f.b.gep(table, I64, direction * 2 + i), check=False) for i in range(2))
    return x, y


def _stride(f: Kernel) -> Value:
    return f.slot("width") + 2


def _mark(f: Kernel, at: Value) -> Value:
    return f.b.entry(f.pointer("marks"), at)


def _set_mark(f: Kernel, at: Value, number: Value) -> None:
    f.b.store(f.b.convert("trunc", number, I32), f.b.gep(f.pointer("marks"), I32, at))


def _count(f: Kernel, which: int) -> Value:
    return f.b.load(I64, f.b.gep(f.pointer("counts"), I64, which))


def _counted(f: Kernel, which: int, room: str, values: tuple[Value, ...], to: str) -> Value:
    """Stores the numbers of a border or point, if there is room; its number."""
    b, number = f.b, _count(f, which)

    def put() -> None:
        place = b.gep(f.pointer(to), I32, number * len(values))
        for i, value in enumerate(values):
            b.store(b.convert("trunc", value, I32), b.gep(place, I32, i))

    b.if_(b.icmp("slt", number, f.slot(room)), put)
    b.store(number + 1, b.gep(f.pointer("counts"), I64, which))
    return number


def _follow(kernel: Kernel) -> Function:
    """Walks around a border from the pixel (x, y), whose neighbour in the direction ``back`` lies outside of it; marks
    pixels with its number, negative where its right side is open."""
    f = Function(kernel, "follow", [(I64, "x"), (I64, "y"), (I64, "back"), (I64, "number")])
    b = f.b
    first_x, first_y, back, number = f.params
    start = (first_y + 1) * _stride(f) + first_x + 1

    def neighbour(at: Value, direction: Value) -> Value:
        x, y = _step(f, direction)
        return at + y * _stride(f) + x

    def point(x: Value, y: Value) -> None:
        _counted(f, 1, "points_room", (x, y), "points")

    turn, tried = Variable(b, b.and_(back - 1, 7)), Variable(b, 1)

    def empty() -> Value:
        blank = b.icmp("eq", _mark(f, neighbour(start, turn.get())), 0)
        return b.and_(blank, b.icmp("sle", tried.get(), 8))

    def further() -> None:
        turn.set(b.and_(turn.get() - 1, 7))
        tried.add(1)

    repeat(b, empty, further)

    def single() -> None:
        _set_mark(f, start, 0 - number)
        point(first_x, first_y)

    def walk() -> None:
        end = neighbour(start, turn.get())
        at, x, y, come = (Variable(b, v) for v in (start, first_x, first_y, turn.get()))
        going = Variable(b, b.const(I1, 1), I1)

        def step() -> None:
            here, direction, open_ = at.get(), Variable(b, b.and_(come.get() + 1, 7)), Variable(b, b.const(I1, 0), I1)

            def outside() -> None:
                open_.set(b.or_(open_.get(), b.icmp("eq", direction.get(), 0)))
                direction.set(b.and_(direction.get() + 1, 7))

            repeat(b, lambda: b.icmp("eq", _mark(f, neighbour(here, direction.get())), 0), outside)
            old = _mark(f, here)
            fresh = b.select(b.icmp("eq", old, 1), number, old)
            _set_mark(f, here, b.select(open_.get(), 0 - number, fresh))
            straight = b.icmp("eq", direction.get(), b.and_(come.get() + 4, 7))
            skipped = b.and_(straight, b.icmp("ne", f.slot("corners"), 0))
            b.if_(b.not_(skipped), lambda: point(x.get(), y.get()))
            right, down = _step(f, direction.get())
            following = here + down * _stride(f) + right
            around = b.and_(b.icmp("eq", following, start), b.icmp("eq", here, end))
            going.set(b.not_(around))
            at.set(following)
            x.add(right)
            y.add(down)
            come.set(b.and_(direction.get() + 4, 7))

        repeat(b, going.get, step)

    b.choose(b.icmp("sgt", tried.get(), 8), single, walk)
    b.ret()
    return f


def _look(kernel: Kernel) -> Function:
    """Follows the border that begins at a pixel at the start or the end of a run, if one does; from the number of the
    border that was met ``last`` in its row to that of the one that is now."""
    follow = _follow(kernel)
    f = Function(kernel, "look", [(I64, name) for name in ("x", "y", "starts", "ends", "last")], I64)
    b = f.b
    x, y, starts, ends, before = f.params
    at, last = (y + 1) * _stride(f) + x + 1, Variable(b, before)
    mark = _mark(f, at)
    outer = b.and_(b.icmp("ne", starts, 0), b.icmp("eq", mark, 1))
    hole = b.and_(b.icmp("ne", ends, 0), b.icmp("sge", mark, 1))

    def begin() -> None:
        is_hole = b.convert("zext", b.not_(outer), I64)
        met = b.and_(b.not_(outer), b.icmp("sgt", mark, 1))
        last.set(b.select(met, mark, last.get()))

        def around() -> list[Value]:
            entry = b.gep(f.pointer("borders"), I32, (last.get() - 2) * BORDER)
            same = b.icmp("eq", b.entry(entry, HOLE), is_hole)
            return [b.select(same, b.entry(entry, PARENT), last.get() - 2)]

        known = b.icmp("sle", last.get(), minimum(f, _count(f, 0), f.slot("borders_room")) + 1)
        inside = b.and_(b.icmp("sge", last.get(), 2), known)
        parent = b.if_else(inside, around, lambda: [b.const(I64, -1)])[0]
        first = _count(f, 1)
        number = _counted(f, 0, "borders_room", (is_hole, parent, first, b.const(I64, 0)), "borders")
        follow.call(f, x, y, b.select(outer, b.const(I64, 4), b.const(I64, 0)), number + 2)

        def count() -> None:
            place = b.gep(f.pointer("borders"), I32, number * BORDER + COUNT)
            b.store(b.convert("trunc", _count(f, 1) - first, I32), place)

        b.if_(b.icmp("slt", number, f.slot("borders_room")), count)

    b.if_(b.or_(outer, hole), begin)
    now = _mark(f, at)
    size = b.select(b.icmp("slt", now, 0), 0 - now, now)
    b.ret(b.select(b.icmp("sgt", size, 1), size, last.get()))
    return f


def _scan(kernel: Kernel) -> Function:
    """Marks what is filled with 1 and looks at where runs begin and end."""
    changes, look = runs(kernel), _look(kernel)
    f = Function(kernel, "scan", [])
    b, width, height, stride, marks = f.b, f.slot("width"), f.slot("height"), _stride(f), f.pointer("marks")
    zero, one = b.const(I64, 0), b.const(I64, 1)
    for i in range(2):
        b.store(zero, b.gep(f.pointer("counts"), I64, i))
    with b.loop(0, stride) as each:
        _set_mark(f, each.index, zero)
        _set_mark(f, each.index + (height + 1) * stride, zero)
    many = b.and_(width, -_LANES)
    with b.loop(0, height) as row:
        source, begin = b.gep(f.pointer("src"), I8, row.index * f.slot("row")), (row.index + 1) * stride
        _set_mark(f, begin, zero)
        _set_mark(f, begin + width + 1, zero)
        to = b.gep(marks, I32, begin + 1)
        for lanes, start, past in ((_LANES, zero, many), (1, many, width)):
            with b.loop(start, past, lanes) as each:
                filled = b.icmp("ne", b.load(I8.vec(lanes), b.gep(source, I8, each.index), 1), 0)
                b.store(b.convert("zext", filled, I32.vec(lanes)), b.gep(to, I32, each.index), 4)
    with b.loop(0, height) as row:
        table = f.pointer("changes")
        count = changes.call(f, b.gep(f.pointer("src"), I8, row.index * f.slot("row")), width, table)
        with b.loop(0, count, 2, carry=(zero,)) as run:
            first, end = b.entry(table, run.index), b.entry(table, run.index + 1) - 1
            alone = b.icmp("eq", first, end)
            last = look.call(f, first, row.index, one, b.convert("zext", alone, I64), run.carried[0])
            after = b.if_else(alone, lambda last=last: [last],  # type: ignore[misc]
                              lambda end=end, last=last, y=row.index: [look.call(f, end, y, zero, one, last)])  # type: ignore[misc] # fmt: skip
            run.next(after[0])
    b.ret()
    return f


__all__ = ["BORDER", "COUNT", "FIRST", "HOLE", "PARENT", "BorderSpec"]
