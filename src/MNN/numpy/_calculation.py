"""Functions on arrays: elementwise, along axes, products, choice and order."""

from __future__ import annotations

import builtins
from typing import overload

import numpy as _np
from numpy.typing import ArrayLike

from MNN.errors import ShapeError
from MNN.expr import build, indexing, math, products, reducing, shaping
from MNN.expr.math import (
    abs,
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    ceil,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
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
    reciprocal,
    round,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
)
from MNN.expr.math import acos as arccos
from MNN.expr.math import acosh as arccosh
from MNN.expr.math import asin as arcsin
from MNN.expr.math import asinh as arcsinh
from MNN.expr.math import atan as arctan
from MNN.expr.math import atan2 as arctan2
from MNN.expr.math import atanh as arctanh
from MNN.expr.math import floordiv as floor_divide
from MNN.expr.math import mod as fmod
from MNN.expr.math import pow as power
from MNN.expr.products import inner, matmul, outer, vdot
from MNN.expr.reducing import cumprod, cumsum
from MNN.expr.types import Axes, ElementType, VarOrNumber, dtype
from MNN.expr.var import Var

absolute = fabs = abs
mod = remainder = fmod
true_divide = divide
around = round_ = rint = round
fmax, fmin = maximum, minimum


def positive(x: ArrayLike, deepCopy: bool = False) -> Var:
    """``x``."""
    return shaping.clone(build.to_var(x), deepCopy)


def exp2(x: ArrayLike) -> Var:
    """``2^x``."""
    return math.pow(2.0, build.floats(x))


def log2(x: ArrayLike) -> Var:
    """The logarithm to base 2."""
    return math.divide(math.log(x), float(_np.log(2)))


def log10(x: ArrayLike) -> Var:
    """The logarithm to base 10."""
    return math.divide(math.log(x), float(_np.log(10)))


def cbrt(x: ArrayLike) -> Var:
    """The cube root."""
    v = build.floats(x)
    return math.multiply(math.sign(v), math.pow(math.abs(v), 1.0 / 3.0))


def trunc(x: ArrayLike) -> Var:
    """Without the fraction."""
    v = build.to_var(x)
    return math.multiply(math.sign(v), math.floor(math.abs(v)))


fix = trunc


def deg2rad(x: ArrayLike) -> Var:
    """Degrees to radians."""
    return math.multiply(build.floats(x), _np.pi / 180.0)


def rad2deg(x: ArrayLike) -> Var:
    """Radians to degrees."""
    return math.multiply(build.floats(x), 180.0 / _np.pi)


radians, degrees = deg2rad, rad2deg


def hypot(x1: ArrayLike, x2: ArrayLike) -> Var:
    """``sqrt(x1^2 + x2^2)``."""
    return math.sqrt(math.add(math.square(x1), math.square(x2)))


def signbit(x: ArrayLike) -> Var:
    """1 where negative, as ``int``."""
    return math.less(x, 0)


def copysign(x1: ArrayLike, x2: ArrayLike) -> Var:
    """``|x1|`` with the sign of ``x2``."""
    a, b = build.pair(x1, x2)
    size = math.abs(a)
    return math.select(math.less(b, 0), math.negative(size), size)


def clip(x: ArrayLike, a_min: ArrayLike, a_max: ArrayLike) -> Var:
    """Limited to an interval."""
    return build.to_var(x).clip(a_min, a_max)


