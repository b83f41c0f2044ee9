"""Numbers that remember which sizes they were computed from, so that plain Python can be traced."""

from __future__ import annotations

from MNN.ir import symbolic
from MNN.ir.symbolic import Size


class TracedSize(int):
    """A number, one of those that ``size`` may stand for, and the size. Sums, products, differences and quotients
    rounded down follow the size; comparisons look at the number, and any other arithmetic gives a plain one."""

    size: Size

    def __new__(cls, number: int, size: Size) -> TracedSize:
        made = super().__new__(cls, number)
        made.size = size
        return made

    def __add__(self, other: int) -> TracedSize:
        return TracedSize(int(self) + int(other), symbolic.add(self.size, size_of(other)))

    def __sub__(self, other: int) -> TracedSize:
        return TracedSize(int(self) - int(other), symbolic.subtract(self.size, size_of(other)))

    def __rsub__(self, other: int) -> TracedSize:
        return TracedSize(int(other) - int(self), symbolic.subtract(size_of(other), self.size))

    def __mul__(self, other: int) -> TracedSize:
        if not isinstance(other, int):
            return NotImplemented
        return TracedSize(int(self) * int(other), symbolic.multiply(self.size, size_of(other)))

    def __neg__(self) -> TracedSize:
        return TracedSize(-int(self), symbolic.multiply(self.size, -1))

    def __floordiv__(self, other: int) -> TracedSize:
        if not isinstance(other, int):
            return NotImplemented
        number = int(self) // int(other)
        return TracedSize(number, _quotient(self.size, size_of(other)))

    def __rfloordiv__(self, other: int) -> TracedSize:
        return TracedSize(int(other) // int(self), _quotient(size_of(other), self.size))

    def __mod__(self, other: int) -> TracedSize:
        return TracedSize(int(self) % int(other), symbolic.modulo(self.size, size_of(other)))

    __radd__ = __add__
    __rmul__ = __mul__


def size_of(number: int) -> Size:
    """The size that a number was computed from; a plain one stands for itself."""
    return number.size if isinstance(number, TracedSize) else int(number)


def _quotient(x: Size, y: Size) -> Size:
    """``x // y``; of what is negative, as ``-(-x // y)`` has it, written by the quotient rounded up."""
    low = symbolic.lower_bound(symbolic.multiply(x, -1))
    if isinstance(x, str) and low is not None and low >= 0:
        return symbolic.multiply(symbolic.ceil_divide(symbolic.multiply(x, -1), y), -1)
    return symbolic.floor_divide(x, y)
