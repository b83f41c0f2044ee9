"""Numbers of a scalar program, written as formulas: what a conversion of colours makes of one pixel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder


class Number:
    """A value of the program that ``builder`` builds; Python's numbers beside it take its type."""

    __slots__ = ("builder", "place")

    def __init__(self, builder: BodyBuilder, place: int) -> None:
        self.builder, self.place = builder, place

    def of(self, value: Number | float) -> Number:
        """``value`` as a number of the same program and type."""
        if isinstance(value, Number):
            return value
        return Number(self.builder, self.builder.const(value, self.builder.dtype(self.place)))

    def apply(self, op: str, *others: Number | float) -> Number:
        """An operation of :mod:`MNN.ir.scalar` with this number as its first operand."""
        return Number(self.builder, self.builder(op, self.place, *(self.of(other).place for other in others)))

    def __add__(self, other: Number | float) -> Number:
        return self.apply("add", other)

    __radd__ = __add__

    def __sub__(self, other: Number | float) -> Number:
        return self.apply("sub", other)

    def __rsub__(self, other: float) -> Number:
        return self.of(other) - self

    def __mul__(self, other: Number | float) -> Number:
        return self.apply("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Number | float) -> Number:
        return self.apply("div", other)

    def __rtruediv__(self, other: float) -> Number:
        return self.of(other) / self

    def __lshift__(self, bits: int) -> Number:
        return self.apply("shl", bits)

    def __rshift__(self, bits: int) -> Number:
        return self.apply("shr", bits)

    def __and__(self, other: Number | int) -> Number:
        return self.apply("and", other)

    def __or__(self, other: Number | int) -> Number:
        return self.apply("or", other)

    def cast(self, kind: DType) -> Number:
        """The same in another type, whole numbers cut off."""
        return Number(self.builder, self.builder.cast(self.place, kind))

    def fma(self, factor: Number | float, addend: Number | float) -> Number:
        """``self * factor + addend``."""
        return self.apply("fma", factor, addend)

    def root(self, degree: float) -> Number:
        """The ``degree``-th root of a positive number, to a few units in the last place."""
        return self.power(1 / degree)

    def power(self, exponent: float) -> Number:
        """A power of a positive number, to a few units in the last place."""
        return (self.apply("log") * (exponent / math.log(2))).apply("exp2")


def where(condition: Number, yes: Number | float, no: Number | float) -> Number:
    """``yes`` where ``condition`` (a comparison) is true, else ``no``, of which one at least is a :class:`Number`."""
    known = yes if isinstance(yes, Number) else no
    if not isinstance(known, Number):
        raise TypeError(f"{yes} or {no} must be a Number, which says of what type both are")
    b = known.builder
    return Number(b, b("select", condition.place, known.of(yes).place, known.of(no).place))


Program = Callable[[Sequence[Number], bool], Sequence[Number]]
"""From the channels of a pixel, and whether they were bytes, to those of the result; bytes are rounded afterwards."""


def body(program: Program, kind: DType, count: int, whole: bool, results: Sequence[int]) -> Body:
    """A program of ``count`` channels that are computed with as ``kind`` (f32 or i32); ``results`` says which of its
    numbers are the channels of the result, in order."""
    builder = BodyBuilder()
    found = program([Number(builder, builder.arg(kind)) for _ in range(count)], whole)
    return builder.build(*(found[i].place for i in results))


__all__ = ["Number", "Program", "body", "where"]
