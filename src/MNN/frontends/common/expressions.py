"""Short spellings for compositions of unary and binary operators."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.graph import Value


def unary(ctx: GraphBuilder, kind: str, x: Value) -> Value:
    """``kind`` is a name of UnaryOpOperation."""
    out = ctx.op("UnaryOp", x, opType=kind)
    out.dtype, out.shape = x.dtype, x.shape
    return out


def binary(ctx: GraphBuilder, kind: str, x: Value, y: Value | float | int) -> Value:
    """``kind`` is an arithmetic name of BinaryOpOperation; a number takes the element type of ``x``."""
    out = ctx.op("BinaryOp", x, y if isinstance(y, Value) else ctx.const_like(y, x), opType=kind)
    out.dtype = x.dtype
    return out


def select(ctx: GraphBuilder, condition: Value, x: Value, y: Value) -> Value:
    """``x`` where the condition holds, else ``y``; shapes are broadcast."""
    return ctx.op("Select", condition, x, y)


def clamp(ctx: GraphBuilder, x: Value, low: float, high: float) -> Value:
    out = ctx.op("ReLU6", x, minValue=low, maxValue=high)
    out.dtype, out.shape = x.dtype, x.shape
    return out


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
