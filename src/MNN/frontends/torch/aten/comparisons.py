"""Comparisons, logic, bits, and choice."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.common.expressions import clamp as limited
from MNN.frontends.torch.builder import Operand, TorchBuilder
from MNN.frontends.torch.numbers import Number, Scalar
from MNN.frontends.torch.registry import Handler, apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_COMPARED = {
    "EQUAL": ("eq", "__eq__"), "NOTEQUAL": ("ne", "not_equal", "__ne__"), "GREATER": ("gt", "greater", "__gt__"),
    "GREATER_EQUAL": ("ge", "greater_equal", "__ge__"), "LESS": ("lt", "less", "__lt__"),
    "LESS_EQUAL": ("le", "less_equal", "__le__"),
}  # fmt: skip
_BITS = {
    "BITWISE_AND": ("bitwise_and", "__and__", "__iand__"), "BITWISE_OR": ("bitwise_or", "__or__", "__ior__"),
    "BITWISE_XOR": ("bitwise_xor", "__xor__", "__ixor__"),
}  # fmt: skip
_LOGIC = {"logical_and": "MUL", "logical_or": "LOGICALOR", "logical_xor": "LOGICALXOR"}
OF_TRUTHS = {"BITWISE_AND": "MUL", "BITWISE_OR": "LOGICALOR", "BITWISE_XOR": "LOGICALXOR"}


def _compared(kind: str) -> Handler:
    def handler(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
        left, right = ctx.together(x, y)
        if left.dtype is DType.BOOL:
            left, right = ctx.cast(left, DType.I32), ctx.cast(right, DType.I32)
        return ctx.op("BinaryOp", left, right, opType=kind)

    return handler


def _bits(kind: str) -> Handler:
    def handler(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
        left, right = ctx.together(x, y)
        return ctx.op("BinaryOp", left, right, opType=OF_TRUTHS[kind] if left.dtype is DType.BOOL else kind)

    return handler


def _logic(kind: str) -> Handler:
    def handler(ctx: TorchBuilder, x: Value, y: Value) -> Value:
        return ctx.op("BinaryOp", ctx.not_zero(x), ctx.not_zero(y), opType=kind)

    return handler


for _kind, _names in _COMPARED.items():
    aten(*_names)(_compared(_kind))
for _kind, _names in _BITS.items():
    aten(*_names)(_bits(_kind))
for _name, _kind in _LOGIC.items():
    aten(_name)(_logic(_kind))


@aten("logical_not", "__not__")
def logical_not(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("Not", ctx.not_zero(x))


@aten("bitwise_not")
def bitwise_not(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("Not" if x.dtype is DType.BOOL else "BitwiseNot", x)


@aten("bitwise_left_shift", "__lshift__")
def left_shift(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    return ctx.binary("LEFTSHIFT", x, y)


@aten("bitwise_right_shift", "__rshift__")
def right_shift(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    return ctx.binary("RIGHTSHIFT", x, y)


@aten("isnan")
def isnan(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("IsNaN", ctx.as_float(x))


@aten("isinf")
def isinf(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("IsInf", ctx.as_float(x))


@aten("isposinf")
def isposinf(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("IsInf", ctx.as_float(x), detectNegative=False)


@aten("isneginf")
def isneginf(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("IsInf", ctx.as_float(x), detectPositive=False)


@aten("isreal")
def isreal(ctx: TorchBuilder, x: Value) -> Value:
    """True of every real number."""
    return apply(ctx, "full_like", [x, True], {"dtype": DType.BOOL})  # type: ignore[no-any-return]


@aten("isfinite")
def isfinite(ctx: TorchBuilder, x: Value) -> Value:
    wide = ctx.as_float(x)
    return ctx.op("Not", ctx.op("BinaryOp", ctx.op("IsNaN", wide), ctx.op("IsInf", wide), opType="LOGICALOR"))


@aten("isclose")
def isclose(
    ctx: TorchBuilder, x: Value, y: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Value:
    left, right = ctx.together(x, y)
    left, right = ctx.as_float(left), ctx.as_float(right)
    apart = ctx.unary("ABS", ctx.op("BinaryOp", left, right, opType="SUB"))
    allowed = ctx.binary("ADD", ctx.binary("MUL", ctx.unary("ABS", right), rtol), atol)
    near = ctx.op("BinaryOp", apart, allowed, opType="LESS_EQUAL")
    near = ctx.op("BinaryOp", near, isfinite(ctx, right), opType="MUL")
    near = ctx.op("BinaryOp", near, ctx.op("BinaryOp", left, right, opType="EQUAL"), opType="LOGICALOR")
    if equal_nan:
        both = ctx.op("BinaryOp", ctx.op("IsNaN", left), ctx.op("IsNaN", right), opType="MUL")
        near = ctx.op("BinaryOp", near, both, opType="LOGICALOR")
    return near


@aten("allclose")
def allclose(
    ctx: TorchBuilder, x: Value, y: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Number:
    return Number(apply(ctx, "all", [isclose(ctx, x, y, rtol, atol, equal_nan)], {}))


@aten("_is_all_true", "_is_any_true")
def truth_of_all(ctx: TorchBuilder, x: Value) -> Value:
    return apply(ctx, "all" if ctx.name == "_is_all_true" else "any", [x], {})  # type: ignore[no-any-return]


@aten("where")
def where(
    ctx: TorchBuilder, condition: Value, x: Operand | None = None, y: Operand | None = None
) -> Value | list[Value]:
    if x is None or y is None:
        places = ctx.op("Where", condition, outputDataType="DT_INT64")
        return [
            ctx.squeeze(v, 1) for v in ctx.emit("Slice", [places], ctx.rank_of(condition), axis=1, sourceType="TORCH")
        ]
    left, right = ctx.together(x, y)
    return ctx.op("Select", ctx.not_zero(condition), left, right)


@aten("clamp", "clip")
def clamp(ctx: TorchBuilder, x: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    dtype = ctx.common(x, min, max)
    out = ctx.cast(x, dtype)
    low, high = -math.inf if min is None else min, math.inf if max is None else max
    if dtype is DType.F32 and isinstance(low, (int, float)) and isinstance(high, (int, float)) and low <= high:
        return limited(ctx, out, float(low), float(high), slope_at_bounds=1.0)
    for limit, kind, beyond in ((min, "MAXIMUM", "LESS"), (max, "MINIMUM", "GREATER")):
        if limit is None:
            continue
        bound = ctx.operand(limit, dtype)
        if dtype.is_float:  # not the maximum, which shares its slope with the bound where both are equal
            outside, known = ctx.op("BinaryOp", out, bound, opType=beyond), ctx.constant(bound)
            if known is None or np.isnan(known).any():
                outside = ctx.op("BinaryOp", outside, ctx.op("IsNaN", bound), opType="LOGICALOR")
            out = ctx.op("Select", outside, bound, out)
        else:
            out = ctx.op("BinaryOp", out, bound, opType=kind)
    return out


@aten("clamp_min")
def clamp_min(ctx: TorchBuilder, x: Value, min: Operand) -> Value:
    return clamp(ctx, x, min=min)


@aten("clamp_max")
def clamp_max(ctx: TorchBuilder, x: Value, max: Operand) -> Value:
    return clamp(ctx, x, max=max)


@aten("nan_to_num")
def nan_to_num(
    ctx: TorchBuilder, x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    dtype = ctx.type_of(x)
    if not dtype.is_float:
        return ctx.op("Identity", x)
    most = {DType.F16: 65504.0, DType.BF16: 3.3895313892515355e38, DType.F64: float(np.finfo(np.float64).max)}
    limit = most.get(dtype, float(np.finfo(np.float32).max))
    out = ctx.op("Select", ctx.op("IsNaN", x), ctx.scalar(nan or 0.0, dtype), x)
    for name, given, sign in (("detectNegative", posinf, 1), ("detectPositive", neginf, -1)):
        found = ctx.op("IsInf", x, **{name: False})
        out = ctx.op("Select", found, ctx.scalar(sign * limit if given is None else given, dtype), out)
    return out


@aten("masked_fill")
def masked_fill(ctx: TorchBuilder, x: Value, mask: Value, value: Operand) -> Value:
    """The tensor keeps its type."""
    dtype = ctx.type_of(x)
    return ctx.op("Select", ctx.not_zero(mask), ctx.operand(value, dtype), x)


@aten("heaviside")
def heaviside(ctx: TorchBuilder, x: Value, values: Value) -> Value:
    zero = ctx.op("BinaryOp", x, ctx.const_like(0, x), opType="EQUAL")
    above = ctx.cast(ctx.op("BinaryOp", x, ctx.const_like(0, x), opType="GREATER"), ctx.type_of(x))
    return ctx.op("Select", zero, ctx.cast(values, ctx.type_of(x)), above)


@aten("equal")
def equal(ctx: TorchBuilder, x: Value, y: Value) -> Number:
    same = ctx.cast(_compared("EQUAL")(ctx, x, y), DType.I32)
    return Number(ctx.cast(ctx.op("Reduction", same, operation="MINIMUM"), DType.BOOL))


def number(ctx: TorchBuilder, x: Scalar) -> Value:
    """A number as a tensor of rank 0 in its own type."""
    return ctx.scalar(x, ctx.common(x))
