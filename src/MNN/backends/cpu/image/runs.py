"""Where rows of a picture change between 0 and other numbers, and what part of it has any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.lang.module import I1, I8, I32, I64, PTR, Kernel, Value, int_type
from MNN.backends.cpu.lang.variables import Function, Variable, repeat
from MNN.backends.cpu.targets.base import Target

_BYTES = 8
_WORD = 64
"""Pixels that are looked at together."""


def runs(kernel: Kernel) -> Function:
    """A function of a kernel: stores the places (i32) at which runs of bytes that are not 0 begin and end (behind their
    last) in a ``row`` of ``width`` bytes, one after the other, at ``to``; gives their number, an even one."""
    f = Function(kernel, "runs", [(PTR, "row"), (I64, "width"), (PTR, "to")], I64)
    b = f.b
    row, width, to = f.params
    found, last = Variable(b, 0), Variable(b, 0)

    def put(place: Value) -> None:
        b.store(b.convert("trunc", place, I32), b.gep(to, I32, found.get()))
        found.add(1)

    def changes(first: Value, filled: Value) -> None:
        """``filled``: a bit a pixel, from the pixel ``first`` on."""
        left = Variable(b, b.xor(filled, b.or_(b.shl(filled, 1), last.get())))
        last.set(b.lshr(filled, _WORD - 1))

        def one() -> None:
            bits = left.get()
            put(first + b.call(I64, "llvm.cttz.i64", bits, b.const(I1, 1)))
            left.set(b.and_(bits, b.emit(I64, f"sub i64 {bits.text}, 1")))

        repeat(b, lambda: b.icmp("ne", left.get(), 0), one)

    def whole(first: Value) -> Value:
        pixels = b.load(I8.vec(_WORD), b.gep(row, I8, first), 1)
        return b.bitcast(b.icmp("ne", pixels, 0), I64)

    def rest(first: Value, count: Value) -> None:
        def overlapping() -> list[Value]:
            return [b.lshr(whole(width - _WORD), _WORD - count)]

        def one_by_one() -> list[Value]:
            with b.loop(0, count, carry=(b.const(I64, 0),), guard=False) as each:
                set_ = b.icmp("ne", b.load(I8, b.gep(row, I8, first + each.index)), 0)
                each.next(b.or_(each.carried[0], b.shl(b.convert("zext", set_, I64), each.index)))
            return each.results

        changes(first, b.if_else(b.icmp("sge", width, _WORD), overlapping, one_by_one)[0])

    many = b.and_(width, -_WORD)
    with b.loop(0, many, _WORD) as each:
        changes(each.index, whole(each.index))
    b.if_(b.icmp("slt", many, width), lambda: rest(many, width - many))
    b.if_(b.icmp("ne", last.get(), 0), lambda: put(width))
    b.ret(found.get())
    return f


@dataclass(frozen=True)
class BoundsSpec(KernelSpec):
    """The rectangle around bytes that are not 0.

    Slots: ``src``, ``row`` (bytes), ``width``, ``height`` and ``bounds``: four i64, the first and last column and the
    first and last row; without any such byte the first column is the width, and the last ones are -1.
    """

    def slots(self) -> tuple[str, ...]:
        return ("src", "row", "width", "height", "bounds")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, width, height = k.b, k.slot("width"), k.slot("height")
        left, right, top, bottom = (Variable(b, n) for n in (width, -1, height, -1))

        def row(y: Value) -> None:
            source, first, last = b.gep(k.pointer("src"), I8, y * k.slot("row")), Variable(b, 0), Variable(b, width)

            def blank(place: Value, bytes_: int) -> Value:
                t = int_type(8 * bytes_)
                return b.icmp("eq", b.load(t, b.gep(source, I8, place), 1), 0)

            def skip(at: Variable, inside: Callable[[int], Value], step: int) -> None:
                """Moves ``at`` past zeros, eight at a time and then one by one."""
                for size in (_BYTES, 1):
                    place = at.get if step > 0 else lambda size=size: at.get() - size

                    def zeros(size: int = size, place: Callable[[], Value] = place) -> Value:
                        return b.if_else(inside(size), lambda: [blank(place(), size)], lambda: [b.const(I1, 0)])[0]

                    repeat(b, zeros, lambda size=size: at.add(step * size))  # type: ignore[misc]

            skip(first, lambda size: b.icmp("sle", first.get() + size, width), 1)

            def some() -> None:
                skip(last, lambda size: b.icmp("sge", last.get() - size, first.get()), -1)
                for place, value, nearer in ((left, first.get(), "slt"), (right, last.get() - 1, "sgt")):
                    place.set(b.select(b.icmp(nearer, value, place.get()), value, place.get()))
                top.set(b.select(b.icmp("slt", y, top.get()), y, top.get()))
                bottom.set(y)

            b.if_(b.icmp("slt", first.get(), width), some)

        with b.loop(0, b.select(b.icmp("slt", k.begin, k.end), height, b.const(I64, 0))) as each:
            row(each.index)
        for i, place in enumerate((left, right, top, bottom)):
            b.store(place.get(), b.gep(k.pointer("bounds"), I64, i))
        return k.finish()


_BLOCKS = (32, 8)


@dataclass(frozen=True)
class MaskedSpec(KernelSpec):
    """Copies pixels of ``size`` bytes where bytes of a mask are not 0, run by run.

    Slots: ``src`` and ``out`` (whose rows follow each other), ``mask``, ``width``, ``height`` and ``changes`` (i32,
    memory of a row and two more).
    """

    size: int

    def slots(self) -> tuple[str, ...]:
        return ("src", "out", "mask", "width", "height", "changes")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, width, table, changes = k.b, k.slot("width"), k.pointer("changes"), runs(k)

        def copy(source: Value, to: Value, count: Value, blocks: tuple[int, ...] = _BLOCKS) -> None:
            if not blocks:
                with b.loop(0, count) as each:
                    b.store(b.load(I8, b.gep(source, I8, each.index)), b.gep(to, I8, each.index))
                return
            t = I8.vec(blocks[0])

            def whole() -> None:  # the last one may lie over the one before
                with b.loop(0, count - blocks[0], blocks[0]) as each:
                    b.store(b.load(t, b.gep(source, I8, each.index), 1), b.gep(to, I8, each.index), 1)
                last = count - blocks[0]
                b.store(b.load(t, b.gep(source, I8, last), 1), b.gep(to, I8, last), 1)

            b.choose(b.icmp("sge", count, blocks[0]), whole, lambda: copy(source, to, count, blocks[1:]))

        with b.loop(0, b.select(b.icmp("slt", k.begin, k.end), k.slot("height"), b.const(I64, 0))) as row:
            first = row.index * width
            count = changes.call(k, b.gep(k.pointer("mask"), I8, first), width, table)
            with b.loop(0, count, 2) as run:
                begin, end = (b.entry(table, run.index + i) for i in range(2))
                place = (first + begin) * self.size
                copy(b.gep(k.pointer("src"), I8, place), b.gep(k.pointer("out"), I8, place), (end - begin) * self.size)
        return k.finish()


__all__ = ["BoundsSpec", "MaskedSpec", "runs"]
