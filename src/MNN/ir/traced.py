"""Numbers that remember which sizes they were computed from, so that plain Python can be traced."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

from MNN.ir import symbolic
from MNN.ir.symbolic import Size

_Traced = TypeVar("_Traced", bound="TracedSize")
Comparison = tuple[str, Size, Size]
"""A sign, ``<`` or ``==``, and what stands left and right of it."""


class TracedSize(int):
    """A number, one of those that ``size`` may stand for, and the size. Sums, products, differences and quotients
    rounded down follow the size; comparisons look at the number, and any other arithmetic gives a plain one."""

    size: Size

    def __new__(cls, number: int, size: Size) -> TracedSize:
        made = super().__new__(cls, number)
        made.size = size
        return made

    def _of(self: _Traced, number: int, size: Size) -> _Traced:
        """Another number of the same trace."""
        made = type(self)(number, size)
        assert isinstance(made, type(self))
        return made

    def __add__(self: _Traced, other: int) -> _Traced:
        if not isinstance(other, int):
            return NotImplemented
        return self._of(int.__add__(self, other), symbolic.add(self.size, size_of(other)))

    def __sub__(self: _Traced, other: int) -> _Traced:
        if not isinstance(other, int):
            return NotImplemented
        return self._of(int.__sub__(self, other), symbolic.subtract(self.size, size_of(other)))

    def __rsub__(self: _Traced, other: int) -> _Traced:
        return self._of(int(other) - int(self), symbolic.subtract(size_of(other), self.size))

    def __mul__(self: _Traced, other: int) -> _Traced:
        if not isinstance(other, int):
            return NotImplemented
        return self._of(int.__mul__(self, other), symbolic.multiply(self.size, size_of(other)))

    def __neg__(self: _Traced) -> _Traced:
        return self._of(-int(self), symbolic.multiply(self.size, -1))

    def __floordiv__(self: _Traced, other: int) -> _Traced:
        if not isinstance(other, int):
            return NotImplemented
        return self._of(int(self) // int(other), _quotient(self.size, size_of(other)))

    def __rfloordiv__(self: _Traced, other: int) -> _Traced:
        return self._of(int(other) // int(self), _quotient(size_of(other), self.size))

    def __mod__(self: _Traced, other: int) -> _Traced:
        if not isinstance(other, int):
            return NotImplemented
        return self._of(int(self) % int(other), symbolic.modulo(self.size, size_of(other)))

    __radd__ = __add__
    __rmul__ = __mul__

    def clipped(self: _Traced) -> _Traced:
        """Itself, 0 where it is negative."""
        return self._of(max(int(self), 0), symbolic.maximum(self.size, 0))


class Trace:
    """What open sizes are in one trace, by name: ``numbers``, and in ``rooms`` more than they ever may be."""

    def __init__(
        self, numbers: Mapping[str, int], rooms: Mapping[str, int], decided: dict[Hashable, Any] | None = None
    ) -> None:
        """``decided``: what one trace of a plan leaves for the others."""
        self.numbers, self.rooms = dict(numbers), dict(rooms)
        self.decided: dict[Hashable, Any] = {} if decided is None else decided
        self.made: dict[Size, OpenSize] = {}
        """Its sizes so far: one object each, so that most comparisons and all look-ups are about identities."""
        self.compared: dict[Comparison, bool] = {}
        """What was found of sizes while planning; another size for which it is not so may need another plan."""

    def size(self, size: int | str) -> int:
        """The size as a number of this trace."""
        return size if isinstance(size, int) else OpenSize(symbolic.evaluate(size, self.numbers), size, self)

    def repeats(self, compared: Mapping[Comparison, bool]) -> bool:
        """Whether what another trace found comes out alike here; then it is noted here, too."""
        for (sign, x, y), found in compared.items():
            if x is None or y is None:
                return False
            left, right = symbolic.evaluate(x, self.numbers), symbolic.evaluate(y, self.numbers)
            if (left < right if sign == "<" else left == right) is not found:
                return False
        self.compared.update(compared)
        return True

    def room(self, size: str) -> int:
        """What the size is where all sizes take all of their room."""
        return symbolic.evaluate(size, self.rooms)


class OpenSize(TracedSize):
    """A size that a plan leaves open within bounds. Two of them that are the same number now are no two equal keys, and
    those of two traces never are: what was found in one may hang on comparisons that the other has not noted.
    Comparisons are noted, so that a plan knows for which sizes it would have been another."""

    trace: Trace
    room: int | None = None
    """See :func:`room_of`, which finds it."""

    def __new__(cls, number: int, size: Size, trace: Trace) -> OpenSize:
        found = trace.made.get(size)
        if found is not None and int.__eq__(found, number):
            return found
        made = int.__new__(cls, number)
        made.size, made.trace = size, trace
        if size is not None:
            trace.made[size] = made
        return made

    def _of(self, number: int, size: Size) -> OpenSize:
        return OpenSize(number, size, self.trace)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        found = int.__eq__(self, other)  # of two of these, without asking the other one as well
        return self._noted("==", self, other, int(self) == other if found is NotImplemented else found)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return not self._noted("==", self, 0, int(self) == 0)

    def __lt__(self, other: float) -> bool:
        found = int.__lt__(self, other)  # type: ignore[operator]
        return self._noted("<", self, other, int(self) < other if found is NotImplemented else found)

    def __ge__(self, other: float) -> bool:
        return not self < other

    def __gt__(self, other: float) -> bool:
        found = int.__gt__(self, other)  # type: ignore[operator]
        return self._noted("<", other, self, int(self) > other if found is NotImplemented else found)

    def __le__(self, other: float) -> bool:
        return not self > other

    def _noted(self, sign: str, left: object, right: object, found: bool) -> bool:
        """The outcome of a comparison, which is noted where it is one of sizes."""
        if isinstance(left, int) and isinstance(right, int):
            x = left.size if type(left) is OpenSize else size_of(left)
            y = right.size if type(right) is OpenSize else size_of(right)
            if x != y:
                self.trace.compared[sign, x, y] = found
        return found


def size_of(number: int) -> Size:
    """The size that a number was computed from; a plain one stands for itself."""
    return number.size if isinstance(number, TracedSize) else int(number)


def same(x: int, y: int) -> bool:
    """Whether two numbers are equal for all open sizes, and not only for those that they stand for now."""
    if isinstance(x, OpenSize) or isinstance(y, OpenSize):
        return size_of(x) == size_of(y) is not None
    return x == y


def clipped(number: int) -> int:
    """A number, 0 where it is negative: for all sizes that it may stand for, and without a comparison."""
    return number.clipped() if isinstance(number, TracedSize) else max(number, 0)


def maybe_nonzero(number: int) -> bool:
    """Whether a number is not 0, or is not so for all open sizes that it follows from."""
    return type(number) is OpenSize or number != 0


def room_of(number: int) -> int:
    """The most that an open size may be, plus a little: what memory is laid out for, and what decides between ways to
    compute something. Any other number is itself."""
    if type(number) is not OpenSize or number.size is None:
        return number
    room = number.room
    if room is None:
        room = number.room = number.size if isinstance(number.size, int) else number.trace.room(number.size)
    return room


def _quotient(x: Size, y: Size) -> Size:
    """``x // y``; of what is negative, as ``-(-x // y)`` has it, written by the quotient rounded up."""
    low = symbolic.lower_bound(symbolic.multiply(x, -1))
    if isinstance(x, str) and low is not None and low >= 0:
        return symbolic.multiply(symbolic.ceil_divide(symbolic.multiply(x, -1), y), -1)
    return symbolic.floor_divide(x, y)


__all__ = ["OpenSize", "Trace", "TracedSize", "clipped", "maybe_nonzero", "room_of", "same", "size_of"]
