"""Functions on arrays: elementwise, products, choice and order."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, overload

import numpy as _np
from numpy.typing import ArrayLike

from MNN.errors import CallError, MNNError
from MNN.expr import build, math, products, reducing, shaping
from MNN.expr.arrays import direct
from MNN.expr.arrays.options import into
from MNN.expr.products import inner, matmul, outer, vdot
from MNN.expr.types import ElementType, VarOrNumber, dtype_of
from MNN.expr.var import Var
from MNN.numpy._at_hand import met
from MNN.numpy._elementwise import (
    abs,
    add,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    ceil,
    cos,
    cosh,
    divide,
    elementwise,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    fmod,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    log1p,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    reciprocal,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    with_options,
)

absolute = fabs = abs
mod = remainder = fmod
true_divide = divide
rint = elementwise(math.round, "rint")


def round(x: ArrayLike, decimals: int = 0, out: Var | None = None) -> Var:
    """The nearest numbers of so many decimals (tens, hundreds... where that is below 0), halves away from zero."""
    if decimals == 0 and out is None:
        return math.round(x)
    return build.to_var(x).round(decimals, out)


around = round_ = round


def _numbers_first(x: object, y: object, extreme: Callable[[ArrayLike, ArrayLike], Var]) -> Var:
    a, b = build.pair(x, y)
    found = extreme(a, b)
    if not a._kind.is_float:
        return found
    return math.select(math.equal(a, a), math.select(math.equal(b, b), found, a), b)


@elementwise
def fmax(x: ArrayLike, y: ArrayLike) -> Var:
    """The larger of the two; where one is no-number, the other."""
    return _numbers_first(x, y, math.maximum)


@elementwise
def fmin(x: ArrayLike, y: ArrayLike) -> Var:
    """The smaller of the two; where one is no-number, the other."""
    return _numbers_first(x, y, math.minimum)


def positive(x: ArrayLike, deepCopy: bool = False) -> Var:
    """``x``."""
    return shaping.clone(build.own(build.to_var(x)), deepCopy)


@elementwise
def exp2(x: ArrayLike) -> Var:
    """``2^x``."""
    return math.pow(2.0, build.floats(x))


@elementwise
def log2(x: ArrayLike) -> Var:
    """The logarithm to base 2."""
    return math.divide(math.log(x), float(_np.log(2)))


@elementwise
def log10(x: ArrayLike) -> Var:
    """The logarithm to base 10."""
    return math.divide(math.log(x), float(_np.log(10)))


@elementwise
def cbrt(x: ArrayLike) -> Var:
    """The cube root."""
    v = build.floats(x)
    return math.multiply(math.sign(v), math.pow(math.abs(v), 1.0 / 3.0))


@elementwise
def trunc(x: ArrayLike) -> Var:
    """Without the fraction."""
    v = build.floats(x)
    return math.select(math.equal(v, 0.0), v, math.multiply(math.sign(v), math.floor(math.abs(v))))


fix = trunc


@elementwise
def deg2rad(x: ArrayLike) -> Var:
    """Degrees to radians."""
    return math.multiply(build.floats(x), _np.pi / 180.0)


@elementwise
def rad2deg(x: ArrayLike) -> Var:
    """Radians to degrees."""
    return math.multiply(build.floats(x), 180.0 / _np.pi)


radians, degrees = deg2rad, rad2deg


@elementwise
def hypot(x1: ArrayLike, x2: ArrayLike) -> Var:
    """``sqrt(x1^2 + x2^2)``, also where the squares are out of range; infinite where one of the two is."""
    a, b = (math.abs(build.floats(v)) for v in build.pair(x1, x2))
    longer, inf = math.maximum(a, b), build.number(_np.inf, a._kind)
    ratio = math.divide(math.minimum(a, b), math.select(math.equal(longer, 0.0), 1.0, longer))
    found = math.multiply(longer, math.sqrt(math.add(math.square(ratio), 1.0)))
    return math.select(math.logical_or(math.equal(a, inf), math.equal(b, inf)), inf, found)


def _negative(x: Var) -> Var:
    """1 where below 0, or a zero of which the inverse is."""
    below = math.less(x, 0)
    if not x._kind.is_float:
        return below
    return math.logical_or(below, math.multiply(math.equal(x, 0.0), math.less(math.reciprocal(x), 0.0)))


@elementwise
def signbit(x: ArrayLike) -> Var:
    """1 where negative, -0.0 too, as ``int``."""
    return _negative(build.to_var(x))


@elementwise
def copysign(x1: ArrayLike, x2: ArrayLike) -> Var:
    """``|x1|`` with the sign of ``x2``."""
    a, b = build.pair(x1, x2)
    size = math.abs(a)
    return math.select(_negative(b), math.negative(size), size)


def clip(x: ArrayLike, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None, out: Var | None = None, *,
         min: ArrayLike | None = None, max: ArrayLike | None = None, **options: Any) -> Var:  # fmt: skip
    """Limited to an interval, of which ``min`` and ``max`` are other names; None leaves a side open. ``options`` are
    those of elementwise functions (``where``, ``dtype``, ``casting``)."""
    if min is not None or max is not None:
        if a_min is not None or a_max is not None:
            raise MNNError("clip() takes a_min and a_max or min and max, which mean the same; found both")
        a_min, a_max = min, max
    if out is None and not options:
        return (x if type(x) is Var else build.to_var(x)).clip(a_min, a_max)
    found: Var = with_options(lambda v: build.to_var(v).clip(a_min, a_max), (x,), {}, "clip", out, **options)
    return found


def cumsum(x: ArrayLike, axis: int | None = 0, dtype: ElementType | None = None, out: Var | None = None) -> Var:
    """Running sums along an axis, as ``int`` of narrower integers, or as ``dtype``; None: of the flat array."""
    return _running(reducing.cumsum, x, axis, dtype, out)


def cumprod(x: ArrayLike, axis: int | None = 0, dtype: ElementType | None = None, out: Var | None = None) -> Var:
    """Running products along an axis, as floats unless ``dtype`` says otherwise; None: of the flat array."""
    return _running(reducing.cumprod, x, axis, dtype, out)


def _running(function: Callable[..., Var], x: ArrayLike, axis: int | None, dtype: ElementType | None,
             out: Var | None) -> Var:  # fmt: skip
    if dtype is None:
        return build.to_var(into(function(x, axis), out))
    kind = dtype_of(dtype)
    found = build.cast(function(build.cast(build.to_var(x), kind), axis), kind)
    return build.to_var(into(found, out))


def sort(a: ArrayLike, axis: int | None = -1, kind: object = None, order: object = None, *,
         stable: bool | None = None) -> Var:  # fmt: skip
    """The elements along an axis in order; None: of the flat array. Equals keep their order, ``stable`` or not."""
    return (a if type(a) is Var else build.to_var(a)).sort(axis, kind, order)


def argsort(a: ArrayLike, axis: int | None = -1, kind: object = None, order: object = None, *,
            stable: bool | None = None) -> Var:  # fmt: skip
    """Positions that sort along an axis; None: the flat array. Equals keep their order, ``stable`` or not."""
    return build.to_var(a).argsort(axis, kind, order)


def nonzero(a: ArrayLike) -> tuple[Var, ...]:
    """Coordinates of the elements that are not 0, one vector per axis."""
    return build.to_var(a).nonzero()


def argwhere(a: ArrayLike) -> Var:
    """Coordinates ``[count, rank]`` of the elements that are not 0."""
    return shaping.where(a)


def flatnonzero(a: ArrayLike) -> Var:
    """Flat positions of the elements that are not 0."""
    return nonzero(build.to_var(a).ravel())[0]


@overload
def where(condition: ArrayLike) -> tuple[Var, ...]: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Var: ...
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None) -> Var | tuple[Var, ...]:
    """``x`` where the condition is not 0, ``y`` elsewhere; coordinates when neither is given."""
    if x is None or y is None:
        if x is not y:
            raise CallError("where() takes both x and y, or neither")
        return nonzero(condition)
    found = direct.chosen(condition, x, y)
    return math.select(condition, x, y) if found is None else found


def dot(a: ArrayLike, b: ArrayLike, out: Var | None = None) -> VarOrNumber:
    """Sums of products over the last axis of ``a`` and the last but one of ``b``; a plain number scales."""
    found = products.dot(a, b)
    return found if out is None else into(found, out)


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> bool:
    """Whether shapes and elements are the same."""
    one, other = met(a1, a2)
    return builtins.bool(_np.array_equal(one._array(), other._array(), equal_nan))


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The sizes."""
    return tuple(build.to_var(a).shape)


__all__ = [
    "abs",
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argsort",
    "argwhere",
    "around",
    "array_equal",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "cumprod",
    "cumsum",
    "deg2rad",
    "degrees",
    "divide",
    "dot",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fix",
    "flatnonzero",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "inner",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "matmul",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "nonzero",
    "not_equal",
    "outer",
    "positive",
    "power",
    "rad2deg",
    "radians",
    "reciprocal",
    "remainder",
    "rint",
    "round",
    "round_",
    "shape",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sort",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "vdot",
    "where",
]
