"""Connected regions of a picture: runs of rows, joined with those that they touch in the row above."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.runs import runs
from MNN.backends.cpu.lang.module import F64, I8, I32, I64, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.lang.variables import Function, Variable, repeat
from MNN.backends.cpu.targets.base import Target

_LEFT, _TOP, _RIGHT, _BOTTOM, _AREA = range(5)
STATS = 5
SPARE = 8
"""Labels behind the last one that may be written."""


@dataclass(frozen=True)
class LabelSpec(KernelSpec):
    """Numbers regions of bytes that are not 0 (Rosenfeld and Pfaltz, 1966) and measures them.

    With four neighbours they are numbered in the order in which a scan by rows meets them, with eight by rows of
    squares of two by two pixels. Slots: ``src``, ``row`` (bytes), ``width``, ``height``, ``eight`` (0 or 1), ``labels``
    (i32; :data:`SPARE` more), ``stats`` (i32: x, y, width, height, area of each), ``sums`` (f64: of x and of y of each,
    which become the centre), ``count`` (where the number of regions goes, the background included), and memory:
    ``changes`` (i32, one a pixel and a row), ``rows`` (i64, a row and one more), ``parents`` and ``numbers`` (i32, one
    a run).
    """

    def slots(self) -> tuple[str, ...]:
        return (
            "src", "row", "width", "height", "eight", "labels", "stats", "sums", "count", "changes", "rows", "parents",
            "numbers",
        )  # fmt: skip

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        parts = [f.call for f in (_joined(k), _numbered(k), _measured(k))]

        def all_() -> None:
            for part in parts:
                part(k)

        b.if_(b.icmp("slt", k.begin, k.end), all_)
        return k.finish()


def _get(f: Kernel, name: str, index: Value) -> Value:
    return f.b.entry(f.pointer(name), index)


def _put(f: Kernel, name: str, index: Value, value: Value | int) -> None:
    value = value if isinstance(value, Value) else f.b.const(I64, value)
    f.b.store(f.b.convert("trunc", value, I32), f.b.gep(f.pointer(name), I32, index))


def _row(f: Kernel, index: Value) -> Value:
    """The first run of a row."""
    return f.b.load(I64, f.b.gep(f.pointer("rows"), I64, index))


def _begin(f: Kernel, run: Value) -> Value:
    return _get(f, "changes", run * 2)


def _end(f: Kernel, run: Value) -> Value:
    return _get(f, "changes", run * 2 + 1)


def _joined(kernel: Kernel) -> Function:
    """Finds runs and joins them: ``parents`` has the first run of each one's region."""
    find, found = _find(kernel), runs(kernel)
    f = Function(kernel, "joined", [])
    b = f.b
    apart = b.const(I64, 1) - f.slot("eight")
    zero = b.const(I64, 0)
    b.store(zero, f.pointer("rows"))
    with b.loop(0, f.slot("height"), carry=(zero, zero)) as row:
        above, first = row.carried
        count = found.call(f, b.gep(f.pointer("src"), I8, row.index * f.slot("row")), f.slot("width"),
                           b.gep(f.pointer("changes"), I32, first * 2))  # fmt: skip
        past = first + b.lshr(count, 1)
        b.store(past, b.gep(f.pointer("rows"), I64, row.index + 1))
        with b.loop(first, past, carry=(above,)) as run:
            begin, end = _begin(f, run.index), _end(f, run.index)
            other, root = Variable(b, run.carried[0]), Variable(b, run.index)

            def before(begin: Value = begin, other: Variable = other, first: Value = first) -> Value:
                there = b.icmp("slt", other.get(), first)
                # behind the last run of the row above lies the first of this one: what is read is never unwritten
                return b.and_(there, b.icmp("slt", _end(f, other.get()), begin + apart))

            repeat(b, before, lambda other=other: other.add(1))  # type: ignore[misc]
            touched = Variable(b, other.get())

            def touches(end: Value = end, touched: Variable = touched, first: Value = first) -> Value:
                there = b.icmp("slt", touched.get(), first)
                return b.and_(there, b.icmp("sle", _begin(f, touched.get()), end - apart))

            def join(touched: Variable = touched, root: Variable = root) -> None:
                one, two = find.call(f, touched.get()), root.get()
                low = minimum(f, one, two)
                _put(f, "parents", one, low)
                _put(f, "parents", two, low)
                root.set(low)
                touched.add(1)

            _put(f, "parents", run.index, run.index)
            _put(f, "numbers", run.index, 0)
            repeat(b, touches, join)
            _put(f, "parents", run.index, root.get())
            back = touched.get() - 1  # the last one may touch the next run, too
            run.next(b.select(b.icmp("sgt", back, other.get()), back, other.get()))
        row.next(first, past)
    with b.loop(0, row.results[1]) as each:  # parents come before: theirs are final
        _put(f, "parents", each.index, _get(f, "parents", _get(f, "parents", each.index)))
    b.ret()
    return f


def _find(kernel: Kernel) -> Function:
    """The first run of a region so far; paths to it are halved."""
    f = Function(kernel, "find", [(I64, "run")], I64)
    b, at = f.b, Variable(f.b, f.params[0])

    def step() -> None:
        further = _get(f, "parents", _get(f, "parents", at.get()))
        _put(f, "parents", at.get(), further)
        at.set(further)

    repeat(b, lambda: b.icmp("ne", _get(f, "parents", at.get()), at.get()), step)
    b.ret(at.get())
    return f


