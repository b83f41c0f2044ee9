"""Elementwise operators with one operand: MNN's UnaryOp, logical and bitwise not, tests for NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand

Scalar = Callable[[BodyBuilder, int], int]


def _plain(op: str) -> Scalar:
    return lambda b, x: b(op, x)


def _number(b: BodyBuilder, value: float, like: int) -> int:
    return b.const(value, b.dtype(like))


def _sigmoid(b: BodyBuilder, x: int) -> int:
    one = _number(b, 1.0, x)
    return b("recip", b("add", one, b("exp", b("neg", x))))


def _silu(b: BodyBuilder, x: int) -> int:
    return b("mul", x, _sigmoid(b, x))


def _softplus(b: BodyBuilder, x: int) -> int:
    """``log(1 + e^x)`` as ``max(x, 0) + log1p(e^-|x|)``, which does not overflow. ``-|x|`` is chosen of two: its
    derivative at 0 is 1 then, and with that of the maximum, which is 0 there, all derivatives of the sum are right."""
    low = b("select", b("gt", x, _number(b, 0.0, x)), b("neg", x), x)
    return b("add", b("max", x, _number(b, 0.0, x)), b("log1p", b("exp", low)))


def _hardswish(b: BodyBuilder, x: int) -> int:
    gate = b("min", b("max", b("add", x, _number(b, 3.0, x)), _number(b, 0.0, x)), _number(b, 6.0, x))
    return b("mul", x, b("mul", gate, _number(b, 1.0 / 6.0, x)))


def _gelu_tanh(b: BodyBuilder, x: int) -> int:
    """Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016: the form with tanh, ``x / 2 * (1 + tanh(y))``, which
    is ``x * sigmoid(2 y)``: one exponential, and no digits lost where x is negative."""
    c = 2.0 * math.sqrt(2.0 / math.pi)
    slope = b("add", b("mul", b("mul", x, x), _number(b, 0.044715 * c, x)), _number(b, c, x))
    return b("mul", x, _sigmoid(b, b("mul", x, slope)))


def _gelu(b: BodyBuilder, x: int) -> int:
    e = b("erf", b("mul", x, _number(b, math.sqrt(0.5), x)))
    return b("mul", b("mul", x, _number(b, 0.5, x)), b("add", e, _number(b, 1.0, x)))


_ERFINV_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_ERFINV_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


def _erfinv(b: BodyBuilder, x: int) -> int:
    """M. Giles, "Approximating the erfinv function", GPU Computing Gems 2012: single precision, about 1e-7; of f64 four
    of Newton's steps make it double: on erf, and where that is flat on the logarithm of erfc."""
    if b.dtype(x) is not DType.F64:
        return _erfinv_single(b, x)
    size, one, zero = b("abs", x), _number(b, 1.0, x), _number(b, 0.0, x)
    y = found = _erfinv_single(b, x)
    near, rest, below = b("lt", size, _number(b, 0.5, x)), b("sub", one, size), b("lt", x, zero)
    for _ in range(4):
        tail = _erfc(b, b("abs", y))
        far = b("mul", tail, b("log", b("div", tail, rest)))
        off = b("select", near, b("sub", b("erf", y), x), b("select", below, far, b("neg", far)))
        steep = b("mul", b("exp", b("mul", y, y)), _number(b, math.sqrt(math.pi) / 2, x))
        y = b("sub", y, b("mul", off, steep))
    return b("select", b("lt", size, one), y, found)


def _erfinv_single(b: BodyBuilder, x: int) -> int:
    one = _number(b, 1.0, x)
    w = b("neg", b("log", b("mul", b("sub", one, x), b("add", one, x))))

    def polynomial(t: int, coefficients: Sequence[float]) -> int:
        p = _number(b, coefficients[0], x)
        for c in coefficients[1:]:
            p = b("add", b("mul", p, t), _number(b, c, x))
        return p

    centre = polynomial(b("sub", w, _number(b, 2.5, x)), _ERFINV_CENTRE)
    far = b("max", w, _number(b, 5.0, x))  # a root that has a derivative at 0, too
    tail = polynomial(b("sub", b("sqrt", far), _number(b, 3.0, x)), _ERFINV_TAIL)
    tail = b("select", b("lt", w, _number(b, 1e4, x)), tail, w)  # infinite at the ends, NaN beyond
    return b("mul", x, b("select", b("lt", w, _number(b, 5.0, x)), centre, tail))


_ERFC_SINGLE = (
    3.61318089e-04, 1.32491149e-03, -9.78406053e-03, 2.86073554e-02, -5.86838201e-02, 9.22424495e-02, -1.08804971e-01,
    8.22831542e-02, 3.58545035e-03, -1.40240788e-01, 1.23751259,
)  # fmt: skip
_ERFC_DOUBLE = (
    4.098912139147414e-10, -3.9164185786191914e-09, -4.176542757036172e-09, 3.7247243209845766e-08,
    2.410184457809074e-08, -2.5803482017531867e-07, -5.816100364703228e-08, 1.7517818286235622e-06,
    -9.728836753446274e-07, -1.1444463844195566e-05, 2.238391854126736e-05, 5.1649271214343186e-05,
    -0.00029015397972539697, 0.00029371361550813515, 0.0017556258323401742, -0.009746579549567915, 0.02836227742153623,
    -0.05869339859044296, 0.09230432116019659, -0.1088039301417102, 0.08227673849015109, 0.003585415485463716,
    -0.14024059858554702, 1.2375126308378275,
)  # fmt: skip
"""Chebyshev's approximation of ``(1 + 2x) exp(x^2) erfc(x)`` in ``t = (x - 3.75) / (x + 3.75)`` from 1/2 to 28, as a
polynomial: M. M. Shepherd and J. G. Laframboise, Mathematics of Computation 36, 1981."""


