"""Functions of few numbers in the fewest steps from a call to numpy: each is made once, with all that can be known
before its operands are seen, and looks at nothing but the numbers of constants without nodes (``Var._few``).

Results are those of :mod:`MNN.expr.arrays.few`. Anything else is left to the slow way that each is given, or is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.expr.arrays import later, places
from MNN.expr.arrays.few import (
    ALONE,
    COMPARING,
    COPIED,
    FEW,
    FLOATS,
    MISFITS,
    NUMBERS,
    OF_FLOATS,
    OF_NUMBERS,
    POOLED,
    REDUCING,
    ROUND,
    UNARY,
    Array,
    constant,
    limit,
    limited,
    pooled,
    rounded,
    run,
    silently,
    spread,
)
from MNN.expr.arrays.later import scalar, whole
from MNN.expr.fused import copies
from MNN.expr.fused.settings import SETTINGS
from MNN.expr.types import dtype
from MNN.expr.var import Var
from MNN.ir.dtype import DType

_add: Any = np.add.reduce
_count, _settled = places.count, places.SETTLED
_new: Any = object.__new__
_F32, _F64, _I32 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)
_INT, _FLOAT = DType.I32, dtype.float
Pairwise = Callable[[Any, Any], Var]
Each = Callable[[Any], Var]


def _meeting(number: Any, kind: Any) -> Array | None:
    """A plain number in the element type that it meets; None where that takes thought."""
    return scalar(number) if kind is _F32 else whole(number) if kind is _I32 else None


def _now(x: Any) -> Any:
    """The numbers of a constant without a node, or of few numbers that are not computed yet."""
    few = x._few
    return x._now(FEW) if few is None else few


def _made(found: Any, like: Any) -> Var:
    """A Var of a result in the element type and layout of another."""
    if type(found) is Array and found.size <= ALONE:
        made: Var = _new(Var)
        made._few, made._layout, made._index, made._unconverted = found, like._layout, 0, None
        return made
    return constant(found, like._kind, like._layout)


def pairwise(op: str, slow: Pairwise, reverse: bool = False) -> Pairwise:
    """The operator ``op`` of two operands that broadcast; ``reverse``: given the second one first, as numbers on the
    left of a Var are.

    It is what formulas are made of: nothing in it is a call that need not be one."""
    function = OF_NUMBERS.get(op) or OF_FLOATS[op]
    of_floats, most = op in OF_FLOATS, limit(op)
    deferred = (later.reverse if reverse else later.pairwise)(op, FLOATS if of_floats else NUMBERS)

    def apply(x: Any, y: Any) -> Var:
        if _count() == _settled:
            places.settle()
        if type(x) is not Var or SETTINGS.lazy:
            return slow(x, y)
        a = x._few
        if a is None or a.size > most:
            made = deferred(x, y)
            return slow(x, y) if made is None else made
        kind = a.dtype
        if type(y) is Var:
            b = y._few
            if b is None or b.size > most or x._layout is not y._layout:
                return slow(x, y)
            if kind is not b.dtype or (of_floats and kind is not _F32 and kind is not _F64):
                return slow(x, y)
        elif (of_floats and kind is not _F32) or (b := _meeting(y, kind)) is None:
            return slow(x, y)
        try:
            try:
                found = run(function, a, b) if a.size < POOLED else pooled(function, a, b)
            except RuntimeError:  # as in silently()
                found = silently(function, a, b)
        except MISFITS:
            return slow(x, y)
        if type(found) is Array and found.size <= ALONE:
            result: Var = _new(Var)
            result._few, result._layout, result._index, result._unconverted = found, x._layout, 0, None
            return result
        return constant(found, x._kind, x._layout)

    def swapped(y: Any, x: Any) -> Var:
        a, b = scalar(x), y._few
        if b is None or b.size > most:
            made = deferred(y, x)
            return slow(x, y) if made is None else made
        if a is None or b.dtype is not _F32 or SETTINGS.lazy:
            return slow(x, y)
        return _made(silently(function, a, b), y)

    made = swapped if reverse else apply
    places.offer(made, "pairwise", op, reverse)
    return made


def comparing(op: str, slow: Pairwise) -> Pairwise:
    """The comparison ``op`` of two operands that broadcast: 0 and 1, as ``int``."""
    function = COMPARING[op]

    def apply(x: Any, y: Any) -> Var:
        if _count() == _settled:
            places.settle()
        if type(x) is not Var or (a := x._few) is None or SETTINGS.lazy:
            return slow(x, y)
        if type(y) is Var:
            b = y._few if x._layout is y._layout else None
            if b is None or a.dtype is not b.dtype:
                return slow(x, y)
        elif (b := _meeting(y, a.dtype)) is None:
            return slow(x, y)
        try:
            try:
                found = run(function, a, b)
            except RuntimeError:  # as in silently()
                found = silently(function, a, b)
        except MISFITS:
            return slow(x, y)
        if type(found) is Array and found.size <= ALONE:
            made: Var = _new(Var)
            made._few, made._layout, made._index, made._unconverted = found.astype(_I32), x._layout, 0, None
            return made
        return constant(found.astype(_I32), _INT, x._layout)

    places.offer(apply, "comparing", op)
    return apply


def each(op: str, slow: Each) -> Each:
    """The operator ``op`` of each number, of floats."""
    function, most = rounded if op == ROUND else UNARY[op], limit(op)
    deferred = later.rounded if op == ROUND else later.each(op, NUMBERS if op in ("ABS", "NEG") else FLOATS)

    def apply(x: Any) -> Var:
        if _count() == _settled:
            places.settle()
        if type(x) is Var:
            a = x._few
            if a is not None and a.size <= most and not SETTINGS.lazy and ((kind := a.dtype) is _F32 or kind is _F64):
                try:
                    found = run(function, a) if a.size < POOLED else pooled(function, a)
                except RuntimeError:
                    found = silently(function, a)
                if type(found) is not Array:
                    found = np.asarray(found, kind)
                made: Var = _new(Var)
                made._few, made._layout, made._index, made._unconverted = found, x._layout, 0, None
                return made
            if (later_ := deferred(x)) is not None:
                return later_
        return slow(x)

    places.offer(apply, "each", op)
    return apply


def fold(operation: str, x: Any, axis: object, keepdims: object, whole: bool) -> Any:
    """A sum, product or extreme over all axes or one; a Python number where everything is reduced, or one is left and
    ``whole`` holds."""
    a = _now(x)
    if a is None or SETTINGS.lazy or not (axis is None or type(axis) is int) or not a.size or not a.ndim:
        return None
    kind = a.dtype
    try:
        found = silently(REDUCING[operation], a, axis, kind, None, keepdims)
    except MISFITS:
        return None
    if type(found) is not Array and (whole or axis is None):
        return found.item()
    return _made(found, x)


def _mean(a: Array, axis: int | None, keepdims: Any) -> Any:
    found = _add(a, axis, _F32, None, keepdims)
    return np.divide(found, np.float32(a.size // max(found.size, 1)))


def _variance(a: Array, axis: int | None, keepdims: Any, less: Any) -> Any:
    return spread(a, axis, keepdims, less)


def _deviation(a: Array, axis: int | None, keepdims: Any, less: Any) -> Any:
    found = spread(a, axis, keepdims, less)
    return None if found is None else np.sqrt(found)


def mean(x: Any, axis: object, kind: object, keepdims: object) -> Any:
    """The mean of f32 over all axes or one; a Python number where none is named."""
    return _of_floats(_mean, x, axis, kind, keepdims)


def variance(x: Any, axis: object, kind: object, keepdims: object, less: int, root: bool) -> Any:
    """The variance of f32 over all axes or one, or its ``root``; the divisor is the count less ``less``."""
    return _of_floats(_deviation if root else _variance, x, axis, kind, keepdims, less)


def _of_floats(function: Callable[..., Any], x: Any, axis: object, kind: object, *more: object) -> Any:
    a = _now(x)
    if a is None or a.dtype is not _F32 or kind is not _FLOAT or SETTINGS.lazy:
        return None
    if not (axis is None or type(axis) is int) or not a.size or not a.ndim:
        return None
    try:
        found = silently(function, a, axis, *more)
    except MISFITS:
        return None
    if found is None:
        return None
    if axis is None and not found.ndim:
        return found.item()
    return _made(found, x)


def position(x: Any, axis: object, high: bool) -> Any:
    """Where the first extreme is: of the flat tensor as a Python number, or along an axis."""
    a = _now(x)
    if a is None or SETTINGS.lazy or not a.size or not a.ndim or not (axis is None or type(axis) is int):
        return None
    try:
        found = a.argmax(axis) if high else a.argmin(axis)
    except MISFITS:
        return None
    return found.item() if axis is None else constant(found.astype(np.int32), _INT, x._layout)


def joined(parts: Sequence[Any], axis: object) -> Var | None:
    """Tensors of one element type one after the other along an axis."""
    if SETTINGS.lazy or type(axis) is not int or not parts:
        return None
    arrays: list[Array] = []
    first = parts[0]
    for part in parts:
        if type(part) is not Var or (a := _now(part)) is None or part._layout is not first._layout:
            return None
        if arrays and a.dtype is not arrays[0].dtype:
            return None
        arrays.append(a)
    try:
        found = np.concatenate(arrays, axis)
    except MISFITS:
        return None
    return _made(found, first) if found.ndim == 1 or found.flags.c_contiguous else None


def product(x: Any, y: Any, most: float) -> Any:
    """The matrix product of at most so many multiplications; a Python number where nothing else is left."""
    if type(x) is not Var or type(y) is not Var or SETTINGS.lazy:
        return None
    a, b = _now(x), _now(y)
    if a is None or b is None or a.dtype is not b.dtype or x._layout is not y._layout:
        return None
    if a.ndim > 2 or b.ndim > 2 or not a.ndim or not b.ndim:
        return None
    if not 0 < a.size * (b.shape[1] if b.ndim > 1 else 1) <= most:
        return None
    try:
        found = silently(a.dot, b)  # which is there sooner than matmul()
    except MISFITS:
        return None
    return _made(found, x) if type(found) is Array else found.item()


def chosen(condition: Any, x: Any, y: Any) -> Var | None:
    """One of two numbers where a condition is a whole number; plain numbers may stand for one of the two."""
    if type(condition) is not Var or SETTINGS.lazy:
        return None
    c = condition._few
    like = x if type(x) is Var else y
    if c is None or c.size > FEW or type(like) is not Var or c.dtype.kind == "f":
        return None
    a = x._few if type(x) is Var else scalar(x)
    b = y._few if type(y) is Var else scalar(y)
    if a is None or b is None or a.dtype is not b.dtype or (type(x) is type(y) and x._layout is not y._layout):
        return None
    try:
        return _made(np.where(c, a, b), like)
    except MISFITS:
        return None


def clipped(x: Any, low: Any, high: Any) -> Var | None:
    """f32 limited to an interval of two plain numbers."""
    a, least, most = x._few, scalar(low), scalar(high)
    if a is None or least is None or most is None or a.dtype is not _F32 or SETTINGS.lazy:
        return None
    return _made(silently(limited, a, least, most), x)


def ordered(x: Any, axis: object) -> Var | None:
    """The numbers along an axis in order."""
    a = _now(x)
    if a is None or SETTINGS.lazy or type(axis) is not int or not -a.ndim <= axis < a.ndim:
        return None
    found: Array = a.copy()
    found.sort(axis)
    return _made(found, x)


def moved(x: Any, order: object) -> Var | None:
    """Axes in the opposite order, or in one that is given as a list or tuple of whole numbers."""
    a = _now(x)
    if a is None or SETTINGS.lazy or a.ndim < 2 or not (order is None or type(order) in (list, tuple)):
        return None
    try:
        found = a.transpose(order)
        if a.size > copies.SMALLEST:  # numpy would be slow at each use; a kernel copies them once
            return _made(copies.fresh(found), x)
        return _made(found if a.size > COPIED else found.copy(), x)
    except MISFITS:
        return None


def part(x: Any, key: object) -> Any:
    """The part of a constant that positions and slices choose; a single element is a Python number."""
    a = _now(x)
    if a is None or SETTINGS.lazy:
        return None
    kind = type(key)
    if kind is not int and kind is not slice:
        if kind is not tuple:
            return None
        for k in key:  # type: ignore[attr-defined]
            if type(k) is not int and type(k) is not slice:
                return None
    try:
        found = a[key]
    except MISFITS:
        return None
    return _made(found.copy(), x) if type(found) is Array else found.item()


for _usual in (chosen, clipped, joined, moved, product):
    places.offer(_usual, _usual.__name__)


def _told(entries: places.Entries) -> None:
    for usual, entry in entries.items():
        if globals().get(usual.__name__) is usual:
            globals()[usual.__name__] = entry


places.follow(_told)

__all__ = [
    "chosen", "clipped", "comparing", "each", "fold", "joined", "mean", "moved", "ordered", "pairwise", "part",
    "position", "product", "scalar", "variance",
]  # fmt: skip
