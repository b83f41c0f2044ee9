"""Matrices by their diagonals and triangles, products over chosen axes, and what is made of blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build, math, products, shaping
from MNN.expr.types import ElementType, Ints, VarOrNumber, dtype, dtype_of
from MNN.expr.var import Var
from MNN.ir.dtype import DType
from MNN.numpy._arrays import atleast_2d, concatenate, tile
from MNN.numpy._at_hand import made
from MNN.numpy._at_hand import untyped as _np


def _taken(v: Var, places: np.ndarray) -> Var:
    """Elements of a flat Var by position."""
    return shaping.gather(v.ravel(), build.leaf(places.astype(_np.int32)))


def diag(v: ArrayLike, k: int = 0) -> Var:
    """The diagonal ``k`` of a matrix, or a matrix with a vector on that diagonal."""
    x = build.to_var(v)
    if x.ndim == 1:
        return diagflat(x, k)
    if x.ndim != 2:
        raise ShapeError(f"diag() takes a vector or a matrix, found shape {x.shape}")
    return diagonal(x, k)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Var:
    """The diagonals of the matrices along two axes; they become the last axis."""
    x = build.to_var(a)
    try:
        places = _np.diagonal(_np.arange(x.size).reshape(x.shape), offset, axis1, axis2)
    except ValueError as error:
        raise ShapeError(f"diagonal() of shape {x.shape}: {error}") from error
    return _taken(x, places)


def diagflat(v: ArrayLike, k: int = 0) -> Var:
    """A square matrix with the elements of ``v`` on diagonal ``k``."""
    x = build.to_var(v).ravel()
    places = _np.diagflat(_np.arange(1, x.size + 1), k)
    padded = concatenate([build.leaf(_np.zeros(1, x._kind.numpy)), x])
    return _taken(padded, places)


def tri(N: int, M: int | None = None, k: int = 0, dtype: ElementType = dtype.float) -> Var:
    """Ones at and below diagonal ``k``, zeros above."""
    return build.leaf(_np.tri(int(N), M, k).astype(dtype_of(dtype).numpy))


def _triangle(m: object, keep: Callable[[int, int], np.ndarray]) -> Var:
    x = build.to_var(m)
    x = x if x.ndim != 1 else shaping.broadcast_to(x, [x.size, x.size])
    if not x.ndim:
        raise ShapeError("a triangle is part of a matrix, found a single number")
    mask = build.leaf(keep(x.shape[-2], x.shape[-1]).astype(_np.int32))
    return math.select(mask, x, build.number(0, x._kind))


def tril(m: ArrayLike, k: int = 0) -> Var:
    """Matrices along the last two axes with zeros above diagonal ``k``."""
    return _triangle(m, lambda rows, columns: _np.tri(rows, columns, k))


def triu(m: ArrayLike, k: int = 0) -> Var:
    """Matrices along the last two axes with zeros below diagonal ``k``."""
    return _triangle(m, lambda rows, columns: 1 - _np.tri(rows, columns, k - 1))


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Var:
    """The powers of a vector's elements as columns, highest first unless ``increasing``."""
    v = build.to_var(x)
    if v.ndim != 1:
        raise ShapeError(f"vander() takes a vector, found shape {v.shape}")
    count = v.size if N is None else int(N)
    return build.to_var(made(_np.vander(v._array(), count, increasing), v._kind in (DType.F64, DType.I64)))


def repmat(a: ArrayLike, m: int, n: int) -> Var:
    """A matrix (vectors count as rows) ``m`` times below and ``n`` times beside itself."""
    return tile(atleast_2d(a), (int(m), int(n)))


def block(arrays: Any) -> Var:
    """Arrays in nested lists put together: the innermost lists along the last axis, the next along that before it."""
    depth = _depth(arrays)
    parts = list(_leaves(arrays))
    rank = max([depth, *(p.ndim for p in parts)])
    return _joined(arrays, depth, rank)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ShapeError("block(): there is nothing in a list")
    depths = {_depth(part) for part in arrays}
    if len(depths) > 1:
        raise ShapeError(f"block(): lists are nested {sorted(depths)} deep, all must be equally deep")
    return 1 + depths.pop()


def _leaves(arrays: Any) -> Any:
    if isinstance(arrays, list):
        for part in arrays:
            yield from _leaves(part)
    else:
        yield build.to_var(arrays)


