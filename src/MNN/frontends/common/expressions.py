"""Short spellings for compositions of unary and binary operators."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


def unary(ctx: GraphBuilder, kind: str, x: Value) -> Value:
    """``kind`` is a name of UnaryOpOperation."""
    out = ctx.op("UnaryOp", x, opType=kind)
    out.dtype, out.shape = x.dtype, x.shape
    return out


def binary(ctx: GraphBuilder, kind: str, x: Value | float | int, y: Value | float | int) -> Value:
    """``kind`` is an arithmetic name of BinaryOpOperation; a number takes the element type of the tensor beside it."""
    x, y = _tensors(ctx, x, y)
    out = ctx.op("BinaryOp", x, y, opType=kind)
    out.dtype = x.dtype
    return out


def cast(ctx: GraphBuilder, x: Value, dtype: DType) -> Value:
    """``x`` in another element type; ``x`` itself where it is of that type."""
    if x.dtype is dtype:
        return x
    out = ctx.op("Cast", x, dstT=data_type(dtype))
    out.dtype = dtype
    return out


def compare(ctx: GraphBuilder, kind: str, x: Value, y: Value | float | int) -> Value:
    """``kind`` is a name of BinaryOpOperation whose results are booleans."""
    return ctx.op("BinaryOp", *_tensors(ctx, x, y), opType=kind)


def select(ctx: GraphBuilder, condition: Value, x: Value | float | int, y: Value | float | int) -> Value:
    """``x`` where the condition holds, else ``y``; shapes are broadcast, a number takes the other's element type."""
    return ctx.op("Select", condition, *_tensors(ctx, x, y))


def _tensors(ctx: GraphBuilder, x: Value | float | int, y: Value | float | int) -> tuple[Value, Value]:
    like = x if isinstance(x, Value) else y
    if not isinstance(like, Value):
        raise TypeError(f"one operand at least must be a tensor, found {x!r} and {y!r}")
    first, second = (v if isinstance(v, Value) else ctx.const_like(v, like) for v in (x, y))
    return first, second


def clamp(ctx: GraphBuilder, x: Value, low: float, high: float, slope_at_bounds: float = 0.0) -> Value:
    """``x`` limited to an interval, the ends of which may be infinite; its derivative at these is 0 or 1."""
    more = {"slopeAtBounds": slope_at_bounds} if slope_at_bounds else {}
    out = ctx.op("ReLU6", x, minValue=low, maxValue=high, **more)
    out.dtype, out.shape = x.dtype, x.shape
    return out


def log1p_exp(ctx: GraphBuilder, x: Value) -> Value:
    """``max(x, 0) + log1p(exp(-|x|))``, which neither overflows nor loses small results; of 0 as of numbers above, so
    that all derivatives there are right."""
    zero = ctx.const_like(0, x)
    above = ctx.op("BinaryOp", x, zero, opType="GREATER_EQUAL")
    tail = unary(ctx, "LOG1P", unary(ctx, "EXP", select(ctx, above, unary(ctx, "NEG", x), x)))
    return binary(ctx, "ADD", select(ctx, above, x, zero), tail)


def insert_axis(ctx: GraphBuilder, x: Value, axis: int) -> Value:
    """An axis of size 1 put in at ``axis``."""
    if x.is_const and isinstance(x.data, np.ndarray):
        return ctx.const(np.expand_dims(x.data, axis))
    out = ctx.op("Unsqueeze", x, squeezeDims=[axis])
    out.dtype = x.dtype
    return out


def drop_axis(ctx: GraphBuilder, x: Value, axis: int) -> Value:
    out = ctx.op("Squeeze", x, squeezeDims=[axis])
    out.dtype = x.dtype
    return out
