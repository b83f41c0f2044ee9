"""Bessel functions of f64 tensors, computed from polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from MNN.frontends.common.expressions import binary, compare, select, unary
from MNN.frontends.common.functions import bessel_tables as tables
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.graph import Value


def _polynomial(ctx: GraphBuilder, t: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule, the highest power first."""
    out = ctx.const_like(coefficients[0], t)
    for c in coefficients[1:]:
        out = binary(ctx, "ADD", binary(ctx, "MUL", out, t), c)
    return out


def _scaled(ctx: GraphBuilder, x: Value, order: int) -> Value:
    """``exp(-x) I(x)`` of numbers from 0."""
    near_table, far_table = ((tables.I0_NEAR, tables.I0_FAR), (tables.I1_NEAR, tables.I1_FAR))[order]
    inside, outside = binary(ctx, "MINIMUM", x, 8.0), binary(ctx, "MAXIMUM", x, 8.0)
    near = _polynomial(ctx, binary(ctx, "SUB", binary(ctx, "MUL", inside, 0.25), 1.0), near_table)
    near = binary(ctx, "MUL", near, inside) if order else near
    far = _polynomial(ctx, binary(ctx, "SUB", binary(ctx, "REALDIV", 16.0, outside), 1.0), far_table)
    far = binary(ctx, "REALDIV", far, unary(ctx, "SQRT", outside))
    return select(ctx, compare(ctx, "LESS", x, 8.0), near, far)


def _odd(ctx: GraphBuilder, x: Value, of_size: Value) -> Value:
    return select(ctx, compare(ctx, "LESS", x, 0.0), unary(ctx, "NEG", of_size), of_size)


def _missing(ctx: GraphBuilder, x: Value, found: Value) -> Value:
    """NaN of NaN."""
    return select(ctx, ctx.op("IsNaN", x), x, found)


def modified(ctx: GraphBuilder, x: Value, order: int, scaled: bool = False) -> Value:
    """``I0`` or ``I1``, the modified functions of the first kind; ``scaled`` by ``exp(-|x|)``."""
    if scaled and order == 0:  # which bends at 0
        size = unary(ctx, "ABS", x)
    else:
        size = select(ctx, compare(ctx, "LESS", x, 0.0), unary(ctx, "NEG", x), x)
    found = _scaled(ctx, size, order)
    if not scaled:  # exp in two steps, so that it is not infinite before the result is
        half = unary(ctx, "EXP", binary(ctx, "MUL", size, 0.5))
        found = binary(ctx, "MUL", binary(ctx, "MUL", found, half), half)
        found = select(ctx, compare(ctx, "EQUAL", size, math.inf), math.inf, found)
    return _missing(ctx, x, _odd(ctx, x, found) if order else found)


def _logarithm(ctx: GraphBuilder, x: Value) -> Value:
    return unary(ctx, "LOG", binary(ctx, "MAXIMUM", x, 5e-324))


def _turning(ctx: GraphBuilder, size: Value, order: int, second: bool) -> Value:
    """J (Y: ``second``) from 8: in phase and a quarter turn ahead (Abramowitz and Stegun, 9.2.5 and 9.2.6)."""
    outside = binary(ctx, "MAXIMUM", size, 8.0)
    w = binary(ctx, "SUB", unary(ctx, "SQUARE", binary(ctx, "REALDIV", math.sqrt(128.0), outside)), 1.0)
    p, q = (_polynomial(ctx, w, t) for t in ((tables.P0, tables.Q0), (tables.P1, tables.Q1))[order])
    q = binary(ctx, "REALDIV", q, outside)
    angle = binary(ctx, "SUB", outside, math.pi / 4 + order * math.pi / 2)
    cosine, sine = unary(ctx, "COS", angle), unary(ctx, "SIN", angle)
    terms = (p, sine, q, cosine, "ADD") if second else (p, cosine, q, sine, "SUB")
    wave = binary(ctx, terms[4], binary(ctx, "MUL", terms[0], terms[1]), binary(ctx, "MUL", terms[2], terms[3]))
    found = binary(ctx, "MUL", wave, unary(ctx, "SQRT", binary(ctx, "REALDIV", 2 / math.pi, outside)))
    return select(ctx, compare(ctx, "EQUAL", size, math.inf), 0.0, found)


