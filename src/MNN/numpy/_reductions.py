"""Functions along axes: sums, products, extremes, means and spreads, truth, positions of extremes.

Beyond PyMNN's parameters they take numpy's, by name: ``where`` (elements that count), ``initial`` (what a result starts
from), ``dtype`` (the element type that is computed in) and ``out`` (a Var that the result is written into)."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as _np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build, indexing, math, reducing, shaping
from MNN.expr.arrays import views
from MNN.expr.arrays.options import into
from MNN.expr.types import Axes, ElementType, VarOrNumber, dtype, dtype_of
from MNN.expr.var import Var
from MNN.numpy._arrays import full

_Kind = ElementType | None


def _prepared(a: object, kind: _Kind, where: object, neutral: object) -> Var:
    """An operand in the element type that is asked for, with ``neutral`` where it does not count."""
    v = build.to_var(a)
    v = v if kind is None else build.cast(v, dtype_of(kind))
    if where is True:
        return v
    return math.select(build.to_var(where), v, build.cast(build.to_var(neutral), v._kind))


def _named(v: Var, axis: Axes) -> VarOrNumber:
    return indexing.result(v) if axis is None else v


def _folded(
    a: object, axis: Axes, out: Var | None, keepdims: bool, kind: _Kind, initial: ArrayLike | None, where: object,
    product: bool,
) -> VarOrNumber:  # fmt: skip
    """A sum or a product of what counts and, where there is one, of ``initial``."""
    fold, join = (reducing.reduce_prod, math.multiply) if product else (reducing.reduce_sum, math.add)
    found = fold(_prepared(a, kind, where, int(product)), axis, keepdims)
    return into(indexing.result(found if initial is None else join(found, initial)), out)


def sum(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *, dtype: _Kind = None,
        initial: ArrayLike | None = None, where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The sum, of ``initial`` too."""
    if dtype is None and initial is None and where is True:
        return (a if type(a) is Var else build.to_var(a)).sum(axis, out, keepdims)
    return _folded(a, axis, out, keepdims, dtype, initial, where, False)


