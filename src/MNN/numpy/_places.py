"""Where elements are: positions and coordinates, elements taken and put by them, searching and partial order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build, indexing, reducing, shaping
from MNN.expr.arrays.options import into
from MNN.expr.types import Ints, VarOrNumber
from MNN.expr.var import Var
from MNN.numpy._at_hand import at_hand, made, met, positions
from MNN.numpy._at_hand import untyped as _np
from MNN.numpy._creating import copyto


def ravel_multi_index(multi_index: Any, dims: Ints, mode: str = "raise", order: str = "C") -> VarOrNumber:
    """Flat positions of coordinates, one array per axis; those beyond are errors, wrapped or clipped."""
    parts = [build.to_var(p)._array() for p in multi_index]
    sizes = tuple(shaping.dims_of(dims))
    try:
        found = _np.ravel_multi_index(parts, sizes, mode, order)
    except (ValueError, TypeError) as error:
        raise MNNError(f"ravel_multi_index(): {error}") from error
    return indexing.result(made(found))


def unravel_index(indices: ArrayLike, shape: Ints, order: str = "C") -> list[Var]:
    """Coordinates of flat positions, an array per axis."""
    sizes = tuple(shaping.dims_of(shape))
    try:
        found = _np.unravel_index(build.to_var(indices)._array(), sizes, order)
    except (ValueError, TypeError) as error:
        raise MNNError(f"unravel_index(): {error}") from error
    return [build.to_var(made(f)) for f in found]


def diag_indices(n: int, ndim: int = 2) -> tuple[Var, ...]:
    """Coordinates of the main diagonal."""
    return (build.leaf(_np.arange(int(n), dtype=_np.int32)),) * int(ndim)


def diag_indices_from(arr: ArrayLike) -> tuple[Var, ...]:
    """The same of an array whose sizes are all the same."""
    v = build.to_var(arr)
    if v.ndim < 2 or len(set(v.shape)) > 1:
        raise ShapeError(f"diag_indices_from() takes two or more axes of one size, found shape {v.shape}")
    return diag_indices(v.shape[0], v.ndim)


def mask_indices(n: int, mask_func: Callable[..., Any], k: int = 0) -> tuple[Var, ...]:
    """Coordinates where ``mask_func(ones, k)`` of an n x n matrix (``tril``, ``triu``) is not 0."""
    return build.to_var(mask_func(build.leaf(_np.ones((int(n), int(n)), _np.int32)), k)).nonzero()


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Var, Var]:
    """Coordinates at and below diagonal ``k`` of an n x m matrix."""
    rows, columns = _np.tril_indices(int(n), k, m)
    return made(rows), made(columns)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Var, Var]:
    """Coordinates at and above diagonal ``k`` of an n x m matrix."""
    rows, columns = _np.triu_indices(int(n), k, m)
    return made(rows), made(columns)


def _matrix_sizes(arr: object) -> tuple[int, int]:
    v = build.to_var(arr)
    if v.ndim != 2:
        raise ShapeError(f"a triangle is part of a matrix, found shape {v.shape}")
    return v.shape[0], v.shape[1]


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Var, Var]:
    """The same as :func:`tril_indices` of a matrix."""
    n, m = _matrix_sizes(arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Var, Var]:
    """The same as :func:`triu_indices` of a matrix."""
    n, m = _matrix_sizes(arr)
    return triu_indices(n, k, m)


def take(a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: Var | None = None, mode: str = "raise") -> Var:
    """Elements by position along an axis, or of the flat array; positions beyond are errors, wrapped or clipped."""
    return build.to_var(into(at_hand(lambda x, i: _np.take(x, i, axis, mode=mode), a, positions(indices)), out))


def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Var:
    """Along an axis the elements at the positions that ``indices`` (as :func:`argsort` gives them) name."""
    return build.to_var(at_hand(lambda x, i: _np.take_along_axis(x, i, axis), arr, positions(indices)))


def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: Var | None = None) -> Var:
    """What lies where ``condition`` is not 0 along an axis, or of the flat array."""
    return build.to_var(into(at_hand(lambda c, x: _np.compress(c != 0, x, axis), condition, a), out))


def extract(condition: ArrayLike, arr: ArrayLike) -> Var:
    """The elements where ``condition`` is not 0."""
    return build.to_var(at_hand(lambda c, x: _np.extract(c != 0, x), condition, arr))


def _changed(target: object, change: Callable[..., None], *rest: object) -> None:
    """Writes into a Var what numpy's function makes of its numbers, of where, and of the numbers to write (last)."""
    if not isinstance(target, Var):
        raise MNNError(f"this function writes into a Var, found {type(target).__name__}")
    array = target.read()
    try:
        *places, numbers = rest
        change(array, *(build.to_var(positions(p))._array() for p in places), build.to_var(numbers, target)._array())
    except (ValueError, TypeError, IndexError) as error:
        raise MNNError(f"{error}") from error
    copyto(target, array)


def place(arr: Var, mask: ArrayLike, vals: ArrayLike) -> None:
    """Writes ``vals`` (again and again) where ``mask`` is not 0, in row-major order."""
    _changed(arr, lambda x, m, v: _np.place(x, m != 0, v), mask, vals)