def sum(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> VarOrNumber:
    """The sum."""
    return build.to_var(a).sum(axis, out, keepdims)


def prod(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> VarOrNumber:
    """The product."""
    return build.to_var(a).prod(axis, out, keepdims)


def max(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> VarOrNumber:
    """The largest."""
    return build.to_var(a).max(axis, out, keepdims)


def min(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> VarOrNumber:
    """The smallest."""
    return build.to_var(a).min(axis, out, keepdims)


amax, amin = max, min


def mean(
    a: ArrayLike, axis: Axes = None, dtype: ElementType = dtype.float, out: None = None, keepdims: bool = False
) -> VarOrNumber:
    """The mean."""
    return build.to_var(a).mean(axis, dtype, out, keepdims)


def average(a: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: bool = False) -> VarOrNumber:
    """The mean, or the weighted one; with ``returned`` also the sum of the weights."""
    v = build.floats(a)
    w = build.floats(_np.ones((), _np.float32) if weights is None else weights)
    if w.ndim == 1 and v.ndim > 1 and axis is not None:
        axes = reducing.axes_of(axis)
        if len(axes) != 1:
            raise ShapeError(f"average(): weights of one axis weigh along one axis, not {axes}")
        w = shaping.reshape(w, [-1 if i == axes[0] % v.ndim else 1 for i in range(v.ndim)])
    w = shaping.broadcast_to(w, v.shape)
    total = reducing.reduce_sum(w, axis)
    found = math.divide(reducing.reduce_sum(math.multiply(v, w), axis), total)
    if axis is None:
        found, total = indexing.result(found), indexing.result(total)
    return (found, total) if returned else found


def var(a: ArrayLike, axis: Axes = None, dtype: ElementType = dtype.float, out: None = None, ddof: int = 0,
        keepdims: bool = False) -> VarOrNumber:  # fmt: skip
    """The variance."""
    return build.to_var(a).var(axis, dtype, out, ddof, keepdims)


def std(a: ArrayLike, axis: Axes = None, dtype: ElementType = dtype.float, out: None = None, ddof: int = 0,
        keepdims: bool = False) -> VarOrNumber:  # fmt: skip
    """The standard deviation."""
    return build.to_var(a).std(axis, dtype, out, ddof, keepdims)


def ptp(a: ArrayLike, axis: Axes = None) -> VarOrNumber:
    """The largest less the smallest."""
    return build.to_var(a).ptp(axis)


def all(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> VarOrNumber:
    """Whether no element is 0."""
    return build.to_var(a).all(axis, out, builtins.bool(keepdims))


def any(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> VarOrNumber:
    """Whether any element is not 0."""
    return build.to_var(a).any(axis, out, builtins.bool(keepdims))


def argmax(a: ArrayLike, axis: int | None = None, out: None = None) -> VarOrNumber:
    """Where the largest is."""
    return build.to_var(a).argmax(axis)


def argmin(a: ArrayLike, axis: int | None = None, out: None = None) -> VarOrNumber:
    """Where the smallest is."""
    return build.to_var(a).argmin(axis)


def count_nonzero(a: ArrayLike, axis: Axes = None, keepdims: bool = False) -> VarOrNumber:
    """How many elements are not 0."""
    return math.not_equal(a, 0).sum(axis, None, keepdims)


def sort(a: ArrayLike, axis: int = -1, kind: object = None, order: object = None) -> Var:
    """The elements along an axis in order."""
    return reducing.sort(a, axis)


def argsort(a: ArrayLike, axis: int = -1, kind: object = None, order: object = None) -> Var:
    """Positions that sort along an axis."""
    return reducing.sort(a, axis, True)


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
            raise TypeError("where() takes both x and y, or neither")
        return nonzero(condition)
    return math.select(condition, x, y)


def dot(a: ArrayLike, b: ArrayLike, out: None = None) -> VarOrNumber:
    """Sums of products over the last axis of ``a`` and the last but one of ``b``; a plain number scales."""
    return products.dot(a, b)


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> bool:
    """Whether shapes and elements are the same."""
    return builtins.bool(_np.array_equal(build.to_var(a1)._array(), build.to_var(a2)._array(), equal_nan))


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The sizes."""
    return tuple(build.to_var(a).shape)


__all__ = [
    "abs",
    "absolute",
    "add",
    "all",
    "amax",
    "amin",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "around",
    "array_equal",
    "average",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
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
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "nonzero",
    "not_equal",
    "outer",
    "positive",
    "power",
    "prod",
    "ptp",
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
    "std",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "var",
    "vdot",
    "where",
]