def prod(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *, dtype: _Kind = None,
         initial: ArrayLike | None = None, where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The product, with ``initial`` too."""
    if dtype is None and initial is None and where is True:
        return (a if type(a) is Var else build.to_var(a)).prod(axis, out, keepdims)
    return _folded(a, axis, out, keepdims, dtype, initial, where, True)


def max(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *,
        initial: ArrayLike | None = None, where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The largest, ``initial`` among them, which ``where`` needs."""
    if initial is None and where is True:
        return (a if type(a) is Var else build.to_var(a)).max(axis, out, keepdims)
    return _extreme(a, axis, out, keepdims, initial, where, True)


def min(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *,
        initial: ArrayLike | None = None, where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The smallest, ``initial`` among them, which ``where`` needs."""
    if initial is None and where is True:
        return (a if type(a) is Var else build.to_var(a)).min(axis, out, keepdims)
    return _extreme(a, axis, out, keepdims, initial, where, False)


def _extreme(
    a: object, axis: Axes, out: Var | None, keepdims: bool, initial: ArrayLike | None, where: object, high: bool
) -> VarOrNumber:
    if initial is None:
        raise MNNError("max() and min() of elements chosen by where need initial, for where none is chosen")
    first = full((), initial, build.to_var(a).dtype)  # which tells of what the element type has not
    v = _prepared(a, None, where, first)
    if not v.size:
        empty = _np.empty(v.shape, _np.int8).sum(tuple(reducing.axes_of(axis)) or None, keepdims=keepdims)
        return into(_named(shaping.broadcast_to(first, list(empty.shape)), axis), out)
    found = (reducing.reduce_max if high else reducing.reduce_min)(v, axis, keepdims)
    return into(_named((math.maximum if high else math.minimum)(found, first), axis), out)


amax, amin = max, min


def counted(where: object, like: Var, axis: Axes, keepdims: bool) -> Var:
    """How many elements count, as floats."""
    chosen = math.not_equal(where, 0)  # type: ignore[arg-type] # whatever a Var is made of
    kept = build.cast(shaping.broadcast_to(chosen, like.shape), like._kind)
    return reducing.reduce_sum(kept, axis, keepdims)


def _mean(v: Var, where: object, axis: Axes, keepdims: bool) -> Var:
    """Of floats; no-number where none counts."""
    kept = _prepared(v, None, where, 0)
    return math.divide(reducing.reduce_sum(kept, axis, keepdims), counted(where, kept, axis, keepdims))


def mean(a: ArrayLike, axis: Axes = None, dtype: ElementType = dtype.float, out: Var | None = None,
         keepdims: bool = False, *, where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The mean."""
    if where is True:
        return (a if type(a) is Var else build.to_var(a)).mean(axis, dtype, out, keepdims)
    return into(_named(_mean(build.floats(a), where, axis, keepdims).astype(dtype), axis), out)


def average(a: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: bool = False, *,
            keepdims: bool = False) -> VarOrNumber:  # fmt: skip
    """The mean, or the weighted one; with ``returned`` also the sum of the weights."""
    v = build.floats(a)
    w = build.floats(_np.ones((), _np.float32) if weights is None else weights)
    if weights is not None and w.shape != v.shape:
        axes = reducing.axes_of(axis)
        fitting = all_(-v.ndim <= i < v.ndim for i in axes) and [v.shape[i] for i in axes] == w.shape
        if w.ndim and not (axes and fitting):
            raise ShapeError(f"average(): weights {w.shape} fit neither shape {v.shape} nor its axes {axis}")
        places = sorted(range(len(axes)), key=lambda i: axes[i] % v.ndim)
        w = w if len(axes) < 2 else shaping.transpose(w, places)
        kept = {i % v.ndim for i in axes}
        w = shaping.reshape(w, [v.shape[i] if i in kept else 1 for i in range(v.ndim)]) if w.ndim else w
    w = shaping.broadcast_to(w, v.shape)
    total = reducing.reduce_sum(w, axis, keepdims)
    if not total._expr.sources and not total._array().all():
        raise MNNError("average(): weights add up to 0, by which nothing can be divided")
    found = math.divide(reducing.reduce_sum(math.multiply(v, w), axis, keepdims), total)
    if axis is None:
        found, total = indexing.result(found), indexing.result(total)
    return (found, total) if returned else found


def degrees(ddof: int, correction: int | float | None) -> Any:
    if correction is None:
        return ddof
    if ddof:
        raise MNNError(f"ddof and correction mean the same, found both: {ddof} and {correction}")
    return correction


def variance(a: object, axis: Axes, less: Any, keepdims: bool, where: object, mean: object) -> Var:
    v = build.floats(a)
    centre = _mean(v, where, axis, True) if mean is None else mean
    kept = _prepared(math.squared_difference(v, centre), None, where, 0)  # type: ignore[arg-type] # as to_var()
    count = math.subtract(counted(where, kept, axis, keepdims), float(less))
    return math.divide(reducing.reduce_sum(kept, axis, keepdims), math.maximum(count, 0.0))


def var(a: ArrayLike, axis: Axes = None, dtype: ElementType = dtype.float, out: Var | None = None, ddof: int = 0,
        keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None,
        correction: int | float | None = None) -> VarOrNumber:  # fmt: skip
    """The variance; ``correction`` is ``ddof``, ``mean`` the means where they are known (their axes kept)."""
    less = degrees(ddof, correction)
    if where is True and mean is None:
        return (a if type(a) is Var else build.to_var(a)).var(axis, dtype, out, less, keepdims)
    return into(_named(variance(a, axis, less, keepdims, where, mean).astype(dtype), axis), out)


def std(a: ArrayLike, axis: Axes = None, dtype: ElementType = dtype.float, out: Var | None = None, ddof: int = 0,
        keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None,
        correction: int | float | None = None) -> VarOrNumber:  # fmt: skip
    """The standard deviation; see :func:`var`."""
    less = degrees(ddof, correction)
    if where is True and mean is None:
        return (a if type(a) is Var else build.to_var(a)).std(axis, dtype, out, less, keepdims)
    return into(_named(math.sqrt(variance(a, axis, less, keepdims, where, mean)).astype(dtype), axis), out)


def ptp(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
    """The largest less the smallest."""
    return into(build.to_var(a).ptp(axis, keepdims), out)


def all(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *,
        where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """Whether no element is 0."""
    return _prepared(a, None, where, 1).all(axis, out, builtins.bool(keepdims))


def any(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *,
        where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """Whether any element is not 0."""
    return _prepared(a, None, where, 0).any(axis, out, builtins.bool(keepdims))


all_ = builtins.all


def _position(a: object, axis: int | None, out: Var | None, keepdims: bool, high: bool) -> VarOrNumber:
    v = a if type(a) is Var else build.to_var(a)
    found = v.argmax(axis) if high else v.argmin(axis)
    if keepdims and v.ndim:
        found = shaping.reshape(found, [1] * v.ndim) if axis is None else shaping.unsqueeze(found, axis)
    return into(found, out)


def argmax(a: ArrayLike, axis: int | None = None, out: Var | None = None, *, keepdims: bool = False) -> VarOrNumber:
    """Where the largest is."""
    return _position(a, axis, out, keepdims, True)


def argmin(a: ArrayLike, axis: int | None = None, out: Var | None = None, *, keepdims: bool = False) -> VarOrNumber:
    """Where the smallest is."""
    return _position(a, axis, out, keepdims, False)


def count_nonzero(a: ArrayLike, axis: Axes = None, keepdims: bool = False) -> VarOrNumber:
    """How many elements are not 0."""
    v = build.to_var(a)
    found = views.count(v, None if axis is None else reducing.axes_of(axis), builtins.bool(keepdims))
    return math.not_equal(v, 0).sum(axis, None, keepdims) if found is None else found


__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "max", "mean", "min", "prod", "ptp",
    "std", "sum", "var",
]  # fmt: skip