def _first_near(ctx: GraphBuilder, inside: Value, order: int) -> Value:
    u = binary(ctx, "SUB", binary(ctx, "MUL", unary(ctx, "SQUARE", inside), 1 / 32), 1.0)
    found = _polynomial(ctx, u, tables.J1_NEAR if order else tables.J0_NEAR)
    return binary(ctx, "MUL", found, inside) if order else found


def first_kind(ctx: GraphBuilder, x: Value, order: int) -> Value:
    """``J0`` or ``J1``."""
    size = unary(ctx, "ABS", x)
    near = _first_near(ctx, binary(ctx, "MINIMUM", size, 8.0), order)
    found = select(ctx, compare(ctx, "LESS", size, 8.0), near, _turning(ctx, size, order, False))
    return _missing(ctx, x, _odd(ctx, x, found) if order else found)


def second_kind(ctx: GraphBuilder, x: Value, order: int) -> Value:
    """``Y0`` or ``Y1``: minus infinity at 0, NaN below."""
    inside = binary(ctx, "MINIMUM", unary(ctx, "ABS", x), 8.0)
    u = binary(ctx, "SUB", binary(ctx, "MUL", unary(ctx, "SQUARE", inside), 1 / 32), 1.0)
    rest = _polynomial(ctx, u, tables.Y1_NEAR if order else tables.Y0_NEAR)
    near = binary(ctx, "MUL", _logarithm(ctx, inside), _first_near(ctx, inside, order))
    if order:
        rest = binary(ctx, "MUL", rest, inside)
        near = binary(ctx, "SUB", near, unary(ctx, "RECIPROCAL", inside))
    near = binary(ctx, "ADD", binary(ctx, "MUL", near, 2 / math.pi), rest)
    found = select(ctx, compare(ctx, "LESS", x, 8.0), near, _turning(ctx, x, order, True))
    return _ends(ctx, x, found, -math.inf)


def _ends(ctx: GraphBuilder, x: Value, found: Value, at_zero: float) -> Value:
    found = select(ctx, compare(ctx, "EQUAL", x, 0.0), at_zero, found)
    return _missing(ctx, x, select(ctx, compare(ctx, "LESS", x, 0.0), math.nan, found))


def modified_second_kind(ctx: GraphBuilder, x: Value, order: int, scaled: bool = False) -> Value:
    """``K0`` or ``K1``: infinite at 0, NaN below; ``scaled`` by ``exp(x)``."""
    inside, outside = binary(ctx, "MINIMUM", unary(ctx, "ABS", x), 2.0), binary(ctx, "MAXIMUM", x, 2.0)
    u = binary(ctx, "SUB", binary(ctx, "MUL", unary(ctx, "SQUARE", inside), 0.5), 1.0)
    near = _polynomial(ctx, u, tables.K1_NEAR if order else tables.K0_NEAR)
    first = binary(ctx, "MUL", _scaled(ctx, inside, order), unary(ctx, "EXP", inside))
    logarithmic = binary(ctx, "MUL", _logarithm(ctx, inside), first)
    if order:
        near = binary(ctx, "ADD", binary(ctx, "MUL", near, inside), unary(ctx, "RECIPROCAL", inside))
        near = binary(ctx, "ADD", near, logarithmic)
    else:
        near = binary(ctx, "SUB", near, logarithmic)
    t = binary(ctx, "SUB", binary(ctx, "REALDIV", 4.0, outside), 1.0)
    far = _polynomial(ctx, t, tables.K1_FAR if order else tables.K0_FAR)
    far = binary(ctx, "REALDIV", far, unary(ctx, "SQRT", outside))
    if scaled:
        near = binary(ctx, "MUL", near, unary(ctx, "EXP", inside))
    else:
        far = binary(ctx, "MUL", far, unary(ctx, "EXP", unary(ctx, "NEG", outside)))
    found = select(ctx, compare(ctx, "LESS_EQUAL", x, 2.0), near, far)
    return _ends(ctx, x, found, math.inf)


def spherical(ctx: GraphBuilder, x: Value) -> Value:
    """``sin(x) / x``, the spherical function ``j0``."""
    size = unary(ctx, "ABS", x)
    zero = compare(ctx, "LESS", size, 1e-12)
    safe = select(ctx, zero, 1.0, x)
    found = select(ctx, zero, 1.0, binary(ctx, "REALDIV", unary(ctx, "SIN", safe), safe))
    return select(ctx, compare(ctx, "EQUAL", size, math.inf), 0.0, found)
