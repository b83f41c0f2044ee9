"""Arithmetic of two operands, with PyTorch's type promotion."""

from __future__ import annotations

import math

from MNN.frontends.torch.builder import Operand, TorchBuilder
from MNN.frontends.torch.numbers import Number, Scalar
from MNN.frontends.torch.registry import apply, aten, in_f32
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def scaled(ctx: TorchBuilder, y: Operand, alpha: Scalar, dtype: DType) -> Value:
    """``alpha * y`` in this type."""
    found = ctx.operand(y, dtype)
    if not isinstance(alpha, Number) and alpha == 1:
        return found
    return ctx.op("BinaryOp", found, ctx.scalar(alpha, dtype), opType="MUL")


@aten("add", "_add", "__add__", "__iadd__")
def add(ctx: TorchBuilder, x: Operand, y: Operand, alpha: Scalar = 1) -> Value:
    dtype = ctx.common(x, y)
    left, right = ctx.operand(x, dtype), scaled(ctx, y, alpha, dtype)
    return ctx.op("BinaryOp", left, right, opType="LOGICALOR" if dtype is DType.BOOL else "ADD")


@aten("sub", "subtract", "__sub__")
def sub(ctx: TorchBuilder, x: Operand, y: Operand, alpha: Scalar = 1) -> Value:
    dtype = ctx.common(x, y)
    return ctx.op("BinaryOp", ctx.operand(x, dtype), scaled(ctx, y, alpha, dtype), opType="SUB")


@aten("rsub", "__rsub__")
def rsub(ctx: TorchBuilder, x: Operand, y: Operand, alpha: Scalar = 1) -> Value:
    return sub(ctx, y, x, alpha)


