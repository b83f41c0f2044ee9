"""ONNX Runtime's own normalisations and embeddings (domain com.microsoft)."""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.contrib.math import MICROSOFT, plus
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def _normal(ctx: Context, x: Value, gamma: Value, beta: Value | None, epsilon: float, rms: bool = False) -> Value:
    """Normalised over the last axis."""
    out = ctx.op("LayerNorm", x, gamma, beta, axis=[-1], epsilon=epsilon, useRMSNorm=rms or None)
    out.dtype = x.dtype
    return out


@onnx_op("SimplifiedLayerNormalization")
@onnx_op("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified(ctx: Context, node: OnnxNode) -> Value:
    """Root mean square normalisation; ONNX Runtime's exporters leave it in ONNX's own domain."""
    node.ignore("stash_type")
    if node.wants(1):
        raise node.unsupported("the inverse of the deviation as an output", "leave it out")
    axis, rank = node.int_attr("axis", -1), ctx.rank(node.input(0))
    if axis not in (-1, None if rank is None else rank - 1):
        raise node.unsupported(f"axis {axis}", "normalise over the last axis")
    return _normal(ctx, node.input(0), node.input(1), None, node.float_attr("epsilon", 1e-5), rms=True)


@onnx_op("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(ctx: Context, node: OnnxNode) -> list[Value]:
    """The norm of ``input + skip + bias``, and that sum (outputs 0 and 3)."""
    if node.wants(1) or node.wants(2):
        raise node.unsupported("statistics as outputs", "leave them out")
    rms = node.op.startswith("SkipSimplified")
    beta, bias = (None, node.optional(3)) if rms else (node.optional(3), node.optional(4))
    total = plus(ctx, node.input(0), node.input(1), bias)
    out = _normal(ctx, total, node.input(2), beta, node.float_attr("epsilon", 1e-12 if not rms else 1e-5), rms)
    return [out, total, total, total]


@onnx_op("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(ctx: Context, node: OnnxNode) -> list[Value]:
    """Word, position and segment vectors added and normalised; the length of each row (of the mask); the sum."""
    if node.int_attr("mask_index_type", 0) not in (0, 1):
        raise node.unsupported("mask_index_type other than 0 or 1")
    ids, segments, words, places = (node.optional(i) for i in range(4))
    if ids is None or words is None or places is None:
        raise node.unsupported("a missing table of words or positions")
    zero = ctx.const(0, DType.I32)
    total = _looked_up(ctx, words, ids)
    if node.optional(8) is not None:
        vectors = _looked_up(ctx, places, node.input(8))
    else:
        size = ctx.op("GatherV2", ctx.op("Shape", ids), ctx.const(1, DType.I32), zero)
        start, step = ctx.const(0, DType.I32), ctx.const(1, DType.I32)
        vectors = _looked_up(ctx, places, ctx.op("Range", start, ctx.op("Cast", size, dstT="DT_INT32"), step))
    total = plus(ctx, total, vectors)
    table = node.optional(4)
    if segments is not None and table is not None:
        total = plus(ctx, total, _looked_up(ctx, table, segments))
    out = _normal(ctx, total, node.input(5), node.input(6), node.float_attr("epsilon", 1e-12))
    mask = node.optional(7)
    counted = ctx.op("ZerosLike", ids) if mask is None else mask
    lengths = ctx.op("Reduction", ctx.op("Cast", counted, dstT="DT_INT32"), operation="SUM", dim=[1], keepDims=False)
    return [out, lengths, total]


def _looked_up(ctx: Context, table: Value, ids: Value) -> Value:
    out = ctx.op("GatherV2", table, ids, ctx.const(0, DType.I32))
    out.dtype = table.dtype
    return out
