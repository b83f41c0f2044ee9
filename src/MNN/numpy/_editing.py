"""Arrays with elements added, taken away or moved, and arrays broadcast against each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import ArrayLike

from MNN.errors import ShapeError
from MNN.expr import build, math, reducing, shaping
from MNN.expr.arrays.options import into
from MNN.expr.types import Axes, Ints
from MNN.expr.var import Var
from MNN.numpy._arrays import concatenate, swapaxes, vstack
from MNN.numpy._at_hand import at_hand
from MNN.numpy._at_hand import untyped as _np

row_stack = vstack


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Var:
    """``values`` after ``arr`` along an axis, or both flat."""
    return concatenate([arr, values], axis)


def _place(obj: object) -> Any:
    """Positions as numpy takes them: truth values, which no Var holds, are a mask."""
    if isinstance(obj, (slice, int, _np.integer)):
        return obj
    given = obj._array() if isinstance(obj, Var) else _np.asarray(obj)
    if given.dtype == bool:
        return _np.flatnonzero(given)
    return given.astype(_np.int64) if not given.size else build.to_var(given)._array()


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Var:
    """``values`` before the positions ``obj`` along an axis, or of the flat array."""
    v = build.to_var(arr)
    new = build.cast(build.to_var(values, v), v._kind)._array()
    return build.to_var(at_hand(lambda x: _np.insert(x, _place(obj), new, axis), v))


def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Var:
    """Without the positions ``obj`` (numbers, a slice) along an axis, or of the flat array."""
    return build.to_var(at_hand(lambda x: _np.delete(x, _place(obj), axis), arr))


def resize(a: ArrayLike, new_shape: Ints) -> Var:
    """Another shape, filled with the elements again and again."""
    v, dims = build.to_var(a).ravel(), shaping.dims_of(new_shape)
    count = int(_np.prod(dims, dtype=_np.int64))
    if any(d < 0 for d in dims):
        raise ShapeError(f"resize(): sizes must not be negative, found {dims}")
    if not v.size or not count:
        return build.leaf(_np.zeros(dims, v._kind.numpy))
    return shaping.gather(v, build.leaf((_np.arange(count) % v.size).astype(_np.int32).reshape(dims)))


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axes = None) -> Var:
    """An array without the zeros at its front (``f``) and back (``b``), along all axes or those that are named."""
    v = build.to_var(filt)
    if not v.ndim or not set(trim.lower()) <= set("fb"):
        raise ShapeError(f"trim_zeros() takes an array and 'f', 'b' or 'fb', found shape {v.shape} and {trim!r}")
    axes = range(v.ndim) if axis is None else shaping.dims_of(axis)
    if any(not -v.ndim <= i < v.ndim for i in axes):
        raise ShapeError(f"trim_zeros(): axis {axis} is outside of a tensor of shape {v.shape}")
    array = v._array()
    places = _np.argwhere(array)
    kept = [slice(None)] * v.ndim
    for i in axes:
        first = int(places[:, i].min()) if len(places) else 0
        last = int(places[:, i].max()) + 1 if len(places) else 0
        kept[i] = slice(first if "f" in trim.lower() else None, last if "b" in trim.lower() or not last else None)
    return build.leaf(array[tuple(kept)].copy())


def unique(ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True) -> Any:  # fmt: skip
    """The different elements (or rows along an axis) in order; also where each is first, which one each element is,
    and how often there are. No-numbers are one element unless ``equal_nan`` is false; that they are in order is no
    less right where ``sorted`` is false."""
    return at_hand(_np.unique, build.to_var(ar), return_index=return_index, return_inverse=return_inverse,
                   return_counts=return_counts, axis=axis, equal_nan=equal_nan)  # fmt: skip


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Var:
    """An axis moved to before the axis ``start``."""
    v = build.to_var(a)
    if not (-v.ndim <= axis < v.ndim and -v.ndim <= start <= v.ndim):
        raise ShapeError(f"rollaxis(): axis {axis} to {start} does not fit a tensor of {v.ndim} axes")
    axis, start = axis % v.ndim, start + v.ndim if start < 0 else start
    order = [i for i in range(v.ndim) if i != axis]
    order.insert(start - (axis < start), axis)
    return shaping.transpose(v, order)


def roll(a: ArrayLike, shift: Ints, axis: Axes = None) -> Var:
    """Elements moved along axes (or the flat array), by as many places as there are axes or one for all; what leaves
    comes in at the other end."""
    v = build.to_var(a)
    shifts = shaping.dims_of(shift)
    if not v.size:
        return v.copy()
    if axis is None:
        return shaping.reshape(_rolled(v.ravel(), sum(shifts), 0), v.shape)
    axes = reducing.axes_of(axis)
    if 1 not in (len(shifts), len(axes)) and len(shifts) != len(axes):
        raise ShapeError(f"roll(): shift {shift} and axis {axis} are not as many numbers")
    for by, where in _np.broadcast(shifts, axes):
        v = _rolled(v, int(by), shaping.axis_of(v, int(where)))
    return build.own(v)


def _rolled(v: Var, shift: int, axis: int) -> Var:
    length = v.shape[axis]
    by = shift % length if length else 0
    return shaping.concat(shaping.split(v, [length - by, by], axis)[::-1], axis) if by else build.own(v)


def flip(m: ArrayLike, axis: Axes = None) -> Var:
    """Elements in the opposite order along axes, or along all."""
    v = build.to_var(m)
    axes = list(range(v.ndim)) if axis is None else reducing.axes_of(axis)
    return shaping.reverse(v, axes) if axes else +v


def flipud(m: ArrayLike) -> Var:
    """Upside down."""
    return flip(m, 0)


def fliplr(m: ArrayLike) -> Var:
    """Left to right."""
    return flip(m, 1)


def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Var:
    """Turned ``k`` times by 90 degrees, from the first of two axes towards the second."""
    v = build.to_var(m)
    pair = [int(a) for a in axes]
    if len(pair) != 2 or any(not -v.ndim <= a < v.ndim for a in pair) or pair[0] % v.ndim == pair[1] % v.ndim:
        raise ShapeError(f"rot90(): axes {axes} are no two axes of a tensor of shape {v.shape}")
    turns = int(k) % 4
    if not turns:
        return v.copy() if not v._expr.sources else v
    if turns == 2:
        return flip(flip(v, pair[0]), pair[1])
    return swapaxes(flip(v, pair[1]), *pair) if turns == 1 else flip(swapaxes(v, *pair), pair[1])


class broadcast:  # noqa: N801 - numpy's name
    """Arrays broadcast against each other, element by element: iterating gives tuples of Python numbers."""

    def __init__(self, x: ArrayLike, y: ArrayLike, *args: ArrayLike) -> None:
        self._vars = broadcast_arrays(x, y, *args)
        self.shape: tuple[int, ...] = tuple(self._vars[0].shape) if self._vars else ()
        """The sizes that all have in common."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    nd = ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(_np.prod(self.shape, dtype=_np.int64))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*(v.read_as_tuple() for v in self._vars), strict=True)