@aten("mul", "multiply", "__mul__")
def mul(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    return ctx.binary("MUL", x, y)


@aten("div", "divide", "true_divide", "__div__")
def div(ctx: TorchBuilder, x: Operand, y: Operand, rounding_mode: str | None = None) -> Value:
    """Integers are divided as floats, unless the quotient is rounded."""
    dtype = ctx.common(x, y)
    if rounding_mode == "floor":
        return floor_divide(ctx, x, y)
    if rounding_mode == "trunc" and not dtype.is_float:
        left, right = ctx.operand(x, dtype), ctx.operand(y, dtype)
        rest = ctx.op("Remainder", left, right)
        return ctx.op("BinaryOp", ctx.op("BinaryOp", left, rest, opType="SUB"), right, opType="DIV")
    if not dtype.is_float:
        dtype = DType.F32
    out = ctx.op("BinaryOp", ctx.operand(x, dtype), ctx.operand(y, dtype), opType="REALDIV")
    return truncated(ctx, out) if rounding_mode == "trunc" else out


def truncated(ctx: TorchBuilder, x: Value) -> Value:
    """Rounded towards zero."""
    if not ctx.type_of(x).is_float:
        return x
    negative = ctx.op("BinaryOp", x, ctx.const_like(0, x), opType="LESS")
    return ctx.op("Select", negative, ctx.unary("CEIL", x), ctx.unary("FLOOR", x))


@aten("floor_divide", "__floordiv__", "floordiv")
def floor_divide(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    left, right = ctx.together(x, y)
    if ctx.type_of(left).is_float:  # the exact quotient, as C's fmod gives what is left over
        rest = fmod(ctx, left, right)
        exact = ctx.op("BinaryOp", ctx.op("BinaryOp", left, rest, opType="SUB"), right, opType="REALDIV")
        opposite = ctx.op("BinaryOp", *(_below_zero(ctx, v) for v in (rest, right)), opType="LOGICALXOR")
        short = ctx.op("BinaryOp", opposite, ctx.binary("NOTEQUAL", rest, 0), opType="MUL")
        whole = ctx.op("BinaryOp", ctx.unary("ROUND", exact), ctx.cast(short, ctx.type_of(left)), opType="SUB")
        plain = ctx.op("BinaryOp", left, right, opType="REALDIV")
        zero = ctx.op("BinaryOp", right, ctx.const_like(0, right), opType="EQUAL")
        return ctx.op("Select", zero, plain, whole)
    return ctx.op("BinaryOp", left, right, opType="FLOORDIV")


def _below_zero(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("BinaryOp", x, ctx.const_like(0, x), opType="LESS")


@aten("remainder", "__mod__")
def remainder(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    """With the divisor's sign."""
    left, right = ctx.together(x, y)
    return ctx.op("BinaryOp", left, right, opType="FLOORMOD" if ctx.type_of(left).is_float else "MOD")


@aten("fmod")
def fmod(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    """With the dividend's sign."""
    left, right = ctx.together(x, y)
    if ctx.type_of(left).is_float:
        return ctx.op("BinaryOp", left, right, opType="MOD")
    return ctx.op("Remainder", left, right)


@aten("pow", "__pow__")
def power(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    if isinstance(x, Value) and isinstance(y, (int, float)) and ctx.common(x, y) is x.dtype:
        if y == 1:
            return ctx.op("Identity", x)
        if y == 2:
            return ctx.unary("SQUARE", x)
        if y == 0.5 and ctx.type_of(x).is_float:
            return ctx.unary("SQRT", x)
        if y == -1 and ctx.type_of(x).is_float:
            return ctx.unary("RECIPROCAL", x)
        if y == -0.5 and ctx.type_of(x).is_float:
            return ctx.unary("RSQRT", x)
    return ctx.binary("POW", x, y)


@aten("float_power")
def float_power(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    """In f64, whatever the operands are."""
    return power(ctx, ctx.operand(x, DType.F64), ctx.operand(y, DType.F64))


@aten("gcd", "lcm")
def common_divisor(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    """The greatest common divisor; the least common multiple, which is 0 of 0."""
    name, (left, right) = ctx.name, ctx.together(x, y)
    divisor = ctx.op("GreatestCommonDivisor", left, right)
    divisor.dtype = ctx.type_of(left)
    if name == "gcd":
        return divisor
    share = ctx.op("BinaryOp", left, ctx.binary("MAXIMUM", divisor, 1), opType="DIV")
    return ctx.unary("ABS", ctx.binary("MUL", share, right))


@aten("maximum")
def maximum(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    return ctx.binary("LOGICALOR" if ctx.common(x, y) is DType.BOOL else "MAXIMUM", x, y)


@aten("minimum")
def minimum(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    return ctx.binary("MUL" if ctx.common(x, y) is DType.BOOL else "MINIMUM", x, y)


@aten("fmax", "fmin")
def number_of_both(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    """The larger (smaller) one; the other one where one is not a number."""
    largest = ctx.name == "fmax"
    left, right = ctx.together(x, y)
    if not ctx.type_of(left).is_float:
        return maximum(ctx, left, right) if largest else minimum(ctx, left, right)
    first = ctx.op("BinaryOp", left, right, opType="GREATER_EQUAL" if largest else "LESS_EQUAL")
    return ctx.op("Select", ctx.op("IsNaN", right), left, ctx.op("Select", first, left, right))


@aten("atan2", "arctan2")
def atan2(ctx: TorchBuilder, y: Operand, x: Operand) -> Value:
    up, right = ctx.together(y, x)
    return ctx.op("BinaryOp", ctx.as_float(up), ctx.as_float(right), opType="ATAN2")


@aten("hypot")
def hypot(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    """Scaled by the larger one, so that squares neither overflow nor vanish."""
    left, right = ctx.together(x, y)
    first = ctx.op("BinaryOp", ctx.unary("ABS", left), ctx.unary("ABS", right), opType="GREATER")
    largest, smallest = ctx.op("Select", first, left, right), ctx.op("Select", first, right, left)
    size = ctx.unary("ABS", largest)
    ends = apply(ctx, "logical_or", [ctx.binary("EQUAL", size, 0), ctx.binary("EQUAL", size, math.inf)], {})
    ratio = ctx.op("BinaryOp", smallest, ctx.op("Select", ends, ctx.const_like(1, size), largest), opType="REALDIV")
    root = ctx.unary("SQRT", ctx.binary("ADD", ctx.unary("SQUARE", ratio), 1))
    endless = ctx.op("BinaryOp", *(ctx.op("IsInf", v) for v in (left, right)), opType="LOGICALOR")
    out = ctx.op("BinaryOp", size, root, opType="MUL")
    return ctx.op("Select", endless, ctx.const_like(math.inf, out), out)  # beside NaN, too


@aten("copysign")
def copysign(ctx: TorchBuilder, x: Value, y: Operand) -> Value:
    left, right = ctx.together(x, y)
    left, right = ctx.as_float(left), ctx.as_float(right)
    size = ctx.unary("ABS", left)
    # zero has a sign too, which only its reciprocal shows
    zero = ctx.op("BinaryOp", right, ctx.const_like(0, right), opType="EQUAL")
    shown = ctx.op("Select", zero, ctx.unary("RECIPROCAL", right), right)
    negative = ctx.op("BinaryOp", shown, ctx.const_like(0, right), opType="LESS")
    return ctx.op("Select", negative, ctx.unary("NEG", size), size)


@aten("xlogy")
def xlogy(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    left, right = (ctx.as_float(v) for v in ctx.together(x, y))
    # the logarithm of 1 where it would be infinite or none, but not wherever ``x`` is 0: it is the slope there
    inside = apply(ctx, "logical_and", [ctx.binary("GREATER", right, 0), ctx.binary("LESS", right, math.inf)], {})
    odd = apply(ctx, "logical_or", [inside, ctx.op("IsNaN", right)], {})
    spared = apply(ctx, "logical_and", [ctx.binary("EQUAL", left, 0), apply(ctx, "logical_not", [odd], {})], {})
    logarithm = ctx.unary("LOG", ctx.op("Select", spared, ctx.const_like(1, right), right))
    return ctx.op("BinaryOp", left, logarithm, opType="MUL")


@aten("logaddexp")
def logaddexp(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    left, right = ctx.together(x, y)
    same = ctx.op("BinaryOp", left, right, opType="EQUAL")  # infinities have no difference
    endless = apply(ctx, "logical_and", [same, ctx.binary("EQUAL", ctx.unary("ABS", left), math.inf)], {})
    first = ctx.op("BinaryOp", left, right, opType="GREATER")
    largest, smallest = ctx.op("Select", first, left, right), ctx.op("Select", first, right, left)
    nothing = ctx.const_like(0, left)
    low, high = (ctx.op("Select", endless, nothing, v) for v in (smallest, largest))
    tail = ctx.unary("LOG1P", ctx.unary("EXP", ctx.op("BinaryOp", low, high, opType="SUB")))
    return ctx.op("BinaryOp", largest, tail, opType="ADD")


@aten("logaddexp2")
def logaddexp2(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    two = math.log(2.0)
    return ctx.binary("MUL", logaddexp(ctx, ctx.binary("MUL", x, two), ctx.binary("MUL", y, two)), 1 / two)


@aten("ldexp")
def ldexp(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    left = ctx.as_float(x)
    power_of_two = ctx.binary("POW", ctx.const_like(2, left), ctx.cast(y, ctx.type_of(left)))
    return ctx.binary("MUL", left, power_of_two)


@aten("special_xlog1py")
def xlog1py(ctx: TorchBuilder, x: Operand, y: Operand) -> Value:
    left, right = (ctx.as_float(v) for v in ctx.together(x, y))
    product = ctx.binary("MUL", left, ctx.unary("LOG1P", right))
    missing = apply(ctx, "isnan", [right], {})
    clean = apply(ctx, "where", [ctx.binary("EQUAL", left, 0), ctx.const_like(0, left), product], {})
    return apply(ctx, "where", [missing, right, clean], {})  # type: ignore[no-any-return]


@aten("addcmul")
@in_f32
def addcmul(ctx: TorchBuilder, x: Value, a: Value, b: Value, value: Scalar = 1) -> Value:
    dtype = ctx.common(x, a, b)
    product = ctx.op("BinaryOp", scaled(ctx, a, value, dtype), ctx.cast(b, dtype), opType="MUL")
    return ctx.op("BinaryOp", ctx.cast(x, dtype), product, opType="ADD")


@aten("addcdiv")
@in_f32
def addcdiv(ctx: TorchBuilder, x: Value, a: Value, b: Value, value: Scalar = 1) -> Value:
    dtype = ctx.common(x, a, b)
    top = scaled(ctx, a, value, dtype)
    return ctx.op(
        "BinaryOp", ctx.cast(x, dtype), ctx.op("BinaryOp", top, ctx.cast(b, dtype), opType="REALDIV"), opType="ADD"
    )


@aten("lerp")
@in_f32
def lerp(ctx: TorchBuilder, start: Value, end: Value, weight: Operand) -> Value:
    apart = ctx.binary("SUB", end, start)
    return ctx.binary("ADD", start, ctx.binary("MUL", apart, weight))


@aten("square")
def square(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.unary("SQUARE", ctx.cast(x, DType.I64) if x.dtype is DType.BOOL else x)
