"""Functions along axes: sums and extremes, positions, order, running sums, softmax, matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import ShapeError
from MNN.expr import compute
from MNN.expr.arrays import few, views
from MNN.expr.build import apply, apply_all, cast, compare, floats, leaf, number, pair, to_var
from MNN.expr.fused.settings import is_lazy
from MNN.expr.types import NHWC, Axes, Ints
from MNN.expr.var import Var
from MNN.ir.dtype import DType


def axes_of(axis: object) -> list[int]:
    """Axes that a user gives as None (all), a number or a sequence."""
    if axis is None:
        return []
    if type(axis) is int:
        return [axis]
    try:
        return compute.whole_numbers(axis)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"an axis is a whole number, found {axis!r}") from error


_NARROW = (DType.U8, DType.I8)
"""Element types that sums do not fit."""


def _reduce(operation: str, x: object, axis: object, keepdims: bool) -> Var:
    v = to_var(x)
    axes = _fitting(v, axis)
    if v._kind in _NARROW:
        if (least := few.reduce(operation, v, axes, bool(keepdims))) is not None:
            return cast(least, DType.I32)
        v = cast(v, DType.I32)  # sums do not fit
    found = few.reduce(operation, v, axes, bool(keepdims))
    return found if found is not None else apply("Reduction", v, operation=operation, dim=axes, keepDims=bool(keepdims))


def _fitting(v: Var, axis: object) -> list[int]:
    """Axes to reduce over; a tensor without any takes the first and last as numpy does."""
    axes = axes_of(axis)
    if len(axes) > 1 and len({a % v.ndim if v.ndim else a for a in axes}) < len(axes):
        raise ShapeError(f"an axis comes twice among {axis}, of a tensor of shape {v.shape}")
    return [] if not v.ndim and set(axes) <= {0, -1} else axes


def reduce_sum(x: ArrayLike, axis: Axes = (), keepdims: bool = False) -> Var:
    """The sum over axes (all when none is given)."""
    return _reduce("SUM", x, axis, keepdims)


def reduce_mean(x: ArrayLike, axis: Axes = (), keepdims: bool = False) -> Var:
    """The mean over axes; of integers cut to an integer, as in PyMNN."""
    return _reduce("MEAN", x, axis, keepdims)


def reduce_max(x: ArrayLike, axis: Axes = (), keepdims: bool = False) -> Var:
    """The largest over axes."""
    return _reduce("MAXIMUM", x, axis, keepdims)


def reduce_min(x: ArrayLike, axis: Axes = (), keepdims: bool = False) -> Var:
    """The smallest over axes."""
    return _reduce("MINIMUM", x, axis, keepdims)


def reduce_prod(x: ArrayLike, axis: Axes = (), keepdims: bool = False) -> Var:
    """The product over axes."""
    return _reduce("PROD", x, axis, keepdims)


def _truth(operation: str, x: object, axis: object, keepdims: bool, every: bool) -> Var:
    v = to_var(x)
    if (at_once := views.truth(v, _fitting(v, axis), bool(keepdims), every)) is not None:
        return at_once
    if v._kind.is_float:
        v = apply("Cast", apply("BinaryOp", v, number(0, v._kind), opType="NOTEQUAL"), dstT="DT_INT32")
    found = apply("Reduction", v, operation=operation, dim=_fitting(v, axis), keepDims=bool(keepdims))
    return compare("NOTEQUAL", found, number(0, v._kind))  # over nothing, "all" has every bit set


def reduce_any(x: ArrayLike, axis: Axes = (), keepdims: bool = False) -> Var:
    """1 where any element over the axes is not 0."""
    return _truth("ANY", x, axis, keepdims, False)


def reduce_all(x: ArrayLike, axis: Axes = (), keepdims: bool = False) -> Var:
    """1 where no element over the axes is 0."""
    return _truth("ALL", x, axis, keepdims, True)


def with_axis(v: Var, axis: object) -> Var:
    """A tensor without axes as one of a single element where its only axis is named, as numpy has it."""
    return v.ravel() if not v.ndim and type(axis) is int and axis in (0, -1) else v


def argmax(x: ArrayLike, axis: int = 0) -> Var:
    """Where the largest element along an axis is; the first of equals."""
    v = with_axis(to_var(x), axis)
    found = few.position(v, int(axis), True)
    return found if found is not None else apply("ArgMax", v, axis=int(axis))


def argmin(x: ArrayLike, axis: int = 0) -> Var:
    """Where the smallest element along an axis is; the first of equals."""
    v = with_axis(to_var(x), axis)
    found = few.position(v, int(axis), False)
    return found if found is not None else apply("ArgMin", v, axis=int(axis))


def cumsum(x: ArrayLike, axis: int | None = 0) -> Var:
    """Running sums along an axis, as ``int`` of narrower integers; None: of the flat tensor."""
    v = to_var(x)
    return _running("CumSum", cast(v, DType.I32) if v._kind in _NARROW else v, axis, few.running_sum)


def cumprod(x: ArrayLike, axis: int | None = 0) -> Var:
    """Running products along an axis, as floats; None: of the flat tensor."""
    return _running("CumProd", floats(x), axis)


def _running(
    op: str, x: Var, axis: int | None, at_once: Callable[[Var, int], Var | None] = lambda x, axis: None
) -> Var:
    if axis is None:
        x, axis = x.ravel(), 0
    x = with_axis(x, axis)
    places = axes_of(axis)
    if len(places) != 1 or not -x.ndim <= places[0] < x.ndim:
        raise ShapeError(f"axis {axis} is none of a tensor of shape {x.shape}")
    found = at_once(x, places[0])
    return found if found is not None else apply(op, x, number(places[0], DType.I32))


def sort(x: ArrayLike, axis: int = -1, arg: bool = False, descend: bool = False) -> Var:
    """The elements along an axis in order, or with ``arg`` their positions; equals keep their order."""
    v = with_axis(to_var(x), axis) if arg else to_var(x)
    if not -v.ndim <= int(axis) < v.ndim:
        raise ShapeError(f"axis {axis} is outside of a tensor of shape {v.shape}")
    if not (arg or descend or v._expr.sources or is_lazy()):  # numbers alone: equals are the same
        return leaf(np.sort(v._array(), axis=int(axis)), v.data_format)
    if arg and not descend and (order := views.order(v, int(axis))) is not None:
        return order
    k, where = number(v.shape[axis], DType.I32), number(int(axis), DType.I32)
    found = apply_all("TopKV2", [v, k, where], 2, None, largest=bool(descend), sorted=True)
    if arg:
        found[1].set_order(NHWC)
    return found[1] if arg else found[0]


def softmax(x: ArrayLike, axis: int = -1) -> Var:
    """``exp(x) / sum(exp(x))`` along an axis."""
    return apply("Softmax", floats(x), axis=int(axis))


def matmul(a: ArrayLike, b: ArrayLike, transposeA: bool = False, transposeB: bool = False) -> Var:
    """The matrix product by numpy's rules for batches; integers are multiplied as floats."""
    x, y = pair(a, b)
    return apply("MatMul", floats(x), floats(y), transposeA=bool(transposeA), transposeB=bool(transposeB))


def moments(x: ArrayLike, axes: Ints = (2, 3), shift: ArrayLike | None = None, keep_dims: bool = True) -> list[Var]:
    """Mean and variance over axes."""
    v = floats(x)
    if shift is not None:
        raise ShapeError("moments(): shift is not supported; subtract it from x first")
    mean = reduce_mean(v, axes, True)
    centred = apply("BinaryOp", v, mean, opType="SquaredDifference")
    return [mean if keep_dims else reduce_mean(v, axes), reduce_mean(centred, axes, keep_dims)]


def nms(
    boxes: ArrayLike, scores: ArrayLike, max_detections: int, iou_threshold: float = -1.0, score_threshold: float = -1.0
) -> Var:
    """Positions of the boxes ``[count, 4]`` (y1, x1, y2, x2) that stay after non-maximum suppression, best first."""
    overlap = leaf(np.asarray(iou_threshold if iou_threshold >= 0 else 0.0, np.float32))
    least = leaf(np.asarray(score_threshold if score_threshold >= 0 else -np.inf, np.float32))
    most = number(int(max_detections), DType.I32)
    return apply("NonMaxSuppressionV2", floats(boxes), floats(scores), most, overlap, least)
