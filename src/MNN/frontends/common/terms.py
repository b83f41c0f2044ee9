"""Formulas over tensors, written as Python has them."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.frontends.common.expressions import binary, cast, compare, select, unary
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@dataclass(frozen=True, eq=False)
class Term:
    """A tensor whose operators append nodes: shapes are broadcast, a number takes the tensor's element type."""

    ctx: GraphBuilder
    value: Value

    def _with(self, kind: str, x: Term | float, y: Term | float) -> Term:
        first, second = (v.value if isinstance(v, Term) else v for v in (x, y))
        return Term(self.ctx, binary(self.ctx, kind, first, second))

    def _unary(self, kind: str) -> Term:
        return Term(self.ctx, unary(self.ctx, kind, self.value))

    def _compared(self, kind: str, other: Term | float) -> Term:
        return Term(self.ctx, compare(self.ctx, kind, self.value, other.value if isinstance(other, Term) else other))

    def __add__(self, other: Term | float) -> Term:
        return self._with("ADD", self, other)

    def __sub__(self, other: Term | float) -> Term:
        return self._with("SUB", self, other)

    def __rsub__(self, other: float) -> Term:
        return self._with("SUB", other, self)

    def __mul__(self, other: Term | float) -> Term:
        return self._with("MUL", self, other)

    def __truediv__(self, other: Term | float) -> Term:
        return self._with("REALDIV", self, other)

    def __rtruediv__(self, other: float) -> Term:
        return self._with("REALDIV", other, self)

    __radd__ = __add__
    __rmul__ = __mul__

    def __abs__(self) -> Term:
        return self._unary("ABS")

    def __lt__(self, other: Term | float) -> Term:
        return self._compared("LESS", other)

    def __le__(self, other: Term | float) -> Term:
        return self._compared("LESS_EQUAL", other)

    def __gt__(self, other: Term | float) -> Term:
        return self._compared("GREATER", other)

    def __ge__(self, other: Term | float) -> Term:
        return self._compared("GREATER_EQUAL", other)

    def equals(self, other: Term | float) -> Term:
        return self._compared("EQUAL", other)

    def __and__(self, other: Term) -> Term:
        """Of two truths."""
        return Term(self.ctx, compare(self.ctx, "MUL", self.value, other.value))

    def where(self, x: Term | float, y: Term | float) -> Term:
        """``x`` where this truth holds, else ``y``."""
        first, second = (v.value if isinstance(v, Term) else v for v in (x, y))
        return Term(self.ctx, select(self.ctx, self.value, first, second))

    def floor(self) -> Term:
        return self._unary("FLOOR")

    def ceil(self) -> Term:
        return self._unary("CEIL")

    def rounded(self) -> Term:
        """To the nearest whole number, halves to the even one."""
        return self._unary("ROUND")

    def exp(self) -> Term:
        return self._unary("EXP")

    def sin(self) -> Term:
        return self._unary("SIN")

    def at_least(self, other: Term | float) -> Term:
        return self._with("MAXIMUM", self, other)

    def at_most(self, other: Term | float) -> Term:
        return self._with("MINIMUM", self, other)

    def sum(self, axis: int) -> Term:
        """The axis stays, of size 1."""
        out = self.ctx.op("Reduction", self.value, operation="SUM", dim=[axis], keepDims=True)
        out.dtype = self.value.dtype
        return Term(self.ctx, out)


def size_of(ctx: GraphBuilder, x: Value, axis: int) -> Value:
    """The size of an axis as a scalar i32; a constant where it is known."""
    size = x.shape[axis] if x.shape is not None else None
    if isinstance(size, int):
        return ctx.const(size, DType.I32)
    out = ctx.op("Shape", x, hasStart=True, start=axis, hasEnd=True, end=axis + 1)
    return scalar(ctx, cast(ctx, out, DType.I32))


def scalar(ctx: GraphBuilder, x: Value) -> Value:
    """A tensor of one element without its axes."""
    out = ctx.op("Reshape", x, ctx.const([]))
    out.dtype, out.shape = x.dtype, ()
    return out


def line(ctx: GraphBuilder, count: Value) -> Value:
    """``0, 1, ... count - 1`` in ``count``'s element type; ``count`` is a scalar."""
    out = ctx.op("Range", ctx.const_like(0, count), count, ctx.const_like(1, count))
    out.dtype = count.dtype
    return out
