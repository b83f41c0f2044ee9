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
_LARGEST_FACTORIAL = 20
_OF_INTS = {"__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift"}


def _factorial(x: int) -> int:
    if x > _LARGEST_FACTORIAL:
        raise OverflowError(f"the factorial of {x} has more than 64 bits")
    return math.factorial(x)


_KNOWN: dict[str, Callable[..., Any]] = {
    **{name: found for name, (found, _) in _OF_FLOATS.items()}, "divmod": divmod, "modf": math.modf,
    "ldexp": math.ldexp, "mathremainder": math.remainder, "round": lambda x: float(round(x)), "gamma": math.gamma,
    "factorial": _factorial,
}  # fmt: skip
"""What they are of known numbers."""


def _divmod(ctx: TorchBuilder, x: Scalar, y: Scalar) -> Any:
    return tuple(compute(ctx, name, x, y) for name in ("floordiv", "mod"))


def _modf(ctx: TorchBuilder, x: Scalar) -> Any:
    rest = _by_tensors(ctx, "fmod", DType.F64, [x, 1.0])
    return rest, compute(ctx, "sub", x, rest)


def _ldexp(ctx: TorchBuilder, x: Scalar, exponent: Scalar) -> Any:
    return compute(ctx, "mul", x, compute(ctx, "pow", 2.0, compute(ctx, "float", exponent)))


def _nearest(ctx: TorchBuilder, x: Scalar, y: Scalar) -> Any:
    """``math.remainder``: what is left of ``x`` by the nearest multiple of ``y``."""
    return compute(ctx, "sub", x, compute(ctx, "mul", y, compute(ctx, "round", compute(ctx, "truediv", x, y))))


def _round(ctx: TorchBuilder, x: Scalar) -> Any:
    """A float also where Python has an integer."""
    return compute(ctx, "float", compute(ctx, "round", x))


def _only_known(ctx: TorchBuilder, x: Scalar) -> Any:
    return ctx.known(x, "a number of which a factorial or the gamma function is taken")


_COMPOSED: dict[str, Callable[..., Any]] = {
    "divmod": _divmod, "modf": _modf, "ldexp": _ldexp, "mathremainder": _nearest, "round": _round,
    "gamma": _only_known, "factorial": _only_known,
}  # fmt: skip
FUNCTIONS = frozenset((*_KNOWN, *_OF_INTS))


def function(ctx: TorchBuilder, name: str, args: Sequence[Scalar]) -> Any:
    """The result of one of :data:`FUNCTIONS`: a number, or a tuple of some. Raises ``ValueError`` and
    ``ArithmeticError`` as ``math`` does."""
    if not any(isinstance(a, Number) for a in args):
        return _KNOWN[name](*args) if name in _KNOWN else compute(ctx, name.strip("_"), *args)
    if name in _COMPOSED:
        found = _COMPOSED[name](ctx, *args)
    elif name in _OF_FLOATS:
        found = _by_tensors(ctx, _OF_FLOATS[name][1], DType.F64, args)
    else:
        found = _by_tensors(ctx, _OF_INTS[name], DType.I64, args)
    return tuple(known_number(ctx, x) for x in found) if isinstance(found, tuple) else known_number(ctx, found)


def _by_tensors(ctx: TorchBuilder, name: str, kind: DType, args: Sequence[Scalar]) -> Any:
    found = call(ctx, name, [Variable(ctx.scalar(a, kind)) for a in args], {})
    if isinstance(found, list):
        return tuple(Number(x.read(ctx)) for x in found)
    return Number(found.read(ctx))


__all__ = ["FUNCTIONS", "function"]
