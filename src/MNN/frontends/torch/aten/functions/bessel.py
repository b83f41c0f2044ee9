"""Bessel functions, computed in f64 from polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from MNN.frontends.torch.aten.functions import bessel_tables as tables
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def polynomial(ctx: TorchBuilder, t: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule, the highest power first."""
    out = ctx.const_like(coefficients[0], t)
    for c in coefficients[1:]:
        out = ctx.binary("ADD", ctx.binary("MUL", out, t), c)
    return out


def _where(ctx: TorchBuilder, condition: Value, x: Value | float, y: Value | float) -> Value:
    return apply(ctx, "where", [condition, x, y], {})  # type: ignore[no-any-return]


def _over(ctx: TorchBuilder, number: float, x: Value) -> Value:
    """``number / x``."""
    return ctx.binary("REALDIV", ctx.const_like(number, x), x)


def _wide(ctx: TorchBuilder, x: Value) -> tuple[Value, DType]:
    return ctx.cast(x, DType.F64), ctx.type_of(ctx.as_float(x))


def _scaled(ctx: TorchBuilder, x: Value, order: int) -> Value:
    """``exp(-x) I(x)`` of f64 numbers from 0."""
    near_table, far_table = ((tables.I0_NEAR, tables.I0_FAR), (tables.I1_NEAR, tables.I1_FAR))[order]
    inside, outside = ctx.binary("MINIMUM", x, 8.0), ctx.binary("MAXIMUM", x, 8.0)
    near = polynomial(ctx, ctx.binary("SUB", ctx.binary("MUL", inside, 0.25), 1.0), near_table)
    near = ctx.binary("MUL", near, inside) if order else near
    far = polynomial(ctx, ctx.binary("SUB", _over(ctx, 16.0, outside), 1.0), far_table)
    far = ctx.binary("REALDIV", far, ctx.unary("SQRT", outside))
    return _where(ctx, ctx.binary("LESS", x, 8.0), near, far)


def _odd(ctx: TorchBuilder, x: Value, of_size: Value) -> Value:
    return _where(ctx, ctx.binary("LESS", x, 0.0), ctx.unary("NEG", of_size), of_size)


def _missing(ctx: TorchBuilder, x: Value, found: Value) -> Value:
    """NaN of NaN."""
    return _where(ctx, apply(ctx, "isnan", [x], {}), x, found)


@aten("i0", "special_i0", "special_modified_bessel_i0", "special_i0e")
def modified_0(ctx: TorchBuilder, x: Value) -> Value:
    return _modified(ctx, x, 0, ctx.name.endswith("e"))


@aten("special_i1", "special_modified_bessel_i1", "special_i1e")
def modified_1(ctx: TorchBuilder, x: Value) -> Value:
    return _modified(ctx, x, 1, ctx.name.endswith("e"))


def _modified(ctx: TorchBuilder, x: Value, order: int, scaled: bool) -> Value:
    wide, kind = _wide(ctx, x)
    if scaled and order == 0:  # which bends at 0
        size = ctx.unary("ABS", wide)
    else:
        size = _where(ctx, ctx.binary("LESS", wide, 0.0), ctx.unary("NEG", wide), wide)
    found = _scaled(ctx, size, order)
    if not scaled:  # exp in two steps, so that it is not infinite before the result is
        half = ctx.unary("EXP", ctx.binary("MUL", size, 0.5))
        found = ctx.binary("MUL", ctx.binary("MUL", found, half), half)
        found = _where(ctx, ctx.binary("EQUAL", size, math.inf), math.inf, found)
    return ctx.cast(_missing(ctx, wide, _odd(ctx, wide, found) if order else found), kind)


