"""Pooling."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import binary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.convolution import Sliding, rank_of
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

MAX_ADAPTIVE = 1 << 16
"""How many windows an axis may be pooled to."""


@keras_layer("MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "AveragePooling1D", "AveragePooling2D", "AveragePooling3D")
def pool(ctx: KerasContext, node: KerasNode) -> Value:
    where, x = Sliding(node), node.input(0)
    sizes = node.ints_attr("pool_size", where.rank, 2)
    strides = node.ints_attr("strides", where.rank, sizes)
    same = node.choice_attr("padding", "valid", "valid", "same") == "same"
    op = ("MaxPool" if node.op.startswith("Max") else "AvgPool") + ("3D" if where.count == 3 else "")
    y = ctx.tf(
        op, where.given(ctx, x), ksize=where.numbers(sizes), strides=where.numbers(strides),
        padding="SAME" if same else "VALID", data_format=where.format,
    )  # fmt: skip
    y.dtype = x.dtype
    return where.result(ctx, y)


@keras_layer(
    "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "GlobalAveragePooling1D",
    "GlobalAveragePooling2D", "GlobalAveragePooling3D",
)  # fmt: skip
def global_pool(ctx: KerasContext, node: KerasNode) -> Value:
    """Over all spatial axes; averages of sequences are over the steps that count."""
    x, first, keep = node.input(0), node.channels_first(), node.bool_attr("keepdims")
    rank = rank_of(node.op)
    axes = [a + 1 + first for a in range(rank)]
    largest = "Max" in node.op
    mask = node.tensor_kwarg("mask") or next((m for m in node.masks if m is not None), None)
    if mask is not None and rank == 1 and not largest:
        counted = ctx.op("Unsqueeze", ctx.cast(mask, x.dtype or DType.F32), squeezeDims=[1 if first else 2])
        total = ctx.tf("Sum", binary(ctx, "MUL", x, counted), ctx.const(axes), keep_dims=keep)
        return binary(ctx, "REALDIV", total, ctx.tf("Sum", counted, ctx.const(axes), keep_dims=keep))
    return ctx.tf("Max" if largest else "Mean", x, ctx.const(axes), keep_dims=keep)


@keras_layer(
    "AdaptiveMaxPooling1D", "AdaptiveMaxPooling2D", "AdaptiveMaxPooling3D", "AdaptiveAveragePooling1D",
    "AdaptiveAveragePooling2D", "AdaptiveAveragePooling3D",
)  # fmt: skip
def adaptive_pool(ctx: KerasContext, node: KerasNode) -> Value:
    """Windows from ``floor(i n / m)`` to ``ceil((i + 1) n / m)`` for each of ``m`` results of an axis of ``n``."""
    x, rank, first = node.input(0), rank_of(node.op), node.get("data_format", "channels_last") == "channels_first"
    for i, wanted in enumerate(node.ints_attr("output_size", rank)):
        axis = 1 + first + i
        size = (x.shape or ())[axis]
        if not isinstance(size, int) or not 0 < wanted <= MAX_ADAPTIVE or size < 1:
            raise node.unsupported(f"{wanted} windows over {size}", "save the model with the sizes of its inputs")
        bounds = [(k * size // wanted, -(-(k + 1) * size // wanted)) for k in range(wanted)]
        widest = max(end - begin for begin, end in bounds)
        # a window that is narrower takes its last entry again, which an average then gives no weight
        places = np.asarray([[min(b + j, e - 1) for j in range(widest)] for b, e in bounds], np.int32)
        taken = ctx.op("GatherV2", x, ctx.const(places), ctx.const(axis, DType.I32))
        taken.dtype = x.dtype
        if "Max" not in node.op:
            weights = np.asarray([[(j < e - b) / (e - b) for j in range(widest)] for b, e in bounds], np.float32)
            behind = len(x.shape or ()) - axis - 1
            weight = ctx.const(weights.reshape(wanted, widest, *(1,) * behind), x.dtype)
            taken = binary(ctx, "MUL", taken, weight)
        kind = "MAXIMUM" if "Max" in node.op else "SUM"
        reduced = ctx.op("Reduction", taken, operation=kind, dim=[axis + 1], keepDims=False)
        reduced.dtype = x.dtype
        x = reduced
    return x
