"""Functions of numbers that TorchScript takes from ``math``: computed at once where the numbers are known, else by the
operators that do the same to tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.numbers import Number, Scalar
from MNN.frontends.torch.scalars import compute, known_number
from MNN.ir.dtype import DType

_OF_FLOATS = {
    **{
        name: (getattr(math, name), name)
        for name in "acos acosh asin asinh atan atanh cosh sinh erf erfc expm1 lgamma log10 log2 fmod copysign atan2"
        " isnan isinf isfinite frexp".split()
    },
    "fabs": (math.fabs, "abs"),
    "degrees": (math.degrees, "rad2deg"),
    "radians": (math.radians, "deg2rad"),
}
"""What it is of known numbers, and the operator of tensors."""
_OF_INTS = {"__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift"}


def _divmod(ctx: TorchBuilder, x: Scalar, y: Scalar) -> Any:
    return tuple(compute(ctx, name, x, y) for name in ("floordiv", "mod"))


def _modf(ctx: TorchBuilder, x: Scalar) -> Any:
    whole = compute(ctx, "float", compute(ctx, "trunc", x))
    return compute(ctx, "sub", x, whole), whole


def _ldexp(ctx: TorchBuilder, x: Scalar, exponent: Scalar) -> Any:
    return compute(ctx, "mul", x, compute(ctx, "pow", 2.0, compute(ctx, "float", exponent)))


def _nearest(ctx: TorchBuilder, x: Scalar, y: Scalar) -> Any:
    """``math.remainder``: what is left of ``x`` by the nearest multiple of ``y``."""
    return compute(ctx, "sub", x, compute(ctx, "mul", y, compute(ctx, "round", compute(ctx, "truediv", x, y))))


def _round(ctx: TorchBuilder, x: Scalar) -> Any:
    """A float also where Python has an integer."""
    return compute(ctx, "float", compute(ctx, "round", x))


def _gamma(ctx: TorchBuilder, x: Scalar) -> Any:
    return math.gamma(ctx.known(x, "a number of which the gamma function is taken"))


def _factorial(ctx: TorchBuilder, x: Scalar) -> Any:
    return math.factorial(min(ctx.known(x, "a number of which the factorial is taken"), 170))


_COMPOSED: dict[str, Callable[..., Any]] = {
    "divmod": _divmod, "modf": _modf, "ldexp": _ldexp, "mathremainder": _nearest, "round": _round, "gamma": _gamma,
    "factorial": _factorial,
}  # fmt: skip
FUNCTIONS = frozenset((*_OF_FLOATS, *_OF_INTS, *_COMPOSED))


def function(ctx: TorchBuilder, name: str, args: Sequence[Scalar]) -> Any:
    """The result of one of :data:`FUNCTIONS`: a number, or a tuple of some. Raises ``ValueError`` and
    ``ArithmeticError`` as ``math`` does."""
    if name in _COMPOSED:
        found = _COMPOSED[name](ctx, *args)
    elif not any(isinstance(a, Number) for a in args):
        return _OF_FLOATS[name][0](*args) if name in _OF_FLOATS else compute(ctx, name.strip("_"), *args)
    else:
        kind, operator = (DType.F64, _OF_FLOATS[name][1]) if name in _OF_FLOATS else (DType.I64, _OF_INTS[name])
        found = call(ctx, operator, [Variable(ctx.scalar(a, kind)) for a in args], {})
    return tuple(map(_number(ctx), found)) if isinstance(found, (tuple, list)) else _number(ctx)(found)


def _number(ctx: TorchBuilder) -> Callable[[Any], Scalar]:
    def known(x: Any) -> Scalar:
        return known_number(ctx, Number(x.read(ctx)) if isinstance(x, Variable) else x)

    return known


__all__ = ["FUNCTIONS", "function"]