def _numbered(kernel: Kernel) -> Function:
    """Gives regions their numbers, at their first runs."""
    f = Function(kernel, "numbered", [])
    b, count, height = f.b, Variable(f.b, 0), f.slot("height")

    def number(run: Value) -> None:
        root = _get(f, "parents", run)

        def new() -> None:
            count.add(1)
            _put(f, "numbers", root, count.get())

        b.if_(b.icmp("eq", _get(f, "numbers", root), 0), new)

    def by_rows() -> None:
        with b.loop(0, _row(f, height)) as each:
            number(each.index)

    def by_squares() -> None:
        with b.loop(0, height, 2) as each:
            upper, lower = Variable(b, _row(f, each.index)), Variable(b, _row(f, each.index + 1))
            middle, past = lower.get(), _row(f, minimum(f, each.index + 2, height))

            def one(
                upper: Variable = upper, lower: Variable = lower, middle: Value = middle, past: Value = past
            ) -> None:
                def square(run: Variable, end: Value) -> Value:
                    def read() -> list[Value]:
                        return [b.ashr(_begin(f, run.get()), 1)]

                    return b.if_else(b.icmp("slt", run.get(), end), read, lambda: [b.const(I64, 1 << 40)])[0]

                def take(run: Variable) -> None:
                    number(run.get())
                    run.add(1)

                earlier = b.icmp("sle", square(upper, middle), square(lower, past))
                b.choose(earlier, lambda: take(upper), lambda: take(lower))

            def more(
                upper: Variable = upper, lower: Variable = lower, middle: Value = middle, past: Value = past
            ) -> Value:
                return b.or_(b.icmp("slt", upper.get(), middle), b.icmp("slt", lower.get(), past))

            repeat(b, more, one)

    b.choose(b.icmp("ne", f.slot("eight"), 0), by_squares, by_rows)
    b.store(count.get() + 1, f.pointer("count"))
    b.ret()
    return f


def _pixels(kernel: Kernel) -> Function:
    """Labels the pixels of a row from ``first`` to before ``past``, and counts them in."""
    f = Function(kernel, "pixels", [(I64, name) for name in ("y", "first", "past", "label")])
    b = f.b
    y, first, past, label = f.params
    start = label * STATS

    def least(i: int, value: Value) -> None:
        _put(f, "stats", start + i, minimum(f, _get(f, "stats", start + i), value))

    def most(i: int, value: Value) -> None:
        old = _get(f, "stats", start + i)
        _put(f, "stats", start + i, b.select(b.icmp("sgt", old, value), old, value))

    def all_() -> None:
        place = b.gep(f.pointer("labels"), I32, y * f.slot("width"))
        numbers = b.splat(b.convert("trunc", label, I32), SPARE)
        with b.loop(first, past, SPARE, guard=False) as each:  # what is written too far is written again
            b.store(numbers, b.gep(place, I32, each.index), 4)
        least(_LEFT, first)
        least(_TOP, y)
        most(_RIGHT, past - 1)
        most(_BOTTOM, y)
        length = past - first
        _put(f, "stats", start + _AREA, _get(f, "stats", start + _AREA) + length)
        for i, value in enumerate((b.ashr((first + past - 1) * length, 1), y * length)):
            sum_ = b.gep(f.pointer("sums"), F64, label * 2 + i)
            b.store(b.add(b.load(F64, sum_), b.convert("sitofp", value, F64)), sum_)

    b.if_(b.icmp("slt", first, past), all_)
    b.ret()
    return f


def _measured(kernel: Kernel) -> Function:
    """Writes labels and measures regions."""
    pixels = _pixels(kernel)
    f = Function(kernel, "measured", [])
    b, width, height = f.b, f.slot("width"), f.slot("height")
    count = b.load(I64, f.pointer("count"))
    with b.loop(0, count) as each:
        start = each.index * STATS
        for i, value in ((_LEFT, width), (_TOP, height), (_RIGHT, -1), (_BOTTOM, -1), (_AREA, 0)):
            _put(f, "stats", start + i, value)
        for i in range(2):
            b.store(b.const(F64, 0), b.gep(f.pointer("sums"), F64, each.index * 2 + i))
    with b.loop(0, height) as row:
        with b.loop(_row(f, row.index), _row(f, row.index + 1), carry=(b.const(I64, 0),)) as run:
            begin, end = _begin(f, run.index), _end(f, run.index)
            pixels.call(f, row.index, run.carried[0], begin, 0)
            pixels.call(f, row.index, begin, end, _get(f, "numbers", _get(f, "parents", run.index)))
            run.next(end)
        pixels.call(f, row.index, run.results[0], width, 0)
    with b.loop(0, count) as each:
        start = each.index * STATS
        for low, high in ((_LEFT, _RIGHT), (_TOP, _BOTTOM)):
            _put(f, "stats", start + high, _get(f, "stats", start + high) - _get(f, "stats", start + low) + 1)
        area = b.convert("sitofp", _get(f, "stats", start + _AREA), F64)
        for i in range(2):
            sum_ = b.gep(f.pointer("sums"), F64, each.index * 2 + i)
            b.store(b.fdiv(b.load(F64, sum_), area), sum_)
    b.ret()
    return f


__all__ = ["SPARE", "STATS", "LabelSpec"]
