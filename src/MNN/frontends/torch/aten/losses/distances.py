"""Losses of numbers beside numbers: distances, logarithms, margins."""

from __future__ import annotations

import math

from MNN.frontends.common.expressions import log1p_exp
from MNN.frontends.torch.aten.reductions import p_norm, reduced
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_LARGEST_EXPONENT = 11.0859375
"""The largest f16 whose exponential is one."""


def gathered(ctx: TorchBuilder, x: Value, reduction: int) -> Value:
    """``reduction``: 0 none, 1 the mean, 2 the sum."""
    return x if reduction == 0 else reduced(ctx, "MEAN" if reduction == 1 else "SUM", x, None, False)


@aten("mse_loss")
def mse_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1) -> Value:
    return gathered(ctx, ctx.unary("SQUARE", ctx.binary("SUB", x, y)), reduction)


@aten("l1_loss")
def l1_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1) -> Value:
    return gathered(ctx, ctx.unary("ABS", ctx.binary("SUB", x, y)), reduction)


@aten("smooth_l1_loss")
def smooth_l1_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1, beta: float = 1.0) -> Value:
    difference = ctx.binary("SUB", x, y)
    apart = ctx.unary("ABS", difference)
    if beta == 0:
        return gathered(ctx, apart, reduction)
    square = ctx.binary("MUL", ctx.unary("SQUARE", difference), 0.5 / beta)
    small = ctx.op("BinaryOp", apart, ctx.const_like(beta, apart), opType="LESS")
    return gathered(ctx, ctx.op("Select", small, square, ctx.binary("SUB", apart, 0.5 * beta)), reduction)


@aten("huber_loss")
def huber_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1, delta: float = 1.0) -> Value:
    return gathered(ctx, ctx.binary("MUL", smooth_l1_loss(ctx, x, y, 0, delta), delta), reduction)


@aten("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    ctx: TorchBuilder,
    x: Value,
    y: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = 1,
) -> Value:
    """``(1 - y) x + log(1 + exp(-x))``, the second part weighted where positives count more."""
    tail = log1p_exp(ctx, ctx.unary("NEG", x))
    rest = ctx.op("BinaryOp", ctx.const_like(1, y), y, opType="SUB")
    if pos_weight is not None:
        more = ctx.op("BinaryOp", ctx.binary("SUB", pos_weight, 1), y, opType="MUL")
        tail = ctx.op("BinaryOp", tail, ctx.binary("ADD", more, 1), opType="MUL")
    out = ctx.op("BinaryOp", ctx.op("BinaryOp", rest, x, opType="MUL"), tail, opType="ADD")
    return gathered(ctx, out if weight is None else ctx.op("BinaryOp", out, weight, opType="MUL"), reduction)


@aten("binary_cross_entropy")
def binary_cross_entropy(
    ctx: TorchBuilder, x: Value, y: Value, weight: Value | None = None, reduction: int = 1
) -> Value:
    """Logarithms are at least -100; that of 0 is not computed, as its slope times nothing is no number."""

    def log(v: Value) -> Value:
        zero = ctx.binary("EQUAL", v, 0)
        found = ctx.unary("LOG", ctx.op("Select", zero, ctx.const_like(1, v), v))
        found = ctx.op("Select", zero, ctx.const_like(-100, v), found)
        return ctx.op("BinaryOp", found, ctx.const_like(-100, v), opType="MAXIMUM")

    rest = ctx.op("BinaryOp", ctx.const_like(1, y), y, opType="SUB")
    other = ctx.op("BinaryOp", ctx.const_like(1, x), x, opType="SUB")
    both = ctx.op(
        "BinaryOp",
        ctx.op("BinaryOp", y, log(x), opType="MUL"),
        ctx.op("BinaryOp", rest, log(other), opType="MUL"),
        opType="ADD",
    )
    out = ctx.unary("NEG", both)
    return gathered(ctx, out if weight is None else ctx.op("BinaryOp", out, weight, opType="MUL"), reduction)


@aten("kl_div")
def kl_div(ctx: TorchBuilder, x: Value, target: Value, reduction: int = 1, *, log_target: bool = False) -> Value:
    """``target (log target - x)``."""
    if log_target:
        out = ctx.binary("MUL", ctx.unary("EXP", target), ctx.binary("SUB", target, x))
    else:
        out = ctx.binary("SUB", apply(ctx, "xlogy", [target, target], {}), ctx.binary("MUL", target, x))
    return gathered(ctx, out, reduction)


@aten("soft_margin_loss")
def soft_margin_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1) -> Value:
    """In f16 the exponential overflows, as torch has it."""
    turned = ctx.unary("NEG", ctx.binary("MUL", x, y))
    out = apply(ctx, "softplus", [turned], {})
    if ctx.type_of(turned) is DType.F16:
        out = apply(ctx, "where", [ctx.binary("GREATER", turned, _LARGEST_EXPONENT), math.inf, out], {})
    return gathered(ctx, out, reduction)


