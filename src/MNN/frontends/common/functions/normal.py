"""The quantiles of the normal distribution, of f64 tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from MNN.frontends.common.expressions import binary, compare, select, unary
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.graph import Value

_MIDDLE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_OUTSIDE = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
     0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
     0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0),
)  # fmt: skip
"""Quotients of polynomials, the highest power first, of M. Wichura, "Algorithm AS 241: the percentage points of the
normal distribution", 1988."""


def _quotient(ctx: GraphBuilder, x: Value, both: Sequence[Sequence[float]]) -> Value:
    parts = []
    for coefficients in both:
        out = ctx.const_like(coefficients[0], x)
        for c in coefficients[1:]:
            out = binary(ctx, "ADD", binary(ctx, "MUL", out, x), c)
        parts.append(out)
    return binary(ctx, "REALDIV", *parts)


def quantile(ctx: GraphBuilder, p: Value) -> Value:
    """The number below which a share ``p`` of a normal distribution lies: infinite for 0 and 1, NaN beyond."""
    q = binary(ctx, "SUB", p, 0.5)
    size = unary(ctx, "ABS", q)
    squares = binary(ctx, "SUB", 0.180625, unary(ctx, "SQUARE", binary(ctx, "MINIMUM", size, 0.425)))
    middle = binary(ctx, "MUL", q, _quotient(ctx, squares, _MIDDLE))
    low = compare(ctx, "LESS", q, 0.0)
    share = select(ctx, low, p, binary(ctx, "SUB", 1.0, p))
    r = unary(ctx, "SQRT", unary(ctx, "NEG", unary(ctx, "LOG", share)))
    outside = _quotient(ctx, binary(ctx, "SUB", binary(ctx, "MINIMUM", r, 5.0), 1.6), _OUTSIDE)
    far = _quotient(ctx, binary(ctx, "SUB", binary(ctx, "MAXIMUM", r, 5.0), 5.0), _FAR)
    tail = select(ctx, compare(ctx, "LESS_EQUAL", r, 5.0), outside, far)
    tail = select(ctx, compare(ctx, "EQUAL", share, 0.0), math.inf, tail)
    tail = select(ctx, low, unary(ctx, "NEG", tail), tail)
    return select(ctx, compare(ctx, "LESS_EQUAL", size, 0.425), middle, tail)
