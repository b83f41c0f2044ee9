"""Functions of mathematics beyond exponentials, computed in f64 from a few sums."""

from __future__ import annotations

import math

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
"""Of Lanczos' approximation of the gamma function with g = 7 and nine terms (C. Lanczos 1964)."""
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""``B(2k) / 2k``, of the asymptotic series of digamma (Abramowitz and Stegun, 6.3.18)."""
_STEPS = 10
"""By so much arguments grow before the series is used."""
_FRACTIONS = 40
"""Levels of the continued fraction of Mills' ratio (Laplace; Abramowitz and Stegun, 26.2.14)."""
_EULER = 0.5772156649015329


def _choose(ctx: TorchBuilder, condition: Value, x: Value, y: Value | float) -> Value:
    other = y if isinstance(y, Value) else ctx.const_like(y, x)
    return ctx.op("Select", condition, x, other)


def _wide(ctx: TorchBuilder, x: Value) -> tuple[Value, DType]:
    """In f64, and the type of the result."""
    kind = ctx.type_of(ctx.as_float(x))
    return ctx.cast(x, DType.F64), kind


def _turned(ctx: TorchBuilder, x: Value) -> Value:
    """``pi x``, whole turns left out before it is multiplied."""
    rest = ctx.binary("SUB", x, ctx.binary("MUL", ctx.unary("FLOOR", ctx.binary("MUL", x, 0.5)), 2.0))
    return ctx.binary("MUL", rest, math.pi)


@aten("lgamma", "special_gammaln")
def lgamma(ctx: TorchBuilder, x: Value) -> Value:
    """The logarithm of the gamma function's absolute value; below 1/2 by reflection."""
    wide, kind = _wide(ctx, x)
    low = ctx.binary("LESS", wide, 0.5)
    y = ctx.binary("SUB", _choose(ctx, low, ctx.binary("SUB", 1.0, wide), wide), 1.0)
    total = ctx.const_like(_LANCZOS[0], y)
    for i, c in enumerate(_LANCZOS[1:]):
        total = ctx.binary("ADD", total, ctx.binary("REALDIV", c, ctx.binary("ADD", y, i + 1.0)))
    t = ctx.binary("ADD", y, 7.5)
    found = ctx.binary("SUB", ctx.binary("MUL", ctx.binary("ADD", y, 0.5), ctx.unary("LOG", t)), t)
    found = ctx.binary("ADD", found, ctx.unary("LOG", ctx.binary("MUL", total, math.sqrt(math.tau))))
    endless = ctx.binary("EQUAL", ctx.unary("ABS", wide), math.inf)
    sine = ctx.unary("ABS", ctx.unary("SIN", _turned(ctx, wide)))
    sine = _choose(ctx, ctx.binary("EQUAL", wide, ctx.unary("FLOOR", wide)), ctx.const_like(0, sine), sine)
    reflected = ctx.binary("SUB", ctx.unary("LOG", ctx.binary("REALDIV", math.pi, sine)), found)
    found = _choose(ctx, low, reflected, found)
    return ctx.cast(_choose(ctx, endless, ctx.const_like(math.inf, found), found), kind)


@aten("digamma", "special_digamma", "special_psi")
def digamma(ctx: TorchBuilder, x: Value) -> Value:
    """The derivative of lgamma; of 0 minus or plus infinity by its sign, of other whole numbers below NaN."""
    wide, kind = _wide(ctx, x)
    low = ctx.binary("LESS", wide, 0.5)
    y = _choose(ctx, low, ctx.binary("SUB", 1.0, wide), wide)
    far = ctx.binary("ADD", y, float(_STEPS))
    found = ctx.binary("SUB", ctx.unary("LOG", far), ctx.binary("REALDIV", 0.5, far))
    square = ctx.unary("SQUARE", ctx.unary("RECIPROCAL", far))
    series = ctx.const_like(0, far)
    for b in reversed(_BERNOULLI):
        series = ctx.binary("MUL", ctx.binary("ADD", series, b), square)
    found = ctx.binary("SUB", found, series)
    for k in range(_STEPS):
        found = ctx.binary("SUB", found, ctx.binary("REALDIV", 1.0, ctx.binary("ADD", y, float(k))))
    turned = _turned(ctx, _choose(ctx, low, wide, 0.25))  # no pole where it is not used
    reflected = ctx.binary("SUB", found, ctx.binary("REALDIV", math.pi, ctx.unary("TAN", turned)))
    found = _choose(ctx, low, reflected, found)
    whole = apply(ctx, "logical_and", [ctx.binary("EQUAL", wide, ctx.unary("FLOOR", wide)), low], {})
    found = apply(ctx, "where", [whole, math.nan, found], {})
    pole = ctx.binary("SUB", ctx.unary("NEG", ctx.unary("RECIPROCAL", wide)), _EULER)  # keeps the sign of a zero
    return ctx.cast(_choose(ctx, ctx.binary("LESS", ctx.unary("ABS", wide), 1e-9), pole, found), kind)


@aten("mvlgamma", "special_multigammaln")
def mvlgamma(ctx: TorchBuilder, x: Value, p: int) -> Value:
    """Of the multivariate gamma function: a sum of ``p`` of them."""
    wide, kind = _wide(ctx, x)
    count = ctx.known(p, "the number of dimensions")
    if not 1 <= count <= 256:
        raise ctx.unsupported(f"{count} dimensions of a gamma function", "from 1 to 256 are")
    total = ctx.const_like(count * (count - 1) / 4 * math.log(math.pi), wide)
    for j in range(count):
        total = ctx.binary("ADD", total, lgamma(ctx, ctx.binary("SUB", wide, j / 2)))
    return ctx.cast(total, kind)


@aten("special_log_ndtr")
def log_ndtr(ctx: TorchBuilder, x: Value) -> Value:
    """The logarithm of how much of a normal distribution lies below; far below by Mills' ratio."""
    wide, kind = _wide(ctx, x)
    near = ctx.unary("LOG", ctx.binary("MUL", ctx.unary("ERFC", ctx.binary("MUL", wide, -math.sqrt(0.5))), 0.5))
    low = ctx.binary("LESS", wide, -3.0)
    far = ctx.unary("NEG", _choose(ctx, low, wide, -3.0))
    ratio = far
    for k in range(_FRACTIONS, 0, -1):
        ratio = ctx.binary("ADD", far, ctx.binary("REALDIV", float(k), ratio))
    tail = ctx.binary("SUB", ctx.binary("MUL", ctx.unary("SQUARE", far), -0.5), ctx.unary("LOG", ratio))
    return ctx.cast(_choose(ctx, low, ctx.binary("SUB", tail, 0.5 * math.log(math.tau)), near), kind)