def _joined(arrays: Any, depth: int, rank: int) -> Var:
    if not depth:
        v = build.to_var(arrays)
        return shaping.reshape(v, [1] * (rank - v.ndim) + v.shape)
    return concatenate([_joined(part, depth - 1, rank) for part in arrays], -depth)


def bmat(obj: Any, ldict: Mapping[str, Any] | None = None, gdict: Mapping[str, Any] | None = None) -> Var:
    """A matrix of matrices: nested lists, or text such as ``"A, B; C, D"`` with names in ``ldict`` and ``gdict``."""
    if isinstance(obj, str):
        known = {**(gdict or {}), **(ldict or {})}
        rows = [row.replace(",", " ").split() for row in obj.split(";")]
        if strange := [name for row in rows for name in row if name not in known]:
            raise MNNError(f"bmat(): {', '.join(strange)} not in ldict or gdict")
        obj = [[known[name] for name in row] for row in rows]
    rows = obj if isinstance(obj[0], (list, tuple)) else [obj]
    return concatenate([concatenate([atleast_2d(part) for part in row], -1) for row in rows], 0)


def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[Ints] = 2) -> VarOrNumber:
    """Sums of products over axes: the last ``axes`` of ``a`` and the first of ``b``, or two lists of axes."""
    x, y = build.to_var(a), build.to_var(b)
    if isinstance(axes, (int, _np.integer)):
        count = int(axes)
        over = [list(range(x.ndim - count, x.ndim)), list(range(count))]
    else:
        over = [shaping.dims_of(part) for part in axes]
    first, second = ([i % v.ndim for i in axes if -v.ndim <= i < v.ndim] for v, axes in zip((x, y), over, strict=True))
    sizes = [[v.shape[i] for i in axes] for v, axes in ((x, first), (y, second))]
    counts = {len(over[0]), len(over[1]), len(set(first)), len(set(second))}
    if sizes[0] != sizes[1] or len(counts) > 1:
        raise ShapeError(f"tensordot(): axes {axes} of shapes {x.shape} and {y.shape} do not fit")
    left = [i for i in range(x.ndim) if i not in first]
    right = [i for i in range(y.ndim) if i not in second]
    outer = [x.shape[i] for i in left] + [y.shape[i] for i in right]
    inner = int(_np.prod([x.shape[i] for i in first], dtype=_np.int64))
    rows = int(_np.prod([x.shape[i] for i in left], dtype=_np.int64))
    m = shaping.reshape(shaping.transpose(x, [*left, *first]), [rows, inner])
    n = shaping.reshape(shaping.transpose(y, [*second, *right]), [inner, -1 if inner else y.size])
    found = products.dot(m, n)
    return shaping.reshape(build.to_var(found), outer)


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Var:
    """The cross product of vectors of three (or two) elements along axes; ``axis`` stands for all three axes."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = (_last(build.to_var(v), where) for v, where in ((a, axisa), (b, axisb)))
    sizes = x.shape[-1], y.shape[-1]
    if not set(sizes) <= {2, 3}:
        raise ShapeError(f"cross() takes vectors of 2 or 3 elements, found {sizes}")
    p, q = ([shaping.squeeze(part, [-1]) for part in shaping.split(v, [1] * v.shape[-1], -1)] for v in build.pair(x, y))
    if sizes == (2, 2):
        return math.subtract(math.multiply(p[0], q[1]), math.multiply(p[1], q[0]))
    p, q = (v if len(v) == 3 else [*v, math.multiply(v[0], 0)] for v in (p, q))
    parts = [
        math.subtract(math.multiply(p[i], q[j]), math.multiply(p[j], q[i])) for i, j in ((1, 2), (2, 0), (0, 1))
    ]  # fmt: skip
    found = shaping.stack(parts, -1)
    if not -found.ndim <= axisc < found.ndim:
        raise ShapeError(f"cross(): axisc {axisc} is outside of the result's axes, of shape {found.shape}")
    order = list(range(found.ndim - 1))
    order.insert(axisc % found.ndim, found.ndim - 1)
    return shaping.transpose(found, order)


def _last(v: Var, axis: int) -> Var:
    if not -v.ndim <= axis < v.ndim:
        raise ShapeError(f"cross(): axis {axis} is outside of a tensor of shape {v.shape}")
    return shaping.transpose(v, [*(i for i in range(v.ndim) if i != axis % v.ndim), axis % v.ndim])


__all__ = [
    "block", "bmat", "cross", "diag", "diagflat", "diagonal", "repmat", "tensordot", "tri", "tril", "triu", "vander",
]  # fmt: skip