@aten("margin_ranking_loss")
def margin_ranking_loss(
    ctx: TorchBuilder, x: Value, y: Value, target: Value, margin: float = 0.0, reduction: int = 1
) -> Value:
    apart = ctx.binary("MUL", ctx.unary("NEG", target), ctx.binary("SUB", x, y))
    return gathered(ctx, above(ctx, ctx.binary("ADD", apart, margin)), reduction)


def above(ctx: TorchBuilder, x: Value) -> Value:
    """What is above 0, with the slope 1 at 0 itself."""
    return apply(ctx, "clamp_min", [x, 0], {})  # type: ignore[no-any-return]


@aten("hinge_embedding_loss")
def hinge_embedding_loss(ctx: TorchBuilder, x: Value, target: Value, margin: float = 1.0, reduction: int = 1) -> Value:
    """``x`` where the target is 1, what a margin leaves where it is -1."""
    far = _where_equal(ctx, target, 1, 0.0, above(ctx, ctx.binary("SUB", margin, x)))
    near = _where_equal(ctx, target, -1, 0.0, x)
    return gathered(ctx, ctx.binary("ADD", near, far), reduction)


def _where_equal(ctx: TorchBuilder, x: Value, number: int, chosen: float, other: Value) -> Value:
    return apply(ctx, "where", [ctx.binary("EQUAL", x, number), chosen, other], {})  # type: ignore[no-any-return]


@aten("cosine_embedding_loss")
def cosine_embedding_loss(
    ctx: TorchBuilder, x: Value, y: Value, target: Value, margin: float = 0.0, reduction: int = 1
) -> Value:
    """One minus the cosine where the target is 1, what it has above a margin where it is -1."""
    x, y = (ctx.as_float(v) for v in ctx.together(x, y))
    tiny = 1e-12

    def squares(a: Value, b: Value) -> Value:
        return reduced(ctx, "SUM", ctx.binary("MUL", a, b), -1, False)

    lengths = ctx.binary("MUL", ctx.binary("ADD", squares(x, x), tiny), ctx.binary("ADD", squares(y, y), tiny))
    cosine = ctx.binary("REALDIV", squares(x, y), ctx.unary("SQRT", lengths))
    near = _where_equal(ctx, target, 1, 1.0, ctx.const_like(0, cosine))
    near = ctx.binary("SUB", near, ctx.binary("MUL", near, cosine))
    far = apply(ctx, "where", [ctx.binary("EQUAL", target, -1), above(ctx, ctx.binary("SUB", cosine, margin)), 0.0], {})
    return gathered(ctx, ctx.binary("ADD", near, far), reduction)


@aten("triplet_margin_loss")
def triplet_margin_loss(
    ctx: TorchBuilder, anchor: Value, positive: Value, negative: Value, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 1,
) -> Value:  # fmt: skip
    """How much farther the negative one is not than the positive one; ``swap`` takes the nearer of two distances."""

    def distance(x: Value, y: Value) -> Value:
        return p_norm(ctx, ctx.binary("ADD", ctx.binary("SUB", x, y), eps), p, -1, False)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ctx.binary("MINIMUM", far, distance(positive, negative))
    return gathered(ctx, above(ctx, ctx.binary("SUB", ctx.binary("ADD", near, margin), far)), reduction)


@aten("poisson_nll_loss")
def poisson_nll_loss(
    ctx: TorchBuilder, x: Value, target: Value, log_input: bool, full: bool, eps: float, reduction: int
) -> Value:
    """``full`` adds Stirling's approximation of the logarithm of ``target!`` above 1."""
    x = ctx.as_float(x)
    if log_input:
        out = ctx.binary("SUB", ctx.unary("EXP", x), ctx.binary("MUL", target, x))
    else:
        out = ctx.binary("SUB", x, ctx.binary("MUL", target, ctx.unary("LOG", ctx.binary("ADD", x, eps))))
    if full:
        safe = ctx.binary("MAXIMUM", target, 1)
        safe = ctx.cast(safe, ctx.type_of(x))
        term = ctx.binary("SUB", ctx.binary("MUL", safe, ctx.unary("LOG", safe)), safe)
        term = ctx.binary("ADD", term, ctx.binary("MUL", ctx.unary("LOG", ctx.binary("MUL", safe, math.tau)), 0.5))
        out = ctx.binary("ADD", out, apply(ctx, "where", [ctx.binary("GREATER", target, 1), term, 0.0], {}))
    return gathered(ctx, out, reduction)
