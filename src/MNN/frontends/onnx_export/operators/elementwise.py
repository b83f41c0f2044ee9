"""Elementwise operators and activations."""

from __future__ import annotations

import numpy as np

from MNN.frontends.onnx_export.exporter import CODES, Exporter, exports
from MNN.frontends.onnx_export.operators.normalization import per_channel
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value

_UNARY = {
    "ABS": "Abs", "NEG": "Neg", "FLOOR": "Floor", "CEIL": "Ceil", "SQRT": "Sqrt", "EXP": "Exp", "LOG": "Log",
    "SIN": "Sin", "COS": "Cos", "TAN": "Tan", "ASIN": "Asin", "ACOS": "Acos", "ATAN": "Atan",
    "RECIPROCAL": "Reciprocal", "BNLL": "Softplus", "ACOSH": "Acosh", "SINH": "Sinh", "ASINH": "Asinh",
    "ATANH": "Atanh", "SIGN": "Sign", "ROUND": "Round", "COSH": "Cosh", "ERF": "Erf", "SIGMOID": "Sigmoid",
    "TANH": "Tanh", "HARDSWISH": "HardSwish",
}  # fmt: skip
_BINARY = {
    "ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "REALDIV": "Div", "MAX_TEMP": "Max", "MIN_TEMP": "Min",
    "POW": "Pow", "MINIMUM": "Min", "MAXIMUM": "Max", "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less", "LESS_EQUAL": "LessOrEqual", "EQUAL": "Equal", "BITWISE_AND": "BitwiseAnd",
    "BITWISE_OR": "BitwiseOr", "BITWISE_XOR": "BitwiseXor",
}  # fmt: skip
_SAME = {
    "Sigmoid": "Sigmoid", "TanH": "Tanh", "Bnll": "Softplus", "AbsVal": "Abs", "IsNaN": "IsNaN",
    "BitwiseNot": "BitwiseNot", "Identity": "Identity", "Copy": "Identity", "Dropout": "Identity", "Det": "Det",
    "KeptAxes": "Identity", "SizeConditions": "Identity",
}  # fmt: skip


@exports(*_SAME)
def same(e: Exporter, node: Node) -> str:
    return e.op(_SAME[node.op], e.input(node, 0))


@exports("UnaryOp")
def unary(e: Exporter, node: Node) -> str:
    kind, value = e.text(node, "opType"), e.required(node, 0)
    x = e.name(value)
    if kind in ("FLOOR", "CEIL", "ROUND") and value.dtype is not None and not value.dtype.is_float:
        return e.op("Identity", x)
    if kind in _UNARY:
        return e.op(_UNARY[kind], x)
    if kind == "SQUARE":
        return e.op("Mul", x, x)
    if kind == "RSQRT":
        return e.op("Reciprocal", e.op("Sqrt", x))
    if kind == "ERFC":
        return e.op("Sub", e.like(1, value), e.op("Erf", x))
    if kind == "SILU":
        return e.op("Mul", x, e.op("Sigmoid", x))
    if kind in ("GELU", "GELU_STANDARD"):
        return e.op("Gelu", x, approximate="tanh" if kind == "GELU" else "none")
    if kind == "LOG1P":
        return _log1p(e, x, value)
    if kind == "EXPM1":
        return _expm1(e, x, value)
    raise e.unsupported(node, f"operator {kind}")


def _log1p(e: Exporter, x: str, like: Value) -> str:
    """``x * log(1 + x) / ((1 + x) - 1)``, which loses nothing for small numbers (Kahan)."""
    one = e.like(1, like)
    whole = e.op("Add", x, one)
    back = e.op("Sub", whole, one)
    exact = e.op("Div", e.op("Mul", x, e.op("Log", whole)), back)
    plain = e.op("Or", e.op("Equal", back, e.like(0, like)), e.op("IsInf", whole))
    small = e.op("Where", e.op("IsInf", whole), whole, x)
    return e.op("Where", plain, small, exact)


def _expm1(e: Exporter, x: str, like: Value) -> str:
    """``2 sinh(x / 2) exp(x / 2)``, which loses nothing for small numbers."""
    half = e.op("Mul", x, e.like(0.5, like))
    product = e.op("Mul", e.op("Mul", e.op("Sinh", half), e.op("Exp", half)), e.like(2, like))
    low = e.op("Less", x, e.like(-30, like))
    return e.op("Where", low, e.like(-1, like), product)


@exports("BinaryOp")
def binary(e: Exporter, node: Node) -> str:
    kind, a, b = e.text(node, "opType"), e.required(node, 0), e.required(node, 1)
    x, y = e.name(a), e.name(b)
    out = _two(e, node, kind, a, x, y)
    return e.op("Relu", out) if e.integer(node, "activationType") == 1 else out


