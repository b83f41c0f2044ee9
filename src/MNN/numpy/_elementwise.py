"""Elementwise functions with numpy's ``out`` and ``where``: what is written, and which elements are computed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol

import numpy as _np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build, math, shaping
from MNN.expr.arrays import places
from MNN.expr.arrays.options import into
from MNN.expr.var import Var


class Elementwise(Protocol):
    """A function of one or two arrays that broadcast.

    ``out`` is a Var that the result is written into. Where ``where`` is 0, nothing is computed: ``out`` stays there,
    and without one there are zeros. Raises :class:`MNNError` where the result does not fit into ``out``."""

    def __call__(
        self, *operands: ArrayLike, out: Var | None = None, where: ArrayLike = True, **named: ArrayLike
    ) -> Var: ...


def elementwise(function: Callable[..., Var], name: str = "") -> Elementwise:
    """``function``, which takes operands alone, with ``out`` and ``where``; ``name``: numpy's, where it is another."""

    own = inspect.signature(function)
    known = name or function.__name__
    call = _CALLS.get(tuple(own.parameters), _of_any)(math.PREPARED.get(function.__name__, function), known)
    functools.update_wrapper(call, function)
    options = [p for p in inspect.signature(call, follow_wrapped=False).parameters.values() if p.name in _OPTIONS]
    made: Any = call
    made.__name__ = made.__qualname__ = known
    made.__signature__ = own.replace(parameters=[*own.parameters.values(), *options])
    return call


def _of_one(function: Callable[..., Var], name: str) -> Callable[..., Var]:
    def told(entries: places.Entries) -> None:
        nonlocal function
        function = entries.get(function, function)

    places.follow(told)

    def call(x: ArrayLike, *, out: Var | None = None, where: ArrayLike = True) -> Var:
        if out is None and where is True:
            return function(x)
        return _placed(function(x), out, where, name)

    return call


def _of_two(function: Callable[..., Var], name: str) -> Callable[..., Var]:
    def told(entries: places.Entries) -> None:
        nonlocal function
        function = entries.get(function, function)

    places.follow(told)

    def call(x: ArrayLike, y: ArrayLike, *, out: Var | None = None, where: ArrayLike = True) -> Var:
        if out is None and where is True:
            return function(x, y)
        return _placed(function(x, y), out, where, name)

    return call


def _of_any(function: Callable[..., Var], name: str) -> Callable[..., Var]:
    def call(*operands: ArrayLike, out: Var | None = None, where: ArrayLike = True, **named: ArrayLike) -> Var:
        return _placed(function(*operands, **named), out, where, name)

    return call


_CALLS = {("x",): _of_one, ("x", "y"): _of_two}
"""By the names of operands, which may be given by name: those of most are theirs, at less cost than any."""
_OPTIONS = ("out", "where")


def _placed(found: Var, out: Var | None, where: ArrayLike, name: str) -> Var:
    if out is not None and not isinstance(out, Var):
        raise MNNError(f"{name}(): out is a Var to be written into, found {type(out).__name__}; leave it out")
    if where is not True:
        chosen = math.not_equal(where, 0)
        try:
            shape = list(_np.broadcast_shapes(tuple(found.shape), tuple(chosen.shape)))
        except ValueError:
            raise ShapeError(f"{name}(): where has shape {chosen.shape}, the result {found.shape}") from None
        if out is not None and out.shape != shape:
            raise ShapeError(f"{name}(): out has shape {out.shape}, the result {shape}")
        rest = build.number(0, found._kind) if out is None else build.cast(out, found._kind)
        found = math.select(chosen, shaping.broadcast_to(found, shape), rest)
    return build.to_var(into(found, out))


abs = elementwise(math.abs)
add = elementwise(math.add)
arccos = elementwise(math.acos, "arccos")
arccosh = elementwise(math.acosh, "arccosh")
arcsin = elementwise(math.asin, "arcsin")
arcsinh = elementwise(math.asinh, "arcsinh")
arctan = elementwise(math.atan, "arctan")
arctan2 = elementwise(math.atan2, "arctan2")
arctanh = elementwise(math.atanh, "arctanh")
bitwise_and = elementwise(math.bitwise_and)
bitwise_or = elementwise(math.bitwise_or)
bitwise_xor = elementwise(math.bitwise_xor)
ceil = elementwise(math.ceil)
cos = elementwise(math.cos)
cosh = elementwise(math.cosh)
divide = elementwise(math.divide)
equal = elementwise(math.equal)
exp = elementwise(math.exp)
expm1 = elementwise(math.expm1)
floor = elementwise(math.floor)
floor_divide = elementwise(math.floordiv, "floor_divide")
fmod = elementwise(math.mod, "fmod")
greater = elementwise(math.greater)
greater_equal = elementwise(math.greater_equal)
less = elementwise(math.less)
less_equal = elementwise(math.less_equal)
log = elementwise(math.log)
log1p = elementwise(math.log1p)
maximum = elementwise(math.maximum)
minimum = elementwise(math.minimum)
multiply = elementwise(math.multiply)
negative = elementwise(math.negative)
not_equal = elementwise(math.not_equal)
power = elementwise(math.pow, "power")
reciprocal = elementwise(math.reciprocal)
sign = elementwise(math.sign)
sin = elementwise(math.sin)
sinh = elementwise(math.sinh)
sqrt = elementwise(math.sqrt)
square = elementwise(math.square)
subtract = elementwise(math.subtract)
tan = elementwise(math.tan)
tanh = elementwise(math.tanh)
