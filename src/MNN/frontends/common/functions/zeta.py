"""The zeta function of two numbers, and derivatives of digamma, of f64 tensors."""

from __future__ import annotations

import math

from MNN.frontends.common.expressions import binary, compare, select, unary
from MNN.frontends.common.functions.gamma import whole
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.graph import Value

_TERMS = 12
"""Terms that are summed before Euler and Maclaurin's formula takes over."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def zeta(ctx: GraphBuilder, s: Value, base: Value) -> Value:
    """The sum of ``(base + k)^-s`` over all ``k`` from 0 (Hurwitz). Infinite for ``s = 1`` and at poles of ``base``;
    NaN for ``s`` below 1, and for ``base`` below 0 unless ``s`` is whole."""
    below = compare(ctx, "LESS_EQUAL", base, 0.0)
    share = binary(ctx, "SUB", base, unary(ctx, "FLOOR", base))
    found = _summed(ctx, s, select(ctx, below, share, base))
    sign = binary(ctx, "SUB", 1.0, binary(ctx, "MUL", binary(ctx, "FLOORMOD", s, 2.0), 2.0))
    nearest, beyond = (_summed(ctx, s, select(ctx, below, binary(ctx, "SUB", 1.0, v), 1.0)) for v in (share, base))
    terms = binary(ctx, "MUL", sign, binary(ctx, "SUB", nearest, beyond))  # those of numbers below 0
    found = select(ctx, below, binary(ctx, "ADD", found, terms), found)
    for condition, value in (
        (binary(ctx, "MUL", below, ctx.op("Not", whole(ctx, s))), math.nan),
        (binary(ctx, "MUL", below, whole(ctx, base)), math.inf),
        (compare(ctx, "EQUAL", s, 1.0), math.inf),
        (compare(ctx, "LESS", s, 1.0), math.nan),
    ):
        found = select(ctx, condition, value, found)
    return found


def _summed(ctx: GraphBuilder, s: Value, base: Value) -> Value:
    """Terms until ``base``, a number from 0, is above 12, an integral for the rest, and corrections."""
    less = unary(ctx, "NEG", s)

    def term(at: Value) -> Value:
        return binary(ctx, "POW", at, less)

    total = term(base)
    for k in range(1, _TERMS):
        total = binary(ctx, "ADD", total, term(binary(ctx, "ADD", base, float(k))))
    far = binary(ctx, "ADD", base, float(_TERMS))
    power = term(far)
    integral = binary(ctx, "REALDIV", binary(ctx, "MUL", power, far), binary(ctx, "SUB", s, 1.0))
    total = binary(ctx, "ADD", total, binary(ctx, "ADD", integral, binary(ctx, "MUL", power, 0.5)))
    rising, inverse = binary(ctx, "REALDIV", s, far), unary(ctx, "SQUARE", unary(ctx, "RECIPROCAL", far))
    for j, b in enumerate(_BERNOULLI, 1):
        share = binary(ctx, "MUL", binary(ctx, "MUL", rising, power), b / math.factorial(2 * j))
        total = binary(ctx, "ADD", total, share)
        both = binary(ctx, "MUL", binary(ctx, "ADD", s, 2.0 * j - 1), binary(ctx, "ADD", s, 2.0 * j))
        rising = binary(ctx, "MUL", binary(ctx, "MUL", rising, both), inverse)
    return total


def trigamma(ctx: GraphBuilder, x: Value) -> Value:
    """The derivative of digamma; below 1/2 by reflection."""
    low = compare(ctx, "LESS", x, 0.5)
    raised = select(ctx, low, binary(ctx, "SUB", 1.0, x), x)
    found = _summed(ctx, ctx.const_like(2.0, raised), raised)
    rest = binary(ctx, "SUB", x, unary(ctx, "FLOOR", x))
    sine = unary(ctx, "SIN", binary(ctx, "MUL", rest, math.pi))
    turned = binary(ctx, "SUB", unary(ctx, "SQUARE", binary(ctx, "REALDIV", math.pi, sine)), found)
    return select(ctx, low, turned, found)


def polygamma(ctx: GraphBuilder, order: int, x: Value) -> Value:
    """The ``order``-th derivative of digamma, from 2 on: ``(-1)^(n+1) n! zeta(n + 1, x)``."""
    found = zeta(ctx, ctx.const_like(order + 1.0, x), x)
    return binary(ctx, "MUL", found, math.factorial(order) * (-1.0) ** (order + 1))
