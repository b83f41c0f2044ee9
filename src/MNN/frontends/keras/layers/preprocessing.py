"""Layers that prepare data."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import binary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.reshaping import cut, resized
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@keras_layer("Resizing")
def resizing(ctx: KerasContext, node: KerasNode) -> Value:
    how = node.choice_attr("interpolation", "bilinear", "nearest", "bilinear", "bicubic")
    for key in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"):
        if node.bool_attr(key):
            raise node.unsupported(key, "resize without it")
    x, first = node.input(0), node.get("data_format", "channels_last") == "channels_first"
    single = ctx.rank(x) == 3
    x = ctx.op("Unsqueeze", x, squeezeDims=[0]) if single else x
    size = ctx.const([node.int_attr("height"), node.int_attr("width")], DType.I32)
    y = resized(ctx, x, size, how, first)
    return ctx.op("Squeeze", y, squeezeDims=[0]) if single else y


@keras_layer("CenterCrop")
def center_crop(ctx: KerasContext, node: KerasNode) -> Value:
    """The middle; pictures that are smaller than it would be resized."""
    x, first = node.input(0), node.get("data_format", "channels_last") == "channels_first"
    if x.dtype is not None and not x.dtype.is_float:
        x = ctx.cast(x, DType.F32)
    rank = ctx.sizes(x, node.where)
    axis = rank - 2 if first else rank - 3
    cuts = []
    for i, key in enumerate(("height", "width")):
        wanted, size = node.int_attr(key), (x.shape or ())[axis + i]
        if not isinstance(size, int) or size < wanted:
            raise node.unsupported(f"a crop of {wanted} out of {size}", "save the model with the sizes of its pictures")
        begin = (size - wanted) // 2
        cuts.append((axis + i, begin, begin + wanted))
    return cut(ctx, x, cuts)


@keras_layer("CategoryEncoding")
def category_encoding(ctx: KerasContext, node: KerasNode) -> Value:
    """One place for each category: one-hot, whether it is there (multi-hot), or how often (count)."""
    x, count = node.input(0), node.int_attr("num_tokens")
    mode = node.choice_attr("output_mode", "multi_hot", "multi_hot", "one_hot", "count")
    weights = node.tensor_kwarg("count_weights")
    numbers = ctx.cast(x, DType.I32)
    rank, shape = ctx.sizes(x, node.where), x.shape or ()
    if mode == "one_hot" and rank and shape[-1] == 1 and rank > 1:
        numbers = ctx.op("Squeeze", numbers, squeezeDims=[rank - 1])
    return _encoded(ctx, numbers, count, mode, rank, weights)


def _encoded(
    ctx: KerasContext, numbers: Value, count: int, mode: str, rank: int, weights: Value | None = None
) -> Value:
    """A place for each of ``count`` categories, in floats."""
    line = ctx.const(np.arange(count, dtype=np.int32))
    hot = ctx.op("BinaryOp", ctx.op("Unsqueeze", numbers, squeezeDims=[-1]), line, opType="EQUAL")
    hot.dtype = DType.BOOL
    out = ctx.cast(hot, DType.F32)
    if mode == "one_hot":
        return out
    if weights is not None:
        out = binary(ctx, "MUL", out, ctx.op("Unsqueeze", ctx.cast(weights, DType.F32), squeezeDims=[-1]))
    if rank == 1 and mode == "multi_hot":
        return out
    kind = "MAXIMUM" if mode == "multi_hot" else "SUM"
    found = ctx.op("Reduction", out, operation=kind, dim=[max(rank - 1, 0)], keepDims=False)
    found.dtype = DType.F32
    return found


@keras_layer("Discretization")
def discretization(ctx: KerasContext, node: KerasNode) -> Value:
    """How many of the boundaries a number has reached."""
    x = node.input(0)
    bounds = node.config.get("bin_boundaries")
    mode = node.choice_attr("output_mode", "int", "int", "one_hot", "multi_hot", "count")
    if not isinstance(bounds, list):
        raise node.unsupported("boundaries learnt from data", "save the model with bin_boundaries")
    x = x if x.dtype is not None and x.dtype.is_float else ctx.cast(x, DType.F32)
    reached = ctx.op(
        "BinaryOp", ctx.op("Unsqueeze", x, squeezeDims=[-1]), ctx.const(np.asarray(bounds, np.float32)),
        opType="GREATER_EQUAL",
    )  # fmt: skip
    reached.dtype = DType.BOOL
    rank = ctx.sizes(x, node.where)
    out = ctx.op("Reduction", ctx.cast(reached, DType.I32), operation="SUM", dim=[rank], keepDims=False)
    out.dtype = DType.I32
    if mode == "int":
        return ctx.cast(out, DType.I64)
    if mode == "one_hot" and rank > 1 and (x.shape or ())[-1] == 1:
        out = ctx.op("Squeeze", out, squeezeDims=[rank - 1])
        out.dtype = DType.I32
    return _encoded(ctx, out, len(bounds) + 1, mode, rank)
