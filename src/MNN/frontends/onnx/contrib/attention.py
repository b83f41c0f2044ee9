"""ONNX Runtime's own attention operators (domain com.microsoft)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from MNN.frontends.common.expressions import insert_axis
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.contrib.math import MICROSOFT, plus
from MNN.frontends.onnx.contrib.quant import restored
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@onnx_op("Attention", domain=MICROSOFT)
def attention(ctx: Context, node: OnnxNode) -> list[Value]:
    """Inputs x, weights of all three, bias, mask, past ``[2, B, N, P, D]``, added scores."""
    if node.optional(6) is not None:
        raise node.unsupported("a past of a length given apart", "pass a past of its own length")
    return _attention(ctx, node, node.input(0), node.input(1), 2, mask=3, past=4, bias=5)


@onnx_op("QAttention", domain=MICROSOFT)
def qattention(ctx: Context, node: OnnxNode) -> list[Value]:
    """Inputs x, weights, bias, scales of both, mask, zero points of both, past; computed in float."""
    x = restored(ctx, node.input(0), node.input(3), node.optional(6))
    weight = restored(ctx, node.input(1), node.input(4), node.optional(7), axis=1)
    return _attention(ctx, node, x, weight, 2, mask=5, past=8, bias=None)


def _attention(
    ctx: Context, node: OnnxNode, x: Value, weight: Value, shift: int, mask: int, past: int, bias: int | None
) -> list[Value]:
    if node.int_attr("do_rotary", 0) or node.int_attr("past_present_share_buffer", 0):
        raise node.unsupported("do_rotary or past_present_share_buffer", "export without them")
    node.ignore("rotary_embedding_dim")
    product = plus(ctx, _typed(x, ctx.op("MatMul", x, weight)), node.optional(shift))
    sizes = node.ints_attr("qkv_hidden_sizes", None) or None
    parts = ctx.emit("Slice", [product], 3, axis=-1, slicePoints=sizes, sourceType="TORCH")
    before = node.optional(past)
    pasts: list[Value | None] = [None, None]
    if before is not None:
        pasts = [ctx.op("GatherV2", before, ctx.const(i, DType.I32), ctx.const(0, DType.I32)) for i in (0, 1)]
    added = node.optional(bias) if bias is not None else None
    out, key, value = ctx.emit(
        "ContribAttention", [*parts, node.optional(mask), added, *pasts], 3, heads=node.int_attr("num_heads"),
        scale=node.float_attr("scale", 0.0), causal=node.bool_attr("unidirectional", False),
        filter=node.float_attr("mask_filter_value", -10000.0),
    )  # fmt: skip
    out.dtype = x.dtype
    if not node.wants(1):
        return [out]
    key.dtype = value.dtype = x.dtype
    return [out, ctx.op("Concat", *(insert_axis(ctx, t, 0) for t in (key, value)), axis=0)]


@onnx_op("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(ctx: Context, node: OnnxNode) -> list[Value]:
    """Inputs query, key, value, bias, mask, added scores, past key, past value; also keys and values, or all three,
    side by side in five dimensions."""
    heads = node.int_attr("num_heads")
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    if node.optional(8) is not None or node.optional(9) is not None or node.wants(3):
        raise node.unsupported("a past of a length given apart, or the scores as an output")
    rank = ctx.rank(query if key is None else key)
    if key is None or value is None:
        if rank != 5:
            raise node.unsupported("a missing key or value, or one of unknown rank", "pass them apart")
        parts = [_part(ctx, query if key is None else key, i) for i in range(3 if key is None else 2)]
        query, key, value = parts if len(parts) == 3 else [query, *parts]
    operands = [query, key, value]
    bias = node.optional(3)
    if bias is not None:
        numbers, width = ctx.constant(bias), ctx.static_shape(query)
        if numbers is None or width is None or not isinstance(width[-1], int):
            raise node.unsupported("a bias that is not constant, or a query of unknown width")
        cuts = [0, width[-1], 2 * width[-1], numbers.size]
        slices = [numbers.reshape(-1)[low:high] for low, high in pairwise(cuts)]
        operands = [
            plus(ctx, x, ctx.const(np.ascontiguousarray(s))) if s.any() else x
            for x, s in zip(operands, slices, strict=True)
        ]
    made = ctx.emit(
        "ContribAttention", [*operands, *(node.optional(i) for i in range(4, 8))], 3, heads=heads,
        scale=node.float_attr("scale", 0.0), causal=node.bool_attr("unidirectional", False),
        filter=node.float_attr("mask_filter_value", -10000.0),
    )  # fmt: skip
    for out in made:
        out.dtype = node.input(0).dtype
    return made


def _part(ctx: Context, packed: Value, index: int) -> Value:
    """``[B, S, N, parts, D]`` to one part ``[B, S, N * D]``."""
    part = ctx.op("GatherV2", packed, ctx.const(index, DType.I32), ctx.const(3, DType.I32))
    return _typed(packed, ctx.op("Reshape", part, ctx.const([0, 0, -1], DType.I64)))


@onnx_op("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(ctx: Context, node: OnnxNode) -> list[Value]:
    node.ignore("k_quant_type", "v_quant_type", "kv_cache_bit_width")
    if node.int_attr("qk_output", 0):
        raise node.unsupported("qk_output")
    made = ctx.emit(
        "GroupQueryAttention", [node.optional(i) for i in range(12)], 3, heads=node.int_attr("num_heads"),
        groups=node.int_attr("kv_num_heads"), scale=node.float_attr("scale", 0.0),
        softcap=node.float_attr("softcap", 0.0), rotary=node.bool_attr("do_rotary", False),
        interleaved=node.bool_attr("rotary_interleaved", False), window=node.int_attr("local_window_size", -1),
        smooth=node.int_attr("smooth_softmax", 0) == 1,
    )  # fmt: skip
    for out in made:
        out.dtype = node.input(0).dtype
    return made


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(ctx: Context, node: OnnxNode) -> Value:
    if node.int_attr("is_packed_batching", 0) or node.float_attr("scale", 1.0) != 1.0:
        raise node.unsupported("packed batching or a scale")
    return _typed(node.input(0), ctx.op(
        "ContribRotaryEmbedding", *(node.input(i) for i in range(4)), heads=node.int_attr("num_heads", 0),
        interleaved=node.bool_attr("interleaved", False), size=node.int_attr("rotary_embedding_dim", 0),
    ))  # fmt: skip


def _typed(like: Value, out: Value) -> Value:
    out.dtype = like.dtype
    return out
