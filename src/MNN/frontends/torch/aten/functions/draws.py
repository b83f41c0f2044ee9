"""Draws from distributions, made of even draws between 0 and 1.

L. Devroye, "Non-uniform random variate generation", 1986.
"""

from __future__ import annotations

import math

from MNN.frontends.torch.builder import Operand, TorchBuilder
from MNN.frontends.torch.numbers import Int, Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_NEAREST = 2.0**-24
"""What a draw of 0 counts as, where an infinity would come of it."""


def _even(ctx: TorchBuilder, x: Value) -> Value:
    """For each element one number from 0 to below 1, in f32 or f64."""
    kind = DType.F64 if x.dtype is DType.F64 else DType.F32
    return apply(ctx, "rand_like", [x], {"dtype": kind})  # type: ignore[no-any-return]


def _waited(ctx: TorchBuilder, x: Value) -> Value:
    """Exponentially distributed, with 1 for mean; never 0."""
    drawn = ctx.binary("MAXIMUM", _even(ctx, x), _NEAREST)
    return ctx.unary("NEG", ctx.unary("LOG1P", ctx.unary("NEG", drawn)))


@aten("exponential")
def exponential(ctx: TorchBuilder, x: Value, lambd: Scalar = 1.0) -> Value:
    return ctx.cast(ctx.binary("REALDIV", _waited(ctx, x), lambd), ctx.type_of(x))


@aten("geometric")
def geometric(ctx: TorchBuilder, x: Value, p: Scalar) -> Value:
    """How many trials it takes until one succeeds, of chance ``p`` each."""
    kind, waited = ctx.type_of(x), _waited(ctx, x)
    rate = ctx.unary("NEG", ctx.unary("LOG1P", ctx.unary("NEG", ctx.operand(p, ctx.type_of(waited)))))
    return ctx.cast(ctx.unary("CEIL", ctx.binary("REALDIV", waited, rate)), kind)


@aten("cauchy")
def cauchy(ctx: TorchBuilder, x: Value, median: Scalar = 0.0, sigma: Scalar = 1.0) -> Value:
    turned = ctx.unary("TAN", ctx.binary("MUL", ctx.binary("SUB", _even(ctx, x), 0.5), math.pi))
    return ctx.cast(ctx.binary("ADD", ctx.binary("MUL", turned, sigma), median), ctx.type_of(x))


@aten("log_normal")
def log_normal(ctx: TorchBuilder, x: Value, mean: Scalar = 1.0, std: Scalar = 2.0) -> Value:
    return ctx.unary("EXP", apply(ctx, "normal_functional", [x, mean, std], {}))


@aten("multinomial")
def multinomial(ctx: TorchBuilder, x: Value, num_samples: Int, replacement: bool = False) -> Value:
    """Places along the last axis, as often as their share of its sum: where even draws fall among running sums; or
    those whose exponential draws over their shares are the first, so that none comes twice (P. Efraimidis and
    P. Spirakis, "Weighted random sampling with a reservoir", 2006)."""
    wide = x if ctx.type_of(x) is DType.F64 else ctx.cast(x, DType.F32)
    if not replacement:
        keys = ctx.binary("REALDIV", wide, _waited(ctx, wide))
        return apply(ctx, "topk", [keys, num_samples], {})[1]  # type: ignore[no-any-return]
    sums = apply(ctx, "cumsum", [wide, -1], {})
    drawn = _even(ctx, apply(ctx, "new_zeros", [wide, [*ctx.sizes(wide)[:-1], num_samples]], {}))
    whole: Operand = apply(ctx, "narrow", [sums, -1, -1, 1], {})
    return apply(ctx, "searchsorted", [sums, ctx.binary("MUL", drawn, whole)], {"right": True})  # type: ignore[no-any-return]
