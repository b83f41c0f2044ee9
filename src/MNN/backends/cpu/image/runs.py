"""Where rows of a picture change between 0 and other numbers."""

from __future__ import annotations

from MNN.backends.cpu.lang.module import I1, I8, I32, I64, PTR, Kernel, Value
from MNN.backends.cpu.lang.variables import Function, Variable, repeat

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


__all__ = ["runs"]
