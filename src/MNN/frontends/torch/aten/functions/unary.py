"""Functions of single numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from MNN.frontends.torch.aten.arithmetic import truncated
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import Handler, apply, aten, in_f32
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_FLOAT = {
    "acos": "ACOS", "acosh": "ACOSH", "asin": "ASIN", "asinh": "ASINH", "atan": "ATAN", "atanh": "ATANH", "cos": "COS",
    "cosh": "COSH", "erf": "ERF", "special_erf": "ERF", "erfc": "ERFC", "special_erfc": "ERFC", "erfinv": "ERFINV",
    "exp": "EXP", "expm1": "EXPM1", "log": "LOG", "log1p": "LOG1P", "reciprocal": "RECIPROCAL", "rsqrt": "RSQRT",
    "sin": "SIN", "sinh": "SINH", "sqrt": "SQRT", "tan": "TAN", "arccos": "ACOS", "arcsin": "ASIN", "arctan": "ATAN",
    "special_expm1": "EXPM1", "special_log1p": "LOG1P", "arccosh": "ACOSH", "arcsinh": "ASINH", "arctanh": "ATANH",
}  # fmt: skip
"""Of integers, these are functions of floats."""
_KEPT = {"abs": "ABS", "neg": "NEG", "negative": "NEG", "absolute": "ABS"}
_ROUNDED = {"floor": "FLOOR", "ceil": "CEIL"}


def _of_floats(kind: str) -> Handler:
    def handler(ctx: TorchBuilder, x: Value) -> Value:
        return ctx.unary(kind, ctx.as_float(x))

    return handler


def _kept(kind: str) -> Handler:
    def handler(ctx: TorchBuilder, x: Value) -> Value:
        return ctx.op("Identity", x) if x.dtype is DType.BOOL else ctx.unary(kind, x)

    return handler


def _rounded(kind: str) -> Handler:
    def handler(ctx: TorchBuilder, x: Value) -> Value:
        return ctx.unary(kind, x) if ctx.type_of(x).is_float else ctx.op("Identity", x)

    return handler


for _name, _kind in _FLOAT.items():
    aten(_name)(_of_floats(_kind))
for _name, _kind in _KEPT.items():
    aten(_name)(_kept(_kind))
for _name, _kind in _ROUNDED.items():
    aten(_name)(_rounded(_kind))


@aten("sign", "sgn")
def sign(ctx: TorchBuilder, x: Value) -> Value:
    """0 of NaN, as PyTorch has it."""
    if x.dtype is DType.BOOL:
        return ctx.op("Identity", x)
    out = ctx.unary("SIGN", x)
    if not ctx.type_of(x).is_float:
        return out
    return ctx.op("Select", ctx.op("IsNaN", x), ctx.const_like(0, x), out)


@aten("trunc", "fix")
def trunc(ctx: TorchBuilder, x: Value) -> Value:
    return truncated(ctx, x) if ctx.type_of(x).is_float else ctx.op("Identity", x)


@aten("frac")
def frac(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("BinaryOp", x, truncated(ctx, x), opType="SUB")


@aten("round")
def rounded(ctx: TorchBuilder, x: Value, decimals: int = 0) -> Value:
    if not ctx.type_of(x).is_float:
        return ctx.op("Identity", x)
    if decimals == 0:
        return ctx.unary("ROUND", x)
    factor = 10.0 ** abs(decimals)
    there, back = ("MUL", "REALDIV") if decimals > 0 else ("REALDIV", "MUL")
    return ctx.binary(back, ctx.unary("ROUND", ctx.binary(there, x, factor)), factor)


@aten("exp2", "special_exp2")
def exp2(ctx: TorchBuilder, x: Value) -> Value:
    wide = ctx.as_float(x)
    return ctx.op("BinaryOp", ctx.const_like(2, wide), wide, opType="POW")


@aten("log2", "log10")
@in_f32
def logarithm(ctx: TorchBuilder, x: Value) -> Value:
    """Of powers of the base exactly what they are powers of, as programs take the whole part of it: f32 is computed in
    f64, whose rounding is lost; f64 is compared with the power."""
    base = 2 if ctx.name == "log2" else 10
    kind = ctx.type_of(ctx.as_float(x))
    wide = ctx.cast(x, DType.F64)
    out = ctx.binary("MUL", ctx.unary("LOG", wide), 1 / math.log(base))
    if kind is DType.F64:
        least, most = (-1022, 1023) if base == 2 else (-307, 308)
        powers = ctx.const(np.array([float(Fraction(base) ** n) for n in range(least, most + 1)]))
        whole = apply(ctx, "clamp", [ctx.unary("ROUND", out), least, most], {})
        place = apply(ctx, "where", [ctx.op("IsNaN", out), 0, ctx.cast(ctx.binary("SUB", whole, least), DType.I64)], {})
        power = ctx.op("GatherV2", powers, place, ctx.const(np.int32(0)))
        out = ctx.op("Select", ctx.op("BinaryOp", power, wide, opType="EQUAL"), whole, out)
    return ctx.cast(out, kind)


@aten("deg2rad")
def deg2rad(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.binary("MUL", ctx.as_float(x), math.pi / 180)


@aten("rad2deg")
def rad2deg(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.binary("MUL", ctx.as_float(x), 180 / math.pi)


@aten("signbit")
def signbit(ctx: TorchBuilder, x: Value) -> Value:
    if not ctx.type_of(x).is_float:
        wide = ctx.cast(x, DType.I32) if x.dtype is DType.BOOL else x
        return ctx.op("BinaryOp", wide, ctx.const_like(0, wide), opType="LESS")
    zero = ctx.op("BinaryOp", x, ctx.const_like(0, x), opType="EQUAL")
    shown = ctx.op("Select", zero, ctx.unary("RECIPROCAL", x), x)
    return ctx.op("BinaryOp", shown, ctx.const_like(0, x), opType="LESS")


@aten("logit", "special_logit")
def logit(ctx: TorchBuilder, x: Value, eps: float | None = None) -> Value:
    wide = ctx.as_float(x)
    if eps is not None:
        wide = ctx.op("BinaryOp", wide, ctx.const_like(eps, wide), opType="MAXIMUM")
        wide = ctx.op("BinaryOp", wide, ctx.const_like(1 - eps, wide), opType="MINIMUM")
    rest = ctx.op("BinaryOp", ctx.const_like(1, wide), wide, opType="SUB")
    return ctx.unary("LOG", ctx.op("BinaryOp", wide, rest, opType="REALDIV"))


@aten("sinc", "special_sinc")
@in_f32
def sinc(ctx: TorchBuilder, x: Value) -> Value:
    turned = ctx.binary("MUL", ctx.as_float(x), math.pi)
    zero = ctx.op("BinaryOp", turned, ctx.const_like(0, turned), opType="EQUAL")
    safe = ctx.op("Select", zero, ctx.const_like(1, turned), turned)
    return ctx.op(
        "Select", zero, ctx.const_like(1, turned), ctx.op("BinaryOp", ctx.unary("SIN", safe), safe, opType="REALDIV")
    )


@aten("special_entr")
def entropy(ctx: TorchBuilder, x: Value) -> Value:
    """``-x log x``, 0 of 0 and minus infinity below."""
    wide = ctx.as_float(x)
    out = ctx.unary("NEG", ctx.binary("MUL", wide, ctx.unary("LOG", wide)))
    out = apply(ctx, "where", [ctx.binary("EQUAL", wide, 0), 0.0, out], {})
    return apply(ctx, "where", [ctx.binary("LESS", wide, 0), -math.inf, out], {})  # type: ignore[no-any-return]


@aten("special_ndtr")
def normal_distribution(ctx: TorchBuilder, x: Value) -> Value:
    """How much of a normal distribution lies below."""
    wide = ctx.binary("MUL", ctx.as_float(x), -math.sqrt(0.5))
    return ctx.binary("MUL", ctx.unary("ERFC", wide), 0.5)