def _erfc(b: BodyBuilder, x: int) -> int:
    """``1 - erf(x)`` below 1/2; above, where that would be a difference of near numbers, the tail by itself. ``x^2`` is
    parted so that its rounding is not raised by exp (W. J. Cody 1969)."""
    half, one = _number(b, 0.5, x), _number(b, 1.0, x)
    y = b("min", b("max", x, half), _number(b, 28.0, x))
    shift = _number(b, 3.75, x)
    t = b("div", b("sub", y, shift), b("add", y, shift))
    coefficients = _ERFC_DOUBLE if b.dtype(x) is DType.F64 else _ERFC_SINGLE
    p = _number(b, coefficients[0], x)
    for c in coefficients[1:]:
        p = b("add", b("mul", p, t), _number(b, c, x))
    p = b("div", p, b("add", one, b("add", y, y)))
    whole = b("mul", b("floor", b("mul", y, _number(b, 16.0, x))), _number(b, 1 / 16, x))
    rest = b("mul", b("sub", whole, y), b("add", whole, y))
    tail = b("mul", b("exp", rest), b("mul", b("exp", b("neg", b("mul", whole, whole))), p))
    return b("select", b("gt", x, half), tail, b("sub", one, b("erf", x)))


_UNARY: dict[str, Scalar] = {
    "ABS": _plain("abs"),
    "NEG": _plain("neg"),
    "FLOOR": _plain("floor"),
    "CEIL": _plain("ceil"),
    "SQUARE": lambda b, x: b("mul", x, x),
    "SQRT": _plain("sqrt"),
    "RSQRT": _plain("rsqrt"),
    "EXP": _plain("exp"),
    "LOG": _plain("log"),
    "SIN": _plain("sin"),
    "COS": _plain("cos"),
    "TAN": _plain("tan"),
    "ASIN": _plain("asin"),
    "ACOS": _plain("acos"),
    "ATAN": _plain("atan"),
    "RECIPROCAL": _plain("recip"),
    "LOG1P": _plain("log1p"),
    "BNLL": _softplus,
    "ACOSH": _plain("acosh"),
    "SINH": _plain("sinh"),
    "ASINH": _plain("asinh"),
    "ATANH": _plain("atanh"),
    "SIGN": _plain("sign"),
    "ROUND": _plain("round"),
    "COSH": _plain("cosh"),
    "ERF": _plain("erf"),
    "ERFC": _erfc,
    "ERFINV": _erfinv,
    "EXPM1": _plain("expm1"),
    "SIGMOID": _sigmoid,
    "TANH": _plain("tanh"),
    "HARDSWISH": _hardswish,
    "GELU": _gelu_tanh,
    "GELU_STANDARD": _gelu,
    "SILU": _silu,
}
_ON_INTEGERS = {"ABS", "NEG", "FLOOR", "CEIL", "ROUND", "SIGN", "SQUARE"}


@register("UnaryOp")
class UnaryOp(Operator):
    """``y = f(x)`` elementwise; ``opType`` names f. Integers only for functions that keep them integers."""

    elementwise = True
    keeps_shape = True
    repeats = True
    attributes = {"opType": "ABS", "T": "DT_INVALID"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        kind = self.str_attr(node, "opType")
        if kind not in _UNARY:
            raise ShapeError(f"{b.where}: opType {kind} is not one of {', '.join(_UNARY)}")
        if kind in ("ABS", "FLOOR", "CEIL", "ROUND") and (x.dtype.is_unsigned or x.dtype is DType.BOOL):
            return [x]
        if not x.dtype.is_float and not (x.dtype.is_int and kind in _ON_INTEGERS):
            raise ShapeError(f"{b.where}: {kind} needs floats, found {x.dtype.value}")
        if kind == "NEG" and x.dtype.is_unsigned:
            return [b.op("sub", b.like(0, x), x)]
        return [b.map(_UNARY[kind], x)]


@register("Bnll")
class Bnll(Operator):
    """``log(1 + e^x)``."""

    keeps_shape = True

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [b.map(_softplus, operand(b, inputs, 0))]


@register("AbsVal")
class AbsVal(Operator):
    """``|x|``."""

    keeps_shape = True

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [b.op("abs", operand(b, inputs, 0))]


@register("Not")
class Not(Operator):
    """Logical not; integers count as ``x != 0``."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [b.op("not", b.cast(operand(b, inputs, 0), DType.BOOL))]


@register("BitwiseNot")
class BitwiseNot(Operator):
    """All bits of an integer turned."""

    keeps_shape = True
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        if not x.dtype.is_int:
            raise ShapeError(f"{b.where}: needs integers, found {x.dtype.value}")
        return [b.op("not", x)]


@register("IsNaN")
class IsNaN(Operator):
    """Where ``x`` is not a number."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [b.op("isnan", operand(b, inputs, 0))]


@register("IsInf")
class IsInf(Operator):
    """Where ``x`` is infinite with a sign that counts."""

    in_mnn = False
    attributes = {"detectNegative": True, "detectPositive": True}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        negative, positive = self.bool_attr(node, "detectNegative"), self.bool_attr(node, "detectPositive")

        def body(k: BodyBuilder, a: int) -> int:
            found = k("isinf", a)
            zero = k.const(0.0, x.dtype)
            if not negative:
                found = k("and", found, k("gt", a, zero))
            return found if positive else k("and", found, k("lt", a, zero))

        return [b.map(body, x)]
