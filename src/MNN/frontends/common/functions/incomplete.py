"""The regularised incomplete gamma functions, of f64 tensors.

Integrals by Gauss and Legendre's rule, over an axis of their own. Above ``a + 1``, with ``s = l v^2``,

    Q(a, x) = exp(-x) x^(a-1) / gamma(a) * integral of exp(-s) (1 + s/x)^(a-1) from 0 to l,

and below (Abramowitz and Stegun, 6.5.12 and 13.2.1, by parts)

    P(a, x) = exp(-x) x^a / gamma(a+1) * (1 + x * integral of (1-t)^a exp(x t) from 0 to 1),

where ``t = 1 - v^4`` for small ``a``, so that the integrand has derivatives at 1; for large ones ``t`` stays near 0.
The error is 1e-12 up to ``a = 1000``, and grows to 1e-9 at a million as the exponents' rounding does.
"""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.common.expressions import binary, compare, insert_axis, select, unary
from MNN.frontends.common.functions.gamma import lgamma
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.graph import Value

_PLACES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_V, _SHARE = (_PLACES + 1) / 2, _WEIGHTS / 2
_LARGE = 30.0
"""From this ``a`` on the second integrand is narrow."""
_REACH, _WIDTHS = 38.0, 9.0
"""Integrals end where exp(-s) is below the precision, or so many times ``sqrt(a)`` away."""


def gamma(ctx: GraphBuilder, a: Value, x: Value, upper: bool) -> Value:
    """How much of a gamma distribution of the shape ``a`` lies below ``x``, or above it. ``a`` and ``x`` broadcast; NaN
    where one is negative, or both are 0 or infinite."""
    tall = compare(ctx, "LESS", x, binary(ctx, "ADD", a, 1.0))
    endless = compare(ctx, "EQUAL", binary(ctx, "MAXIMUM", a, x), math.inf)
    usual = binary(ctx, "MUL", compare(ctx, "GREATER", a, 0.0), compare(ctx, "GREATER", x, 0.0))
    usual = binary(ctx, "MUL", usual, ctx.op("Not", endless))
    a1, x1 = (select(ctx, usual, v, 1.0) for v in (a, x))
    scale = binary(ctx, "SUB", binary(ctx, "MUL", a1, unary(ctx, "LOG", x1)), x1)
    scale = unary(ctx, "EXP", binary(ctx, "SUB", scale, lgamma(ctx, binary(ctx, "ADD", a1, 1.0))))
    below, above = _integrals(ctx, a1, x1)
    below = binary(ctx, "MUL", scale, binary(ctx, "ADD", binary(ctx, "MUL", x1, below), 1.0))
    above = binary(ctx, "MUL", binary(ctx, "MUL", scale, binary(ctx, "REALDIV", a1, x1)), above)
    found = (
        select(ctx, tall, binary(ctx, "SUB", 1.0, below), above)
        if upper
        else select(ctx, tall, below, binary(ctx, "SUB", 1.0, above))
    )
    found = binary(ctx, "MINIMUM", binary(ctx, "MAXIMUM", found, 0.0), 1.0)
    outside = ctx.const_like(math.nan, x1)
    everything, nothing = (0.0, 1.0) if upper else (1.0, 0.0)
    for condition, value in (
        (compare(ctx, "EQUAL", x, math.inf), everything),
        (compare(ctx, "EQUAL", a, math.inf), nothing),
        (compare(ctx, "EQUAL", x, 0.0), nothing),
        (compare(ctx, "EQUAL", a, 0.0), select(ctx, compare(ctx, "GREATER", x, 0.0), everything, outside)),
        (compare(ctx, "EQUAL", a, x), math.nan),
        (compare(ctx, "LESS", binary(ctx, "MINIMUM", a, x), 0.0), math.nan),
    ):
        outside = select(ctx, condition, value, outside)
    return select(ctx, usual, found, outside)


def _integrals(ctx: GraphBuilder, a: Value, x: Value) -> tuple[Value, Value]:
    """Those of the second and of the first formula."""
    both = binary(ctx, "ADD", binary(ctx, "MUL", x, 0.0), a)  # broadcast
    line = binary(ctx, "ADD", binary(ctx, "MUL", a, 0.0), x)
    a, x = insert_axis(ctx, both, -1), insert_axis(ctx, line, -1)
    v, share, root = ctx.const(_V), ctx.const(_SHARE), unary(ctx, "SQRT", a)
    reach = binary(ctx, "ADD", binary(ctx, "MUL", root, _WIDTHS), _REACH)
    s = binary(ctx, "MUL", reach, ctx.const(_V**2))
    tail = unary(ctx, "LOG1P", binary(ctx, "REALDIV", s, x))
    tail = binary(ctx, "SUB", binary(ctx, "MUL", binary(ctx, "SUB", a, 1.0), tail), s)
    tail = binary(ctx, "MUL", unary(ctx, "EXP", tail), binary(ctx, "MUL", reach, binary(ctx, "MUL", v, 2.0)))
    narrow = binary(ctx, "MINIMUM", binary(ctx, "REALDIV", _WIDTHS, root), 1.0)
    t = binary(ctx, "MUL", narrow, ctx.const(_V**2))
    small = compare(ctx, "LESS", a, _LARGE)
    logs = select(ctx, small, ctx.const(4 * np.log(_V)), unary(ctx, "LOG1P", unary(ctx, "NEG", t)))
    exponent = binary(
        ctx, "ADD", binary(ctx, "MUL", a, logs), binary(ctx, "MUL", x, select(ctx, small, ctx.const(1 - _V**4), t))
    )
    exponent = select(ctx, compare(ctx, "LESS", x, binary(ctx, "ADD", a, 1.0)), exponent, -math.inf)  # else it is large
    step = select(ctx, small, ctx.const(4 * _V**3), binary(ctx, "MUL", narrow, binary(ctx, "MUL", v, 2.0)))
    head = binary(ctx, "MUL", unary(ctx, "EXP", exponent), step)
    made = [ctx.op("Reduction", binary(ctx, "MUL", p, share), operation="SUM", dim=[-1]) for p in (head, tail)]
    for value in made:
        value.dtype = a.dtype
    return made[0], made[1]