def put(a: Var, ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    """Writes ``v`` (again and again) at flat positions."""
    _changed(a, lambda x, i, n: _np.put(x, i, n, mode=mode), ind, v)


def put_along_axis(arr: Var, indices: ArrayLike, values: ArrayLike, axis: int | None) -> None:
    """Writes ``values`` along an axis at the positions that ``indices`` name."""
    _changed(arr, lambda x, i, v: _np.put_along_axis(x, i, v, axis), indices, values)


def putmask(a: Var, mask: ArrayLike, values: ArrayLike) -> None:
    """Writes ``values`` where ``mask`` is not 0, each element from its own place (again and again)."""
    _changed(a, lambda x, m, v: _np.putmask(x, m != 0, v), mask, values)


def fill_diagonal(a: Var, val: ArrayLike, wrap: bool = False) -> None:
    """Writes ``val`` on the main diagonal; with ``wrap`` it begins again in tall matrices."""
    _changed(a, lambda x, v: _np.fill_diagonal(x, v, wrap), val)


def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None) -> VarOrNumber:
    """Where ``v`` would have to be put into a sorted vector: before (``left``) or after (``right``) its equals."""
    return build.to_var(a).searchsorted(v, side, sorter)


def lexsort(keys: Any, axis: int = -1) -> Var:
    """Positions that sort by several keys, of which the last counts most."""
    rows = [build.to_var(k)._array() for k in keys] if isinstance(keys, (list, tuple)) else build.to_var(keys)._array()
    try:
        return build.to_var(made(_np.lexsort(rows, axis)))
    except (ValueError, TypeError) as error:
        raise MNNError(f"lexsort(): {error}") from error


def msort(a: ArrayLike) -> Var:
    """Sorted along the first axis."""
    return reducing.sort(a, 0)


def sort_complex(a: ArrayLike) -> Var:
    """Sorted along the last axis; Vars are real, so that the result is, too."""
    return reducing.sort(build.floats(a), -1)


def _kth(kth: Ints) -> Any:
    places = shaping.dims_of(kth)
    return places[0] if len(places) == 1 else places


def partition(a: ArrayLike, kth: Ints, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Var:
    """Elements of which the k-th is where sorting would put it, none after it smaller, none before it larger."""
    if kind != "introselect" or order is not None:
        raise MNNError(f"partition(): kind {kind!r} is not 'introselect', or order names fields: {order!r}")
    return build.to_var(at_hand(lambda x: _np.partition(x, _kth(kth), axis), a))


def argpartition(a: ArrayLike, kth: Ints, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Var:
    """Positions that partition; see :func:`partition`."""
    v = build.to_var(a)
    return (v.ravel() if axis is None else v).argpartition(kth, axis, kind, order)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> bool:
    """Whether two arrays, broadcast against each other, have the same elements."""
    return bool(_np.array_equiv(*(v._array() for v in met(a1, a2))))


# -- iterating over elements ------------------------------------------------------------------------------------------


def ndindex(*shape: Any) -> Iterator[tuple[int, ...]]:
    """The coordinates of an array of that shape, in row-major order."""
    dims = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, _np.integer)) else shape
    return iter(_np.ndindex(*shaping.dims_of(dims)))


def ndenumerate(arr: ArrayLike) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Coordinates and elements (Python numbers), in row-major order."""
    v = build.to_var(arr)
    return zip(ndindex(v.shape), v.read_as_tuple(), strict=True)


def flatiter(a: ArrayLike) -> Iterator[Any]:
    """The elements in row-major order, as Python numbers."""
    return iter(build.to_var(a).read_as_tuple())


def _one_or_all(op: ArrayLike | tuple[ArrayLike, ...] | list[ArrayLike]) -> list[np.ndarray]:
    given = op if isinstance(op, (tuple, list)) and any(isinstance(o, (Var, _np.ndarray)) for o in op) else [op]
    return [build.to_var(o)._array() for o in given]


def nditer(op: Any, flags: Any = None, op_flags: Any = None, order: str = "C", **options: Any) -> Any:
    """numpy's iterator over the elements of one Var or of several that broadcast; it reads and does not write."""
    arrays = _one_or_all(op)
    return _np.nditer(arrays if len(arrays) > 1 else arrays[0], flags or [], op_flags or ["readonly"],
                      order=order, **options)  # fmt: skip


def nested_iters(op: Any, axes: Any, flags: Any = None, op_flags: Any = None, **options: Any) -> Any:
    """numpy's iterators in nested loops over groups of axes."""
    arrays = _one_or_all(op)
    return _np.nested_iters(arrays if len(arrays) > 1 else arrays[0], axes, flags or [], op_flags or ["readonly"],
                            **options)  # fmt: skip


__all__ = [
    "argpartition", "array_equiv", "compress", "diag_indices", "diag_indices_from", "extract", "fill_diagonal",
    "flatiter", "lexsort", "mask_indices", "msort", "ndenumerate", "ndindex", "nditer", "nested_iters", "partition",
    "place", "put", "put_along_axis", "putmask", "ravel_multi_index", "searchsorted", "sort_complex", "take",
    "take_along_axis", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip
