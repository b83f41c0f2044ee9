"""What Python functions are given, read by typed functions: whole numbers and points. Nothing is converted that is
not of Python's very types, and no error of Python's is left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from MNN.backends.cpu.typed.language import Doubles, Words, typed
from MNN.cv.kernels.quick.known import Common, Entry
from MNN.expr.arrays.native.objects import ALIGNED, DENSE, Arguments, Array, Object

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
_FARTHEST = 1e30


def calling(work: Callable[[Common, Entry, Arguments], bool], arguments: int) -> Callable[..., Any]:
    """What CPython calls with so many arguments: True where the typed function ``work``, which is given what is common,
    its own data and the arguments, has done it; False where Python has to."""

    @typed
    def kernel(self: Array, given: Arguments, count: int) -> Object:
        entry = Entry(self.data)
        c = entry.common
        found = c.true if count == arguments and work(c, entry, given) else c.false
        c.retain(found)
        return found

    return kernel


@typed
def failed(c: Common) -> bool:
    """Whether there is an error of Python's, which is forgotten."""
    if not c.error():
        return False
    c.forget()
    return True


@typed
def whole_of(c: Common, x: Object, to: Words) -> bool:
    """A whole number of 32 bits; whether it is one."""
    if x.type is not c.whole:
        return False
    to[0] = c.to_whole(x)
    if to[0] == -1 and failed(c):
        return False
    return _LEAST <= to[0] <= _MOST


@typed
def real_of(c: Common, x: Object, to: Doubles) -> bool:
    """A finite number; whether it is one."""
    if x.type is not c.whole and x.type is not c.real:
        return False
    to[0] = c.to_real(x)
    if to[0] == -1.0 and failed(c):
        return False
    return -_FARTHEST <= to[0] <= _FARTHEST


@typed
def point_of(c: Common, x: Object, to: Words) -> bool:
    """A tuple of two whole numbers; whether it is one."""
    if x.type is not c.tuple_ or c.tuple_size(x) != 2:
        return False
    return whole_of(c, c.tuple_item(x, 0), to) and whole_of(c, c.tuple_item(x, 1), to.after(1))


@typed
def pairs(c: Common, x: Object) -> int:
    """How many points are in a dense array (n, 2) or (n, 1, 2), of whatever numbers; 0 where it is another object."""
    if x.type is not c.array:
        return 0
    a = Array(x)
    usual = DENSE | ALIGNED
    if a.flags & usual != usual:
        return 0
    if a.rank == 2 and a.extents[1] == 2:
        return a.extents[0]
    if a.rank == 3 and a.extents[1] == 1 and a.extents[2] == 2:
        return a.extents[0]
    return 0


__all__ = ["calling", "pairs", "point_of", "real_of", "whole_of"]
