"""Attention."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Ints, Number
from MNN.frontends.torch.registry import HALVES, apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@aten("scaled_dot_product_attention")
def attention(
    ctx: TorchBuilder, q: Value, k: Value, v: Value, attn_mask: Value | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """``q [..., L, E]``, ``k [..., S, E]``, ``v [..., S, Ev]``; a mask of booleans keeps where it is true. Scores are
    f32 at least, as f16 has no numbers above 65504 and bf16 few digits."""
    if dropout_p:
        raise ctx.unsupported("dropout in attention", "call model.eval() before exporting")
    kind = ctx.type_of(q)
    if kind in HALVES:
        q, k, v = (ctx.cast(t, DType.F32) for t in (q, k, v))
    if enable_gqa:
        groups = ctx.known(ctx.size(q, -3), "heads") // ctx.known(ctx.size(k, -3), "heads")
        k, v = (_repeated(ctx, t, groups) for t in (k, v))
    width = ctx.size(q, -1)
    factor: float | Number
    if scale is not None:
        factor = scale
    elif isinstance(width, Number):
        factor = Number(ctx.unary("RSQRT", ctx.cast(width.value, ctx.type_of(q))))
    else:
        factor = 1.0 / math.sqrt(width)
    rank = ctx.rank_of(k)
    turned = ctx.rows(k, [*range(rank - 2), rank - 1, rank - 2])
    scores = ctx.op("MatMul", q, turned)
    scores = ctx.op("BinaryOp", scores, ctx.scalar(factor, ctx.type_of(q)), opType="MUL")
    seen = None if attn_mask is None else _seeing(ctx, attn_mask)
    if is_causal:
        attn_mask = _causal(ctx, q, k)
    if attn_mask is not None:
        attn_mask = _added(ctx, attn_mask, ctx.type_of(q))
        scores = ctx.op("BinaryOp", scores, attn_mask, opType="ADD")
    weights = ctx.op("Softmax", scores, axis=-1)
    out = ctx.cast(ctx.op("MatMul", weights, v), kind)
    return out if seen is None else ctx.op("Select", seen, out, ctx.const_like(0, out))


def _seeing(ctx: TorchBuilder, mask: Value) -> Value | None:
    """Booleans ``[..., L, 1]``: queries that see a key; those that see none get zeros. None where all see one."""
    known = ctx.constant(mask)
    if known is not None:
        found = np.asarray(np.any(known if known.dtype == np.bool_ else known > -np.inf, axis=-1, keepdims=True))
        return None if found.all() else ctx.const(found)
    visible = mask if mask.dtype is DType.BOOL else ctx.binary("GREATER", mask, -math.inf)
    return apply(ctx, "any", [visible, -1, True], {})  # type: ignore[no-any-return]


def _repeated(ctx: TorchBuilder, x: Value, groups: int) -> Value:
    """Each head as often as there are queries for it."""
    if groups == 1:
        return x
    rank, sizes = ctx.rank_of(x), ctx.sizes(x)
    spread = ctx.expand(ctx.unsqueeze(x, rank - 2), ctx.ints([*[1] * (rank - 2), groups, 1, 1]))
    heads = ctx.known(sizes[-3], "heads") * groups
    return ctx.reshape(spread, [*sizes[:-3], heads, *sizes[-2:]])


def _causal(ctx: TorchBuilder, q: Value, k: Value) -> Value:
    """True where a query may see a key: up to its own place."""
    ones = ctx.op("Fill", ctx.ints([ctx.size(q, -2), ctx.size(k, -2)]), ctx.const(True))
    ones.dtype = DType.BOOL
    lower = ctx.op("Trilu", ones, ctx.const(0, DType.I64), upper=False)
    lower.dtype = DType.BOOL
    return lower


def _added(ctx: TorchBuilder, mask: Value, dtype: DType) -> Value:
    """Booleans as what is added to scores."""
    if mask.dtype is not DType.BOOL:
        return ctx.cast(mask, dtype)
    return ctx.op("Select", mask, ctx.scalar(0.0, dtype), ctx.scalar(-math.inf, dtype))


@aten("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention")
def flash_attention(
    ctx: TorchBuilder, q: Value, k: Value, v: Value, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, attn_mask: Value | None = None, scale: float | None = None,
) -> list[Value]:  # fmt: skip
    return [attention(ctx, q, k, v, attn_mask, dropout_p, is_causal, scale)]


@aten("_scaled_dot_product_efficient_attention")
def efficient_attention(
    ctx: TorchBuilder, q: Value, k: Value, v: Value, attn_bias: Value | None, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
) -> list[Value]:  # fmt: skip
    return [attention(ctx, q, k, v, attn_bias, dropout_p, is_causal, scale)]


@aten("_scaled_dot_product_attention_math")
def attention_math(
    ctx: TorchBuilder, q: Value, k: Value, v: Value, attn_mask: Value | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, dropout_mask: Value | None = None, scale: float | None = None, enable_gqa: bool = False,
) -> list[Value]:  # fmt: skip
    return [attention(ctx, q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)]


@aten("_safe_softmax")
def safe_softmax(ctx: TorchBuilder, x: Value, dim: int, dtype: DType | int | None = None) -> Value:
    """Lines of nothing but minus infinity become zeros."""
    x = ctx.as_float(x) if dtype is None else ctx.cast(x, ctx.element_type(dtype))
    axis = ctx.axis(x, dim)
    out = ctx.op("Softmax", x, axis=axis)
    peak = ctx.op("Reduction", x, operation="MAXIMUM", dim=[axis], keepDims=True)
    return ctx.op("Select", ctx.op("IsInf", peak, detectPositive=False), ctx.const_like(0, x), out)


@aten("_masked_softmax")
def masked_softmax(
    ctx: TorchBuilder, x: Value, mask: Value, dim: int | None = None, mask_type: int | None = None
) -> Value:
    """``x [B, H, L, S]``; where the mask is not zero nothing is seen. ``mask_type`` 0: of queries and keys ``[L, S]``,
    1: of keys ``[B, S]``, 2: of all."""
    hidden = ctx.not_zero(mask)
    if mask_type == 1 and ctx.rank_of(x) == 4:
        hidden = ctx.unsqueeze(hidden, 1, 2)
    scores = apply(ctx, "masked_fill", [x, hidden, -math.inf], {})
    return apply(ctx, "softmax", [scores, -1 if dim is None else dim], {})  # type: ignore[no-any-return]


@aten("_native_multi_head_attention")
def multi_head_attention(
    ctx: TorchBuilder, query: Value, key: Value, value: Value, embed_dim: int, num_head: int, qkv_weight: Value,
    qkv_bias: Value, proj_weight: Value, proj_bias: Value, mask: Value | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> list[Value]:  # fmt: skip
    """What ``nn.MultiheadAttention`` comes to in inference: ``query [B, L, E]``; gives the result and the weights."""
    weights, biases = (apply(ctx, "chunk", [t, 3, 0], {}) for t in (qkv_weight, qkv_bias))
    parts = []
    for x, weight, bias in zip((query, key, value), weights, biases, strict=True):
        line = apply(ctx, "linear", [x, weight, bias], {})
        split = ctx.reshape(line, [ctx.size(line, 0), ctx.size(line, 1), num_head, embed_dim // num_head])
        parts.append(ctx.rows(split, [0, 2, 1, 3]))
    scaled = ctx.binary("MUL", parts[0], 1.0 / math.sqrt(embed_dim // num_head))
    scores = apply(ctx, "matmul", [scaled, ctx.rows(parts[1], [0, 1, 3, 2])], {})
    shares = (
        apply(ctx, "softmax", [scores, -1], {}) if mask is None else masked_softmax(ctx, scores, mask, -1, mask_type)
    )
    mixed = ctx.rows(apply(ctx, "matmul", [shares, parts[2]], {}), [0, 2, 1, 3])
    joined = ctx.reshape(mixed, [ctx.size(query, 0), ctx.size(query, 1), embed_dim])
    out = apply(ctx, "linear", [joined, proj_weight, proj_bias], {})
    if not need_weights:
        return [out, ctx.const([], DType.F32)]
    return [out, apply(ctx, "mean", [shares, 1], {}) if average_attn_weights else shares]


@aten("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    ctx: TorchBuilder, src: Value, embed_dim: int, num_heads: int, qkv_weight: Value, qkv_bias: Value,
    proj_weight: Value, proj_bias: Value, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Value,
    norm_bias_1: Value, norm_weight_2: Value, norm_bias_2: Value, ffn_weight_1: Value, ffn_bias_1: Value,
    ffn_weight_2: Value, ffn_bias_2: Value, mask: Value | None = None, mask_type: int | None = None,
) -> Value:  # fmt: skip
    """What ``nn.TransformerEncoderLayer`` comes to in inference; of a nested tensor a nested one."""
    there = ctx.lengths.get(src)
    if there is not None:
        mask, mask_type = apply(ctx, "logical_not", [there], {}), 1

    def normalised(x: Value, weight: Value, bias: Value) -> Value:
        return apply(ctx, "layer_norm", [x, [embed_dim], weight, bias, eps], {})  # type: ignore[no-any-return]

    def attended(x: Value) -> Value:
        return multi_head_attention(
            ctx, x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True,
            mask_type,
        )[0]  # fmt: skip

    def fed(x: Value) -> Value:
        inner = apply(ctx, "linear", [x, ffn_weight_1, ffn_bias_1], {})
        inner = apply(ctx, "gelu" if use_gelu else "relu", [inner], {})
        return apply(ctx, "linear", [inner, ffn_weight_2, ffn_bias_2], {})  # type: ignore[no-any-return]

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        x = ctx.binary("ADD", src, attended(normalised(src, *first)))
        out = ctx.binary("ADD", x, fed(normalised(x, *second)))
    else:
        x = normalised(ctx.binary("ADD", src, attended(src)), *first)
        out = normalised(ctx.binary("ADD", x, fed(x)), *second)
    if there is not None:
        ctx.lengths[out] = there
    return out


@aten("_nested_tensor_from_mask")
def nested_from_mask(ctx: TorchBuilder, x: Value, mask: Value, mask_check: bool = True) -> Value:
    """``x [B, T, E]`` where the mask is true. Nested tensors stay padded; what reads them leaves out the rest."""
    out = apply(ctx, "clone", [x], {})
    ctx.lengths[out] = mask
    return out  # type: ignore[no-any-return]


@aten("_nested_tensor_from_mask_left_aligned")
def nested_left_aligned(ctx: TorchBuilder, x: Value, mask: Value) -> bool:
    return True


@aten("to_padded_tensor", "nested_to_padded_tensor")
def padded(ctx: TorchBuilder, x: Value, padding: float, output_size: Ints | None = None) -> Value:
    """The nested tensor with a number where it holds nothing."""
    there = ctx.lengths.get(x)
    if there is None:
        raise ctx.unsupported("a nested tensor of this kind", "give padded tensors and a mask")
    raised = ctx.unsqueeze(there, *range(2, ctx.rank_of(x)))
    return apply(ctx, "where", [raised, x, ctx.scalar(padding, ctx.type_of(x))], {})  # type: ignore[no-any-return]