def _logarithm(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.unary("LOG", ctx.binary("MAXIMUM", x, 5e-324))


def _turning(ctx: TorchBuilder, size: Value, order: int, second: bool) -> Value:
    """J (Y: ``second``) from 8: in phase and a quarter turn ahead (Abramowitz and Stegun, 9.2.5 and 9.2.6)."""
    outside = ctx.binary("MAXIMUM", size, 8.0)
    w = ctx.binary("SUB", ctx.unary("SQUARE", _over(ctx, math.sqrt(128.0), outside)), 1.0)
    p, q = (polynomial(ctx, w, t) for t in ((tables.P0, tables.Q0), (tables.P1, tables.Q1))[order])
    q = ctx.binary("REALDIV", q, outside)
    angle = ctx.binary("SUB", outside, math.pi / 4 + order * math.pi / 2)
    cosine, sine = ctx.unary("COS", angle), ctx.unary("SIN", angle)
    terms = (p, sine, q, cosine, "ADD") if second else (p, cosine, q, sine, "SUB")
    wave = ctx.binary(terms[4], ctx.binary("MUL", terms[0], terms[1]), ctx.binary("MUL", terms[2], terms[3]))
    found = ctx.binary("MUL", wave, ctx.unary("SQRT", _over(ctx, 2 / math.pi, outside)))
    return _where(ctx, ctx.binary("EQUAL", size, math.inf), 0.0, found)


def _first_near(ctx: TorchBuilder, inside: Value, order: int) -> Value:
    u = ctx.binary("SUB", ctx.binary("MUL", ctx.unary("SQUARE", inside), 1 / 32), 1.0)
    found = polynomial(ctx, u, tables.J1_NEAR if order else tables.J0_NEAR)
    return ctx.binary("MUL", found, inside) if order else found


@aten("special_bessel_j0", "special_bessel_j1")
def first_kind(ctx: TorchBuilder, x: Value) -> Value:
    order = int(ctx.name[-1])
    wide, kind = _wide(ctx, x)
    size = ctx.unary("ABS", wide)
    near = _first_near(ctx, ctx.binary("MINIMUM", size, 8.0), order)
    found = _where(ctx, ctx.binary("LESS", size, 8.0), near, _turning(ctx, size, order, False))
    return ctx.cast(_missing(ctx, wide, _odd(ctx, wide, found) if order else found), kind)


@aten("special_bessel_y0", "special_bessel_y1")
def second_kind(ctx: TorchBuilder, x: Value) -> Value:
    """Minus infinity at 0, NaN below."""
    order = int(ctx.name[-1])
    wide, kind = _wide(ctx, x)
    inside = ctx.binary("MINIMUM", ctx.unary("ABS", wide), 8.0)
    u = ctx.binary("SUB", ctx.binary("MUL", ctx.unary("SQUARE", inside), 1 / 32), 1.0)
    rest = polynomial(ctx, u, tables.Y1_NEAR if order else tables.Y0_NEAR)
    near = ctx.binary("MUL", _logarithm(ctx, inside), _first_near(ctx, inside, order))
    if order:
        rest = ctx.binary("MUL", rest, inside)
        near = ctx.binary("SUB", near, ctx.unary("RECIPROCAL", inside))
    near = ctx.binary("ADD", ctx.binary("MUL", near, 2 / math.pi), rest)
    found = _where(ctx, ctx.binary("LESS", wide, 8.0), near, _turning(ctx, wide, order, True))
    return ctx.cast(_ends(ctx, wide, found, -math.inf), kind)


def _ends(ctx: TorchBuilder, x: Value, found: Value, at_zero: float) -> Value:
    found = _where(ctx, ctx.binary("EQUAL", x, 0.0), at_zero, found)
    return _missing(ctx, x, _where(ctx, ctx.binary("LESS", x, 0.0), math.nan, found))


@aten(
    "special_modified_bessel_k0", "special_modified_bessel_k1", "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1",
)  # fmt: skip
def modified_second_kind(ctx: TorchBuilder, x: Value) -> Value:
    """Infinite at 0, NaN below; ``scaled`` by ``exp(x)``."""
    order, scaled = int(ctx.name[-1]), "scaled" in ctx.name
    wide, kind = _wide(ctx, x)
    inside, outside = ctx.binary("MINIMUM", ctx.unary("ABS", wide), 2.0), ctx.binary("MAXIMUM", wide, 2.0)
    u = ctx.binary("SUB", ctx.binary("MUL", ctx.unary("SQUARE", inside), 0.5), 1.0)
    near = polynomial(ctx, u, tables.K1_NEAR if order else tables.K0_NEAR)
    first = ctx.binary("MUL", _scaled(ctx, inside, order), ctx.unary("EXP", inside))
    logarithmic = ctx.binary("MUL", _logarithm(ctx, inside), first)
    if order:
        near = ctx.binary("ADD", ctx.binary("MUL", near, inside), ctx.unary("RECIPROCAL", inside))
        near = ctx.binary("ADD", near, logarithmic)
    else:
        near = ctx.binary("SUB", near, logarithmic)
    far = polynomial(ctx, ctx.binary("SUB", _over(ctx, 4.0, outside), 1.0), tables.K1_FAR if order else tables.K0_FAR)
    far = ctx.binary("REALDIV", far, ctx.unary("SQRT", outside))
    if scaled:
        near = ctx.binary("MUL", near, ctx.unary("EXP", inside))
    else:
        far = ctx.binary("MUL", far, ctx.unary("EXP", ctx.unary("NEG", outside)))
    found = _where(ctx, ctx.binary("LESS_EQUAL", wide, 2.0), near, far)
    return ctx.cast(_ends(ctx, wide, found, math.inf), kind)


@aten("special_spherical_bessel_j0")
def spherical(ctx: TorchBuilder, x: Value) -> Value:
    """``sin(x) / x``."""
    wide, kind = _wide(ctx, x)
    zero = ctx.binary("LESS", ctx.unary("ABS", wide), 1e-12)
    safe = _where(ctx, zero, 1.0, wide)
    found = _where(ctx, zero, 1.0, ctx.binary("REALDIV", ctx.unary("SIN", safe), safe))
    return ctx.cast(_where(ctx, ctx.binary("EQUAL", ctx.unary("ABS", wide), math.inf), 0.0, found), kind)
