"""The gamma function's logarithm and its derivative, and the normal distribution's logarithm, of f64 tensors."""

from __future__ import annotations

import math

from MNN.frontends.common.expressions import binary, compare, select, unary
from MNN.frontends.common.graph_builder import GraphBuilder
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


def whole(ctx: GraphBuilder, x: Value) -> Value:
    """Where numbers have no fraction."""
    return compare(ctx, "EQUAL", x, unary(ctx, "FLOOR", x))


def _turned(ctx: GraphBuilder, x: Value) -> Value:
    """``pi x``, whole turns left out before it is multiplied."""
    turns = unary(ctx, "FLOOR", binary(ctx, "MUL", x, 0.5))
    return binary(ctx, "MUL", binary(ctx, "SUB", x, binary(ctx, "MUL", turns, 2.0)), math.pi)


def lgamma(ctx: GraphBuilder, x: Value) -> Value:
    """The logarithm of the gamma function's absolute value; below 1/2 by reflection."""
    low = compare(ctx, "LESS", x, 0.5)
    y = binary(ctx, "SUB", select(ctx, low, binary(ctx, "SUB", 1.0, x), x), 1.0)
    total = ctx.const_like(_LANCZOS[0], y)
    for i, c in enumerate(_LANCZOS[1:]):
        total = binary(ctx, "ADD", total, binary(ctx, "REALDIV", c, binary(ctx, "ADD", y, i + 1.0)))
    t = binary(ctx, "ADD", y, 7.5)
    found = binary(ctx, "SUB", binary(ctx, "MUL", binary(ctx, "ADD", y, 0.5), unary(ctx, "LOG", t)), t)
    found = binary(ctx, "ADD", found, unary(ctx, "LOG", binary(ctx, "MUL", total, math.sqrt(math.tau))))
    endless = compare(ctx, "EQUAL", unary(ctx, "ABS", x), math.inf)
    sine = unary(ctx, "ABS", unary(ctx, "SIN", _turned(ctx, x)))
    sine = select(ctx, whole(ctx, x), 0.0, sine)
    reflected = binary(ctx, "SUB", unary(ctx, "LOG", binary(ctx, "REALDIV", math.pi, sine)), found)
    return select(ctx, endless, math.inf, select(ctx, low, reflected, found))


def digamma(ctx: GraphBuilder, x: Value) -> Value:
    """The derivative of lgamma; of 0 minus or plus infinity by its sign, of other whole numbers below NaN."""
    low = compare(ctx, "LESS", x, 0.5)
    y = select(ctx, low, binary(ctx, "SUB", 1.0, x), x)
    far = binary(ctx, "ADD", y, float(_STEPS))
    found = binary(ctx, "SUB", unary(ctx, "LOG", far), binary(ctx, "REALDIV", 0.5, far))
    square = unary(ctx, "SQUARE", unary(ctx, "RECIPROCAL", far))
    series = ctx.const_like(0, far)
    for b in reversed(_BERNOULLI):
        series = binary(ctx, "MUL", binary(ctx, "ADD", series, b), square)
    found = binary(ctx, "SUB", found, series)
    for k in range(_STEPS):
        found = binary(ctx, "SUB", found, binary(ctx, "REALDIV", 1.0, binary(ctx, "ADD", y, float(k))))
    turned = _turned(ctx, select(ctx, low, x, 0.25))  # no pole where it is not used
    reflected = binary(ctx, "SUB", found, binary(ctx, "REALDIV", math.pi, unary(ctx, "TAN", turned)))
    found = select(ctx, low, reflected, found)
    found = select(ctx, binary(ctx, "MUL", whole(ctx, x), low), math.nan, found)
    pole = binary(ctx, "SUB", unary(ctx, "NEG", unary(ctx, "RECIPROCAL", x)), _EULER)  # keeps the sign of a zero
    return select(ctx, compare(ctx, "LESS", unary(ctx, "ABS", x), 1e-9), pole, found)


def log_ndtr(ctx: GraphBuilder, x: Value) -> Value:
    """The logarithm of how much of a normal distribution lies below; far below by Mills' ratio."""
    half = binary(ctx, "MUL", unary(ctx, "ERFC", binary(ctx, "MUL", x, -math.sqrt(0.5))), 0.5)
    low = compare(ctx, "LESS", x, -3.0)
    far = unary(ctx, "NEG", select(ctx, low, x, -3.0))
    tail = binary(ctx, "MUL", unary(ctx, "SQUARE", far), -0.5)
    tail = binary(ctx, "SUB", tail, unary(ctx, "LOG", _mills(ctx, far)))
    return select(ctx, low, binary(ctx, "SUB", tail, 0.5 * math.log(math.tau)), unary(ctx, "LOG", half))


def _mills(ctx: GraphBuilder, far: Value) -> Value:
    """The normal density at ``far``, a number from 3 on, over how much lies beyond."""
    ratio = far
    for k in range(_FRACTIONS, 0, -1):
        ratio = binary(ctx, "ADD", far, binary(ctx, "REALDIV", float(k), ratio))
    return ratio


def erfcx(ctx: GraphBuilder, x: Value) -> Value:
    """``exp(x^2) erfc(x)``; far above 0 by Mills' ratio, so that neither factor leaves the numbers there are."""
    wide = binary(ctx, "MUL", x, math.sqrt(2.0))
    high = compare(ctx, "GREATER", wide, 3.0)
    near = select(ctx, high, 0.0, x)
    product = binary(ctx, "MUL", unary(ctx, "EXP", unary(ctx, "SQUARE", near)), unary(ctx, "ERFC", near))
    far = binary(ctx, "REALDIV", math.sqrt(2.0 / math.pi), _mills(ctx, select(ctx, high, wide, 3.0)))
    return select(ctx, high, far, product)
