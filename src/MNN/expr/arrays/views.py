"""Functions of constants that move numbers or look for them, as numpy has them at once: parts, other sizes, opposite
orders, repetitions, and where something holds.

What numpy answers with a view stays one where many numbers are seen: constants do not change. A view of a small part is
copied, so that it does not keep all of them alive. Anything else is left to the operators: functions give None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.expr.arrays.few import COPIED, MISFITS, Array, constant
from MNN.expr.fused import copies
from MNN.expr.fused.settings import SETTINGS
from MNN.expr.types import NCHW, NHWC, data_format
from MNN.expr.var import Var
from MNN.ir.dtype import DType

_SHARE = 4
"""What a view may be the fraction of."""


def numbers(x: Var) -> Array | None:
    """Those of a constant, computed if need be; they must not be written to."""
    if SETTINGS.lazy:
        return None
    few = x._few
    if few is not None:
        return few
    return x._array() if x._expr.op == "Const" else None


def _lasting(array: Array, x: Var) -> Array:
    """An array that stays as it is: a view of the numbers of ``x``, or a copy."""
    if array.size <= COPIED:
        return array if array.flags.c_contiguous and array.base is None else array.copy("C")
    if x._few is None and x._expr.borrowed:
        return copies.fresh(array)
    whole = array
    while type(whole.base) is Array:
        whole = whole.base
    return array if array.nbytes * _SHARE >= whole.nbytes else copies.fresh(array)


def seen(x: Var, view: Callable[[Array], Array], layout: data_format | None = None) -> Var | None:
    """A view of the numbers of a constant."""
    array = numbers(x)
    if array is None:
        return None
    try:
        found = view(array)
    except MISFITS:
        return None
    return constant(_lasting(found, x), DType.of(found), x._layout if layout is None else layout)


def made(x: Var, function: Callable[[Array], Array]) -> Var | None:
    """New numbers in the element type of a constant."""
    array = numbers(x)
    if array is None:
        return None
    try:
        found = function(array)
    except MISFITS:
        return None
    return constant(found, DType.of(found), x._layout)


def pieces(x: Var, sizes: Sequence[int], axis: int) -> list[Var] | None:
    """Pieces of these sizes along an axis that there is."""
    array = numbers(x)
    if array is None or sum(sizes) != array.shape[axis] or min(sizes, default=-1) < 0:
        return None
    before: tuple[slice, ...] = (slice(None),) * (axis % array.ndim)
    found, at, kind = [], 0, DType.of(array)
    for size in sizes:
        place = (*before, slice(at, at + size))
        found.append(constant(_lasting(array[place], x), kind, x._layout))
        at += size
    return found


def stacked(parts: Sequence[Var], axis: int) -> Var | None:
    """Constants of one shape and element type along a new axis."""
    arrays: list[Any] = [numbers(part) for part in parts]
    first = parts[0]
    if any(a is None or a.shape != arrays[0].shape or p._layout is not first._layout
           for a, p in zip(arrays, parts, strict=True)):  # fmt: skip
        return None
    rank = arrays[0].ndim + 1
    if not -rank <= axis < rank:
        return None
    place = (slice(None),) * (axis % rank) + (None,)
    last = axis % rank == rank - 1  # numbers of all in turns, which numpy is at its best with
    join = np.concatenate if last or sum([a.size for a in arrays]) <= 1 << 18 else copies.joined
    return constant(join([a[place] for a in arrays], axis % rank), DType.of(arrays[0]), first._layout)


def resized(x: Var, sizes: Sequence[int]) -> Var | None:
    """The same numbers under other sizes, of which one may be -1; 0 keeps a size."""
    array = numbers(x)
    if array is None or not array.size or min(sizes, default=0) < -1:
        return None
    if 0 in sizes:
        if len(sizes) > array.ndim and any(n == 0 for n in sizes[array.ndim :]):
            return None
        sizes = [array.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    try:
        found = copies.contiguous(array).reshape(sizes)
    except MISFITS:
        return None
    shared = x._few is None and x._expr.borrowed
    return constant(found.copy() if shared else found, DType.of(found), x._layout)


def truth(x: Var, axes: Sequence[int], keepdims: bool, every: bool) -> Var | None:
    """1 where every number, or any, along axes (all where none is named) is not 0, as ``int``."""
    array = numbers(x)
    if array is None:
        return None
    function: Any = np.logical_and.reduce if every else np.logical_or.reduce
    try:
        found = function(array, tuple(axes) if axes else None, None, None, keepdims)
    except MISFITS:
        return None
    return constant(np.asarray(found, np.int32), DType.I32, x._layout)


def count(x: Var, axes: Sequence[int] | None, keepdims: bool) -> Any:
    """How many numbers are not 0; a Python number where a single one is left."""
    array = numbers(x)
    if array is None or array.size >= 1 << 31:
        return None
    try:
        found = np.count_nonzero(array, None if axes is None else tuple(axes), keepdims=keepdims)
    except MISFITS:
        return None
    if not np.ndim(found):
        return int(found)
    return constant(np.asarray(found, np.int32), DType.I32, x._layout)


def coordinates(x: Var) -> tuple[Var, ...] | None:
    """Those of the numbers that are not 0, one vector per axis."""
    array = numbers(x)
    if array is None or not array.ndim or array.size >= 1 << 31:
        return None
    return tuple([constant(places.astype(np.int32), DType.I32, x._layout) for places in array.nonzero()])


def order(x: Var, axis: int) -> Var | None:
    """Positions that sort along an axis; equals keep their order."""
    array = numbers(x)
    if array is None or not -array.ndim <= axis < array.ndim:
        return None
    return constant(np.argsort(array, axis, kind="stable").astype(np.int32), DType.I32, NHWC)


def spread(x: Var, shape: Sequence[int]) -> Var | None:
    """Numbers repeated to a shape that they broadcast to."""
    return seen(x, lambda a: np.broadcast_to(a, shape), x._layout if x.ndim else NCHW)


__all__ = [
    "coordinates", "count", "made", "numbers", "order", "pieces", "resized", "seen", "spread", "stacked", "truth",
]  # fmt: skip
