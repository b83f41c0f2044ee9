"""Products with integer weights whose floats are quantised to the range that they turn out to have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.frontends.common.expressions import binary
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.quantized.convolution import quantized_attributes


def dynamic_bytes(
    ctx: GraphBuilder, x: Value, per_sample: bool = False, least: float = 0.0
) -> tuple[Value, Value, Value]:
    """Floats as u8, their scale and their zero point: those of the whole, or one for each index of the first axis.
    ``least``: what scales are not smaller than."""
    found = ctx.emit("DynamicQuantizeLinear", [x], 3, per_sample=per_sample or None, least=least or None)
    for value, dtype in zip(found, (DType.U8, DType.F32, DType.U8), strict=True):
        value.dtype = dtype
    shape = x.shape if per_sample else ()
    found[0].shape = x.shape
    found[1].shape = found[2].shape = None if shape is None else (*shape[:1], *(1 for _ in shape[1:]))
    return found[0], found[1], found[2]


def dynamic_convolution(
    ctx: GraphBuilder, x: Value, weight: Value, scale: np.ndarray, bias: Value | None, attrs: Mapping[str, object]
) -> Value:
    """``x[N, C, H, W]`` in bytes, each sample by itself, with i8 weights ``[O, C/group, kh, kw]`` that stand for
    themselves times ``scale`` (one, or one for each output); a float, plus the bias. ``attrs``: those of the same
    convolution of floats."""
    small, steps, zero = dynamic_bytes(ctx, x, per_sample=True)
    total = ctx.op("ConvInteger", small, weight, zero, **quantized_attributes(attrs))
    wide = ctx.op("Cast", total, dstT="DT_FLOAT")
    column = ctx.const(np.asarray(scale, np.float32).reshape(1, -1, 1, 1))
    out = binary(ctx, "MUL", wide, binary(ctx, "MUL", steps, column))
    if bias is None:
        return out
    return binary(ctx, "ADD", out, ctx.op("Reshape", bias, ctx.const([1, -1, 1, 1])))
