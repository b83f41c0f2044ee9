"""Attention."""

from __future__ import annotations

import math

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@aten("scaled_dot_product_attention")
def attention(
    ctx: TorchBuilder, q: Value, k: Value, v: Value, attn_mask: Value | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """``q [..., L, E]``, ``k [..., S, E]``, ``v [..., S, Ev]``; a mask of booleans keeps where it is true."""
    if dropout_p:
        raise ctx.unsupported("dropout in attention", "call model.eval() before exporting")
    if enable_gqa:
        groups = ctx.known(ctx.size(q, -3), "heads") // ctx.known(ctx.size(k, -3), "heads")
        k, v = (_repeated(ctx, t, groups) for t in (k, v))
    width = ctx.size(q, -1)
    factor: float | Number = 1.0 / math.sqrt(width) if scale is None and isinstance(width, int) else scale or 1.0
    if scale is None and isinstance(width, Number):
        wide = ctx.unary("RSQRT", ctx.cast(width.value, ctx.type_of(q)))
        factor = Number(wide)
    rank = ctx.rank_of(k)
    turned = ctx.rows(k, [*range(rank - 2), rank - 1, rank - 2])
    scores = ctx.op("MatMul", q, turned)
    scores = ctx.op("BinaryOp", scores, ctx.scalar(factor, ctx.type_of(q)), opType="MUL")
    if is_causal:
        attn_mask = _causal(ctx, q, k)
    if attn_mask is not None:
        attn_mask = _added(ctx, attn_mask, ctx.type_of(q))
        scores = ctx.op("BinaryOp", scores, attn_mask, opType="ADD")
    weights = ctx.op("Softmax", scores, axis=-1)
    return ctx.op("MatMul", weights, v)


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
