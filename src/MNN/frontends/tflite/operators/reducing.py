"""Reductions, running sums, positions of extremes, normalisations."""

from __future__ import annotations

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.fixed_point import plus, reciprocal_root, times
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_KINDS = {
    "SUM": "SUM", "MEAN": "MEAN", "REDUCE_PROD": "PROD", "REDUCE_MAX": "MAXIMUM", "REDUCE_MIN": "MINIMUM",
    "REDUCE_ANY": "ANY", "REDUCE_ALL": "ALL",
}  # fmt: skip


@tflite_op(*_KINDS)
def reduction(ctx: Context, node: TfliteNode) -> Value:
    x, axes = ctx.real(node, 0), ctx.constant_ints(node.input(1))
    kind, keep = _KINDS[node.op], node.flag("keep_dims")
    if axes is None:
        return ctx.op("ReductionOrNone", x, node.input(1), operation=kind, keepDims=keep)
    if not axes:
        return ctx.op("Identity", x)
    return ctx.op("Reduction", x, operation=kind, dim=axes, keepDims=keep)


@tflite_op("CUMSUM")
def cumulative_sum(ctx: Context, node: TfliteNode) -> Value:
    axis = node.input(1)
    return ctx.op("CumSum", ctx.real(node, 0), axis, exclusive=node.flag("exclusive"), reverse=node.flag("reverse"))


@tflite_op("ARG_MAX", "ARG_MIN")
def arg_extreme(ctx: Context, node: TfliteNode) -> Value:
    (axis,) = ctx.known_ints(node, 1, "axes")
    kind = node.tensors_out[0].dtype or DType.I32
    op = "ArgMax" if node.op == "ARG_MAX" else "ArgMin"
    return ctx.op(op, node.input(0), axis=axis, outputDataType=data_type(kind))


@tflite_op("L2_NORMALIZATION")
def l2_normalization(ctx: Context, node: TfliteNode) -> Value:
    """``x / max(sqrt(sum of squares), 1e-6)`` along the last axis. Of ``uint8`` in integers, in steps of 1/128
    (``reference/l2normalization.h`` of LiteRT's kernels)."""
    q, kind = node.quantization(0), node.tensors_out[0].dtype
    if q is not None and q.zero.size == 1 and node.input(0).dtype is kind is DType.U8 and node.rank(0):
        apart = plus(ctx, ctx.cast(node.input(0), DType.I32), -int(q.zero.reshape(-1)[0]))
        total = ctx.op("Reduction", ctx.binary("MUL", apart, apart), operation="SUM", dim=[-1], keepDims=True)
        whole = ctx.op("FixedPointProduct", times(ctx, apart, 128), *reciprocal_root(ctx, total))
        return ctx.cast(ctx.op("ReLU6", plus(ctx, whole, 128), minValue=0.0, maxValue=255.0), DType.U8)
    x = ctx.real(node, 0)
    total = ctx.op("Reduction", ctx.unary("SQUARE", x), operation="SUM", dim=[-1], keepDims=True)
    norm = ctx.binary("MAXIMUM", ctx.unary("SQRT", total), ctx.const(1e-6))
    return ctx.activated(node, ctx.binary("REALDIV", x, norm))


@tflite_op("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(ctx: Context, node: TfliteNode) -> Value:
    """``x / (bias + alpha * sum of squares within radius channels) ^ beta``."""
    size = 2 * node.number("radius") + 1
    made = ctx.op(
        "LRN", ctx.image(node, 0), localSize=size, alpha=float(node.option("alpha", 0.0)) * size,
        beta=float(node.option("beta", 0.0)), bias=float(node.option("bias", 0.0)), regionType=0,
    )  # fmt: skip
    return ctx.channels_last(made)


def segments(ctx: Context, node: TfliteNode, ids: Value, combine: str, first: float, count: Value) -> Value:
    """Entries of the first axes combined by the segment that each belongs to; ``first`` is what an empty one has."""
    data = node.input(0)
    depth, rank = node.rank(1), node.rank(0)
    rest = ctx.op("Shape", data, outputDataType="DT_INT64", hasStart=True, start=depth)
    count = ctx.op("Reshape", ctx.cast(count, DType.I64), ctx.const([1]))
    shape = ctx.op("Concat", count, rest, axis=0) if rank > depth else count
    filled = ctx.op("Fill", shape, ctx.const_like(first, data))
    at = ctx.op("Unsqueeze", ctx.cast(ids, DType.I64), squeezeDims=[depth])
    return ctx.op("ScatterNd", at, data, shape, filled, opType=combine)


@tflite_op("SEGMENT_SUM")
def segment_sum(ctx: Context, node: TfliteNode) -> Value:
    """Segments are numbered in order: as many as the last one says."""
    last = ctx.op("Reduction", node.input(1), operation="MAXIMUM", dim=[0], keepDims=True)
    return segments(ctx, node, node.input(1), "ADD", 0, ctx.binary("ADD", last, ctx.const_like(1, last)))


@tflite_op("UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN")
def unsorted_segment(ctx: Context, node: TfliteNode) -> Value:
    """Negative numbers belong to no segment; the third operand says how many there are."""
    kind = node.op.rpartition("_")[2]
    dtype = node.input(0).dtype or DType.F32
    info = np.finfo(dtype.numpy.name) if dtype.is_float else np.iinfo(dtype.numpy.name)
    combine, first = {
        "SUM": ("ADD", 0), "PROD": ("MUL", 1), "MAX": ("MAXIMUM", info.min), "MIN": ("MINIMUM", info.max),
    }[kind]  # fmt: skip
    ids, count, empty = node.input(1), node.input(2), float(first) if dtype.is_float else int(first)
    numbers = ctx.constant(ids)
    if numbers is not None and not (numbers < 0).any():
        return segments(ctx, node, ids, combine, empty, count)
    # to a segment behind the others, which is cut off
    last = ctx.op("Reshape", ctx.cast(count, ids.dtype or DType.I32), ctx.const([], DType.I64))
    ids = ctx.op("Select", ctx.binary("LESS", ids, ctx.const_like(0, ids)), last, ids)
    whole = segments(ctx, node, ids, combine, empty, ctx.binary("ADD", count, ctx.const_like(1, count)))
    return ctx.op("StridedSlice", whole, *(ctx.const([n]) for n in (0, -1, 0, 1)), fromType=1)


@tflite_op("LOG_SOFTMAX")
def log_softmax(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("LogSoftmax", ctx.real(node, 0), axis=-1)
