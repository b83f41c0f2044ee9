"""Elementwise functions. Integers given to functions of real numbers become floats."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import ShapeError
from MNN.expr.arrays import direct, few, later, places
from MNN.expr.build import (
    apply,
    binary,
    cast,
    compare,
    comparing,
    floats,
    layout_of,
    leaf,
    pair,
    pairwise,
    to_var,
)
from MNN.expr.var import Var
from MNN.ir.dtype import DType

_OF_NUMBERS = {"abs": "ABS", "negative": "NEG"}
_OF_FLOATS = {
    name: name.upper()
    for name in (
        "square", "floor", "ceil", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "reciprocal",
    )
}  # fmt: skip
_PAIRWISE = {
    "add": "ADD", "subtract": "SUB", "multiply": "MUL", "divide": "REALDIV", "pow": "POW", "minimum": "MINIMUM",
    "maximum": "MAXIMUM", "squared_difference": "SquaredDifference",
}  # fmt: skip
_COMPARING = {
    "equal": "EQUAL", "not_equal": "NOTEQUAL", "greater": "GREATER", "greater_equal": "GREATER_EQUAL", "less": "LESS",
    "less_equal": "LESS_EQUAL",
}  # fmt: skip


def _unary(op: str, x: object) -> Var:
    v = floats(x)
    found = few.unary(op, v)
    return found if found is not None else apply("UnaryOp", v, opType=op)


def _keeps_integers(op: str, x: object) -> Var:
    v = to_var(x)
    if v._kind.is_unsigned:
        v = cast(v, DType.I32) if op == "NEG" else v
    found = few.unary(op, v)
    return found if found is not None else apply("UnaryOp", v, opType=op)


def _round(x: object) -> Var:
    v = floats(x)
    if (at_once := later.rounded(v)) is not None:
        return at_once
    whole = apply("UnaryOp", v, opType="FLOOR")
    rest = binary("SUB", v, whole)
    half = leaf(np.asarray(0.5, v._kind.numpy))
    up = binary("LOGICALOR", compare("GREATER", rest, half), binary("MUL", equal(rest, half), greater(v, 0)))
    return binary("ADD", whole, cast(up, v._kind))


PREPARED: dict[str, Callable[..., Var]] = {
    **{name: direct.each(op, functools.partial(_keeps_integers, op)) for name, op in _OF_NUMBERS.items()},
    **{name: direct.each(op, functools.partial(_unary, op)) for name, op in _OF_FLOATS.items()},
    "round": direct.each(few.ROUND, _round),
    **{name: pairwise(op) for name, op in _PAIRWISE.items()},
    **{name: comparing(op) for name, op in _COMPARING.items()},
}
"""Functions of this module by name, prepared for constants of few numbers."""


def _told(entries: places.Entries) -> None:
    PREPARED.update({name: entries[usual] for name, usual in PREPARED.items() if usual in entries})


places.follow(_told)


def abs(x: ArrayLike) -> Var:
    """``|x|``."""
    return PREPARED["abs"](x)


def negative(x: ArrayLike) -> Var:
    """``-x``; unsigned integers become ``int``."""
    return PREPARED["negative"](x)


def square(x: ArrayLike) -> Var:
    """``x * x``."""
    return PREPARED["square"](x)


def sign(x: ArrayLike) -> Var:
    """-1, 0 or 1."""
    return _keeps_integers("SIGN", x)


def floor(x: ArrayLike) -> Var:
    """The next whole number below."""
    return PREPARED["floor"](x)


def ceil(x: ArrayLike) -> Var:
    """The next whole number above."""
    return PREPARED["ceil"](x)


def round(x: ArrayLike) -> Var:
    """The nearest whole number, halves away from zero (as the official engine and C's ``round``)."""
    return PREPARED["round"](x)


def sqrt(x: ArrayLike) -> Var:
    """The square root."""
    return PREPARED["sqrt"](x)


def rsqrt(x: ArrayLike) -> Var:
    """``1 / sqrt(x)``."""
    return _unary("RSQRT", x)


def exp(x: ArrayLike) -> Var:
    """``e^x``."""
    return PREPARED["exp"](x)


def expm1(x: ArrayLike) -> Var:
    """``e^x - 1``, exact near 0."""
    return PREPARED["expm1"](x)


def log(x: ArrayLike) -> Var:
    """The natural logarithm."""
    return PREPARED["log"](x)


def log1p(x: ArrayLike) -> Var:
    """``log(1 + x)``, exact near 0."""
    return PREPARED["log1p"](x)


def sin(x: ArrayLike) -> Var:
    """The sine."""
    return PREPARED["sin"](x)


def cos(x: ArrayLike) -> Var:
    """The cosine."""
    return PREPARED["cos"](x)


def tan(x: ArrayLike) -> Var:
    """The tangent."""
    return PREPARED["tan"](x)


def asin(x: ArrayLike) -> Var:
    """The inverse sine."""
    return PREPARED["asin"](x)


def acos(x: ArrayLike) -> Var:
    """The inverse cosine."""
    return PREPARED["acos"](x)


def atan(x: ArrayLike) -> Var:
    """The inverse tangent."""
    return PREPARED["atan"](x)


def sinh(x: ArrayLike) -> Var:
    """The hyperbolic sine."""
    return PREPARED["sinh"](x)


def cosh(x: ArrayLike) -> Var:
    """The hyperbolic cosine."""
    return PREPARED["cosh"](x)


def tanh(x: ArrayLike) -> Var:
    """The hyperbolic tangent."""
    return PREPARED["tanh"](x)


def asinh(x: ArrayLike) -> Var:
    """The inverse hyperbolic sine."""
    return PREPARED["asinh"](x)


def acosh(x: ArrayLike) -> Var:
    """The inverse hyperbolic cosine."""
    return PREPARED["acosh"](x)


def atanh(x: ArrayLike) -> Var:
    """The inverse hyperbolic tangent."""
    return PREPARED["atanh"](x)


def reciprocal(x: ArrayLike) -> Var:
    """``1 / x``."""
    return PREPARED["reciprocal"](x)


def sigmoid(x: ArrayLike) -> Var:
    """``1 / (1 + e^-x)``."""
    return _unary("SIGMOID", x)


def erf(x: ArrayLike) -> Var:
    """The error function."""
    return _unary("ERF", x)


def erfc(x: ArrayLike) -> Var:
    """``1 - erf(x)``."""
    return _unary("ERFC", x)


def erfinv(x: ArrayLike) -> Var:
    """The inverse of the error function."""
    return _unary("ERFINV", x)


def gelu(x: ArrayLike) -> Var:
    """The Gaussian error linear unit in the form with tanh."""
    return _unary("GELU", x)


def add(x: ArrayLike, y: ArrayLike) -> Var:
    """``x + y``."""
    return PREPARED["add"](x, y)


def subtract(x: ArrayLike, y: ArrayLike) -> Var:
    """``x - y``."""
    return PREPARED["subtract"](x, y)


def multiply(x: ArrayLike, y: ArrayLike) -> Var:
    """``x * y``."""
    return PREPARED["multiply"](x, y)


def divide(x: ArrayLike, y: ArrayLike) -> Var:
    """``x / y``; between integers its whole part, as in PyMNN."""
    return PREPARED["divide"](x, y)


def floordiv(x: ArrayLike, y: ArrayLike) -> Var:
    """``floor(x / y)``."""
    return binary("FLOORDIV", x, y)


def floormod(x: ArrayLike, y: ArrayLike) -> Var:
    """The remainder with the divisor's sign."""
    return binary("FLOORMOD", x, y)


def mod(x: ArrayLike, y: ArrayLike) -> Var:
    """The remainder with the dividend's sign for floats (C's ``fmod``), with the divisor's for integers."""
    return binary("MOD", x, y)


def pow(x: ArrayLike, y: ArrayLike) -> Var:
    """``x`` to the power of ``y``."""
    return PREPARED["pow"](x, y)


def minimum(x: ArrayLike, y: ArrayLike) -> Var:
    """The smaller of the two."""
    return PREPARED["minimum"](x, y)


def maximum(x: ArrayLike, y: ArrayLike) -> Var:
    """The larger of the two."""
    return PREPARED["maximum"](x, y)


def atan2(x: ArrayLike, y: ArrayLike) -> Var:
    """The angle of the point (y, x)."""
    a, b = pair(x, y)
    return binary("ATAN2", floats(a), floats(b))


def squared_difference(x: ArrayLike, y: ArrayLike) -> Var:
    """``(x - y)^2``."""
    return PREPARED["squared_difference"](x, y)


def equal(x: ArrayLike, y: ArrayLike) -> Var:
    """1 where ``x == y``, as ``int``."""
    return PREPARED["equal"](x, y)


def not_equal(x: ArrayLike, y: ArrayLike) -> Var:
    """1 where ``x != y``, as ``int``."""
    return PREPARED["not_equal"](x, y)


def greater(x: ArrayLike, y: ArrayLike) -> Var:
    """1 where ``x > y``, as ``int``."""
    return PREPARED["greater"](x, y)


def greater_equal(x: ArrayLike, y: ArrayLike) -> Var:
    """1 where ``x >= y``, as ``int``."""
    return PREPARED["greater_equal"](x, y)


def less(x: ArrayLike, y: ArrayLike) -> Var:
    """1 where ``x < y``, as ``int``."""
    return PREPARED["less"](x, y)


def less_equal(x: ArrayLike, y: ArrayLike) -> Var:
    """1 where ``x <= y``, as ``int``."""
    return PREPARED["less_equal"](x, y)


def logical_or(x: ArrayLike, y: ArrayLike) -> Var:
    """1 where one of the two is not 0."""
    return binary("LOGICALOR", x, y)


def _bits(op: str, x: object, y: object) -> Var:
    a, b = pair(x, y)
    if a._kind.is_float:
        raise ShapeError(f"{op} needs integers, found {a.dtype} and {b.dtype}")
    return binary(op, a, b)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Var:
    """Bits that both have."""
    return _bits("BITWISE_AND", x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Var:
    """Bits that either has."""
    return _bits("BITWISE_OR", x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Var:
    """Bits that one of the two has."""
    return _bits("BITWISE_XOR", x, y)


def left_shift(x: ArrayLike, y: ArrayLike) -> Var:
    """Integers ``x * 2^y``; bits that leave are lost."""
    return _bits("LEFTSHIFT", x, y)


def right_shift(x: ArrayLike, y: ArrayLike) -> Var:
    """Integers ``floor(x / 2^y)``."""
    return _bits("RIGHTSHIFT", x, y)


def select(cond: ArrayLike, x: ArrayLike, y: ArrayLike) -> Var:
    """``x`` where ``cond`` is not 0, ``y`` elsewhere; the three broadcast."""
    a, b = pair(x, y)
    c = to_var(cond)
    found = few.select(c, a, b)
    return found if found is not None else apply("Select", c, a, b, layout=layout_of([a, b]))


def bias_add(value: ArrayLike, bias: ArrayLike) -> Var:
    """``value + bias``."""
    return binary("ADD", value, bias)


__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bias_add", "bitwise_and",
    "bitwise_or", "bitwise_xor", "ceil", "cos", "cosh", "divide", "equal", "erf", "erfc", "erfinv", "exp", "expm1",
    "floor", "floordiv", "floormod", "gelu", "greater", "greater_equal", "less", "less_equal", "log", "log1p",
    "logical_or", "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "pow", "reciprocal", "round",
    "rsqrt", "select", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "squared_difference", "subtract", "tan",
    "tanh",
]  # fmt: skip