def broadcast_arrays(*args: ArrayLike) -> list[Var]:
    """Arrays broadcast to the shape that they have in common."""
    parts = [build.to_var(a) for a in args]
    try:
        shape = _np.broadcast_shapes(*(tuple(p.shape) for p in parts))
    except ValueError as error:
        raise ShapeError(f"shapes {[p.shape for p in parts]} do not broadcast") from error
    return [shaping.broadcast_to(p, list(shape)) for p in parts]


def choose(a: ArrayLike, choices: Sequence[ArrayLike], out: Var | None = None, mode: str = "raise") -> Var:
    """At each place the element of the array that ``a`` names; positions beyond are errors, wrapped or clipped."""
    parts = [build.to_var(c)._array() for c in choices]
    return build.to_var(into(at_hand(lambda x: _np.choose(x, parts, mode=mode), a), out))


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Var:
    """At each place the choice whose condition is the first that holds there, or ``default``."""
    if len(condlist) != len(choicelist):
        raise ShapeError(f"select(): {len(condlist)} conditions for {len(choicelist)} choices")
    found = build.to_var(default)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = math.select(condition, choice, found)
    return found


__all__ = [
    "append", "broadcast", "broadcast_arrays", "choose", "delete", "flip", "fliplr", "flipud", "insert", "resize",
    "roll", "rollaxis", "rot90", "row_stack", "select", "trim_zeros", "unique",
]  # fmt: skip