def _two(e: Exporter, node: Node, kind: str, a: Value, x: str, y: str) -> str:
    boolean, integer = a.dtype is DType.BOOL, a.dtype is not None and a.dtype.is_int
    if boolean and kind in ("MUL", "MINIMUM", "BITWISE_AND", "MIN_TEMP"):
        return e.op("And", x, y)
    if boolean and kind in ("ADD", "MAXIMUM", "BITWISE_OR", "MAX_TEMP", "LOGICALOR"):
        return e.op("Or", x, y)
    if boolean and kind in ("BITWISE_XOR", "LOGICALXOR", "NOTEQUAL"):
        return e.op("Xor", x, y)
    if kind in _BINARY:
        return e.op(_BINARY[kind], x, y)
    if kind == "NOTEQUAL":
        return e.op("Not", e.op("Equal", x, y))
    if kind in ("LOGICALOR", "LOGICALXOR"):
        parts = (e.cast(v, DType.BOOL) for v in (x, y))
        return e.cast(e.op("Or" if kind == "LOGICALOR" else "Xor", *parts), e.dtype(a))
    if kind == "SquaredDifference":
        d = e.op("Sub", x, y)
        return e.op("Mul", d, d)
    if kind == "MUL_SILU":
        return e.op("Mul", x, e.op("Mul", y, e.op("Sigmoid", y)))
    if kind in ("LEFTSHIFT", "RIGHTSHIFT"):
        return _shift(e, node, a, x, y, kind.removesuffix("SHIFT"))
    if kind == "MOD":
        return e.op("Mod", x, y, fmod=0 if integer else 1)
    if kind == "FLOORMOD":
        return e.op("Mod", x, y) if integer else _floor_mod(e, a, x, y)
    if kind == "FLOORDIV":
        if not integer:
            return e.op("Floor", e.op("Div", x, y))
        return e.op("Div", e.op("Sub", x, e.op("Mod", x, y)), y)
    if kind == "ATAN2":
        return _atan2(e, a, x, y)
    raise e.unsupported(node, f"operator {kind} on {a.dtype.value if a.dtype else 'this type'}")


def _floor_mod(e: Exporter, like: Value, x: str, y: str) -> str:
    """The remainder with the divisor's sign, from the one with the dividend's."""
    zero = e.like(0, like)
    rest = e.op("Mod", x, y, fmod=1)
    other = e.op("Xor", e.op("Less", rest, zero), e.op("Less", y, zero))
    moved = e.op("And", other, e.op("Not", e.op("Equal", rest, zero)))
    return e.op("Where", moved, e.op("Add", rest, y), rest)


_UNSIGNED = {DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64}


def _shift(e: Exporter, node: Node, like: Value, x: str, y: str, direction: str) -> str:
    """ONNX shifts unsigned numbers only; of negative ones, all bits are turned before and after."""
    dtype = e.dtype(like)
    if dtype.is_unsigned:
        return e.op("BitShift", x, y, direction=direction)
    if dtype not in _UNSIGNED:
        raise e.unsupported(node, f"shift of {dtype.value}")
    wide = _UNSIGNED[dtype]
    by = e.cast(y, wide)
    if direction == "LEFT":
        return e.cast(e.op("BitShift", e.cast(x, wide), by, direction=direction), dtype)
    negative = e.op("Less", x, e.like(0, like))
    plain = e.op("Where", negative, e.op("BitwiseNot", x), x)
    moved = e.cast(e.op("BitShift", e.cast(plain, wide), by, direction=direction), dtype)
    return e.op("Where", negative, e.op("BitwiseNot", moved), moved)


def _atan2(e: Exporter, like: Value, y: str, x: str) -> str:
    pi, zero = e.like(np.pi, like), e.like(0, like)
    angle = e.op("Atan", e.op("Div", y, x))
    turned = e.op("Where", e.op("Less", y, zero), e.op("Sub", angle, pi), e.op("Add", angle, pi))
    sided = e.op("Where", e.op("Less", x, zero), turned, angle)
    upright = e.op("Mul", e.op("Sign", y), e.like(np.pi / 2, like))
    return e.op("Where", e.op("Equal", x, zero), upright, sided)


@exports("Remainder")
def remainder(e: Exporter, node: Node) -> str:
    return e.op("Mod", e.input(node, 0), e.input(node, 1), fmod=1)


@exports("ReLU")
def relu(e: Exporter, node: Node) -> str:
    slope = e.number(node, "slope")
    return e.op("LeakyRelu", e.input(node, 0), alpha=slope) if slope else e.op("Relu", e.input(node, 0))


@exports("ReLU6")
def relu6(e: Exporter, node: Node) -> str:
    return limited(e, e.input(node, 0), e.required(node, 0), e.number(node, "minValue"), e.number(node, "maxValue"))


