"""Rows of a result: from f32 in scratch to pixels, and pixels moved as they are."""

from __future__ import annotations

from collections.abc import Iterator

from MNN.backends.cpu.image.numbers import rounded
from MNN.backends.cpu.lang.element import Tail, make_tail, storage_type, store
from MNN.backends.cpu.lang.module import F32, I8, I64, Builder, Type, Value, int_type
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType


def put_line(b: Builder, target: Target, line: Value, out: Value, count: Value, to: DType) -> None:
    """Stores ``count`` f32 from ``line`` on at ``out``, rounded to the type ``to``. The vector that the last of them is
    in may be read whole."""
    lanes, element = target.lanes(DType.F32), storage_type(to)
    whole = b.and_(count, -lanes)

    def put(at: Value, tail: Tail | None = None) -> None:
        x = rounded(b, b.load(F32.vec(lanes), b.gep(line, F32, at)), to)
        store(b, to, x, b.gep(out, element, at), None, tail)

    with b.loop(0, whole, lanes) as each:
        put(each.index)
    rest = count - whole
    b.if_(b.icmp("sgt", rest, 0), lambda: put(whole, make_tail(b, rest, lanes)))


def _pieces(size: int) -> Iterator[tuple[int, Type]]:
    """``size`` bytes in the largest pieces that a register holds: where they begin, and their types."""
    at = 0
    while at < size:
        piece = next(n for n in (16, 8, 4, 2, 1) if at + n <= size)
        yield at, I64.vec(2) if piece == 16 else int_type(8 * piece)
        at += piece


def move(b: Builder, size: int, source: Value, to: Value) -> None:
    """Copies ``size`` bytes."""
    for at, t in _pieces(size):
        b.store(b.load(t, b.gep(source, I8, at), 1), b.gep(to, I8, at), 1)


def move_many(b: Builder, element: Type, source: Value, to: Value, count: Value) -> None:
    """Copies ``count`` elements, at least one, one by one."""
    with b.loop(0, count, guard=False) as each:
        b.store(b.load(element, b.gep(source, element, each.index)), b.gep(to, element, each.index))


__all__ = ["move", "move_many", "put_line"]