def limited(e: Exporter, x: str, like: Value, low: float, high: float) -> str:
    """Clip between two numbers."""
    return e.op("Clip", x, e.like(low, like), e.like(high, like))


@exports("PReLU")
def prelu(e: Exporter, node: Node) -> str:
    x, slope = e.required(node, 0), e.numbers(e.value(node, 1))
    if slope is None:  # computed: one per channel, which ONNX would set at the last axis
        return e.op("PRelu", e.name(x), per_channel(e, e.required(node, 1), x))
    if slope.size > 1:
        slope = slope.reshape(-1, *(1,) * (e.rank(x) - 2))
    return e.op("PRelu", e.name(x), e.const(slope, e.dtype(x)))


@exports("ELU")
def elu(e: Exporter, node: Node) -> str:
    return e.op("Elu", e.input(node, 0), alpha=e.number(node, "alpha"))


@exports("Selu")
def selu(e: Exporter, node: Node) -> str:
    return e.op("Selu", e.input(node, 0), alpha=e.number(node, "alpha"), gamma=e.number(node, "scale"))


@exports("Softmax", "LogSoftmax", "Hardmax")
def softmax(e: Exporter, node: Node) -> str:
    return e.op(node.op, e.input(node, 0), axis=e.integer(node, "axis"))


@exports("Not")
def negate(e: Exporter, node: Node) -> str:
    x = e.required(node, 0)
    return e.op("Not", e.name(x) if x.dtype is DType.BOOL else e.cast(e.name(x), DType.BOOL))


@exports("IsInf")
def is_inf(e: Exporter, node: Node) -> str:
    return e.op(
        "IsInf", e.input(node, 0), detect_negative=e.flag(node, "detectNegative"),
        detect_positive=e.flag(node, "detectPositive"),
    )  # fmt: skip


@exports("Select")
def select(e: Exporter, node: Node) -> str:
    condition = e.required(node, 0)
    c = e.name(condition) if condition.dtype is DType.BOOL else e.cast(e.name(condition), DType.BOOL)
    return e.op("Where", c, e.input(node, 1), e.input(node, 2))


@exports("Cast")
def cast(e: Exporter, node: Node) -> str:
    to = e.type_attr(node, "dstT")
    if to is None:
        raise e.unsupported(node, "cast to a type that is not named")
    saturate = None if e.flag(node, "saturate") else 0
    return e.op("Cast", e.input(node, 0), to=CODES[to], saturate=saturate)


@exports("CastLike")
def cast_like(e: Exporter, node: Node) -> str:
    saturate = None if e.flag(node, "saturate") else 0
    return e.op("CastLike", e.input(node, 0), e.input(node, 1), saturate=saturate)


@exports("Threshold")
def threshold(e: Exporter, node: Node) -> str:
    x = e.required(node, 0)
    return e.cast(e.op("Greater", e.name(x), e.like(e.number(node, "alpha"), x)), e.dtype(x))


@exports("ZerosLike")
def zeros_like(e: Exporter, node: Node) -> str:
    x = e.required(node, 0)
    return e.op("ConstantOfShape", e.op("Shape", e.name(x)), value=np.zeros(1, e.dtype(x).numpy))


@exports("Eltwise")
def eltwise(e: Exporter, node: Node) -> str:
    kind = {"PROD": "Mul", "SUM": "Add", "MAXIMUM": "Max", "SUB": "Sub"}.get(e.text(node, "type"))
    weights = e.attr(node, "coeff")
    if kind is None or (isinstance(weights, (list, np.ndarray)) and len(weights) and kind != "Add"):
        raise e.unsupported(node, f"combination {e.text(node, 'type')}")
    parts = [e.name(v) for v in node.inputs if v is not None]
    if isinstance(weights, (list, np.ndarray)) and len(weights):
        first = e.required(node, 0)
        parts = [e.op("Mul", p, e.like(float(w), first)) for p, w in zip(parts, weights, strict=False)]
    out = parts[0]
    for part in parts[1:]:
        out = e.op(kind, out, part)
    return out


@exports("DropoutTraining")
def dropout(e: Exporter, node: Node) -> list[str]:
    ratio = e.input(node, 1) or e.const(e.number(node, "ratio"))
    seed = e.attr(node, "seed")
    return e.emit("Dropout", [e.input(node, 0), ratio, e.input(node, 2)], len(node.outputs), seed=seed)


@exports("StringConcat")
def string_concat(e: Exporter, node: Node) -> str:
    return e.op("StringConcat", e.input(node, 0), e.input(node, 1))


@exports("RegexFullMatch")
def regex(e: Exporter, node: Node) -> str:
    return e.op("RegexFullMatch", e.input(node, 0), pattern=e.text(node, "pattern"))
