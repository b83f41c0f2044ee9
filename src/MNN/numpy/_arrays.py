"""Arrays made from data, shapes and ranges; arrays joined, split and rearranged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, overload

import numpy as _np
from numpy.typing import ArrayLike

from MNN.errors import CallError, MNNError, ShapeError
from MNN.expr import build, compute, create, shaping
from MNN.expr.arrays import direct, few, later
from MNN.expr.arrays.options import check_casting, check_order, into
from MNN.expr.types import Axes, ElementType, Ints, PadValue_Mode, dtype, dtype_of, public
from MNN.expr.var import Var
from MNN.ir.dtype import DType
from MNN.numpy._at_hand import at_hand


def array(object: ArrayLike, dtype: ElementType | None = None, copy: bool = True, order: str | None = "K",
          subok: bool = False, ndmin: int = 0, like: object = None) -> Var:  # fmt: skip
    """A Var of numbers, nested sequences, arrays or Vars. Doubles become ``float``, 64-bit integers that fit ``int``.

    Memory is in row-major order; Vars have no subclasses, so that ``subok`` makes no difference, and ``like`` is
    refused."""
    check_order(order, "array")
    if like is not None:
        raise MNNError(f"array(): like makes arrays of other packages, found {type(like).__name__}")
    if isinstance(object, Var):
        v = object.copy() if copy else object
    elif isinstance(object, (list, tuple)) and any(isinstance(o, Var) for o in object):
        v = shaping.stack([build.to_var(o) for o in object])
    else:
        wide = dtype is not None and dtype_of(dtype) is DType.F64
        v = build.leaf(_np.array(compute.as_array(object, "array()", wide)))
    v = v if dtype is None else build.cast(v, dtype_of(dtype))
    return shaping.unsqueeze(v, list(range(ndmin - v.ndim))) if ndmin > v.ndim else v


def asarray(
    a: ArrayLike, dtype: ElementType | None = None, order: str | None = None, *, copy: bool | None = None
) -> Var:
    """Like :func:`array`, without a copy of what is a Var already unless ``copy`` is true. Where it is false, what is
    no Var, or one of another element type, is refused."""
    if copy is False and not (isinstance(a, Var) and (dtype is None or a._kind is dtype_of(dtype))):
        raise MNNError(f"asarray(): {type(a).__name__} becomes a Var by a copy, which copy=False does not allow")
    return array(a, dtype, copy=bool(copy), order=order)


def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> Var:
    """A constant with the same numbers."""
    return array(a, order=order)


def full(shape: Ints, fill_value: ArrayLike, dtype: ElementType | None = None, order: str = "C") -> Var:
    """An array full of one number; of the number's type unless ``dtype`` says otherwise."""
    check_order(order, "full")
    if (type(fill_value) is int and -(1 << 31) <= fill_value < 1 << 31) or type(fill_value) is float:
        plain = (DType.F32 if type(fill_value) is float else DType.I32) if dtype is None else dtype_of(dtype)
        if plain in few.NUMBERS and (plain.is_float or type(fill_value) is int):
            value = later.scalar(fill_value) if plain is DType.F32 else fill_value
            if value is not None:
                made = _np.empty(compute.shape_of(shape), plain.numpy)
                made.fill(value)
                return build.leaf(made)
    wanted = None if dtype is None else dtype_of(dtype)
    found = compute.as_array(_given(fill_value), "full()", wanted is DType.F64 or isinstance(fill_value, Var))
    kind = DType.of(found) if wanted is None else wanted
    if found.dtype.kind in "iu" and not kind.is_float and found.size:
        ends: Any = _np.iinfo(kind.numpy)
        if strange := [n for n in (int(found.min()), int(found.max())) if not ends.min <= n <= ends.max]:
            raise MNNError(f"full(): {strange[0]} is no number of {public(kind)}; name a dtype that has it")
    return build.leaf(_np.full(compute.shape_of(shape), found, kind.numpy))


def _given(value: object) -> object:
    return value._array() if isinstance(value, Var) else value


def zeros(shape: Ints, dtype: ElementType | None = None, order: str = "C") -> Var:
    """Zeros; of type ``int`` unless said otherwise, as in PyMNN."""
    return full(shape, 0, dtype, order)


def ones(shape: Ints, dtype: ElementType | None = None, order: str = "C") -> Var:
    """Ones; of type ``int`` unless said otherwise, as in PyMNN."""
    return full(shape, 1, dtype, order)


def empty(shape: Ints, dtype: ElementType = dtype.float, order: str = "C") -> Var:
    """An array to be written; its numbers are 0."""
    return full(shape, 0, dtype, order)


def full_like(a: ArrayLike, fill_value: ArrayLike, dtype: ElementType | None = None, order: str = "K",
              subok: bool = True, shape: Ints | None = None) -> Var:  # fmt: skip
    """An array full of one number with the shape and type of another."""
    v = build.to_var(a)
    return full(v.shape if shape is None else shape, fill_value, v.dtype if dtype is None else dtype, order)


def zeros_like(
    a: ArrayLike, dtype: ElementType | None = None, order: str = "K", subok: bool = True, shape: Ints | None = None
) -> Var:
    """Zeros with the shape and type of another array."""
    return full_like(a, 0, dtype, order, shape=shape)


def ones_like(
    a: ArrayLike, dtype: ElementType | None = None, order: str = "K", subok: bool = True, shape: Ints | None = None
) -> Var:
    """Ones with the shape and type of another array."""
    return full_like(a, 1, dtype, order, shape=shape)


def empty_like(
    prototype: ArrayLike,
    dtype: ElementType | None = None,
    order: str = "K",
    subok: bool = True,
    shape: Ints | None = None,
) -> Var:
    """An array to be written, with the shape and type of another."""
    return full_like(prototype, 0, dtype, order, shape=shape)


def eye(N: int, M: int | None = None, k: int = 0, dtype: ElementType = dtype.float, order: str = "C") -> Var:
    """Ones on diagonal ``k``, zeros elsewhere."""
    check_order(order, "eye")
    (rows,), (columns,) = compute.shape_of(N, "N"), compute.shape_of(N if M is None else M, "M")
    return build.leaf(_np.eye(rows, columns, k, dtype=dtype_of(dtype).numpy))


def identity(n: int, dtype: ElementType = dtype.float) -> Var:
    """Ones on the diagonal of a square."""
    return eye(n, dtype=dtype)


def arange(*args: ArrayLike, **kargs: ElementType | None) -> Var:
    """``arange(stop)``, ``arange(start, stop)`` or ``arange(start, stop, step)``; ``dtype`` by keyword, which the
    other three may be given by, too."""
    kind: Any = kargs.pop("dtype", None)
    named: dict[str, Any] = kargs
    if "stop" in named and len(args) < 2:
        args = (args[0] if args else named.pop("start", 0), named.pop("stop"))
    if "step" in named and 0 < len(args) < 3:
        args = (*(args if len(args) == 2 else (0, *args)), named.pop("step"))
    if kargs or not 1 <= len(args) <= 3:
        raise CallError(f"arange() takes up to three numbers and dtype, found {args} {kargs}")
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) == 3 else 1
    if kind is not None and dtype_of(kind) is DType.F64 and step and all(type(a) in (int, float) for a in args):
        return build.leaf(_np.arange(start, stop, step, _np.float64))  # type: ignore[call-overload] # plain numbers
    v = create.range(start, stop, step)
    return v if kind is None else v.astype(kind)


@overload
def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, retstep: Literal[False] = False,
             dtype: ElementType | None = None, axis: int = 0) -> Var: ...  # fmt: skip
@overload
def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, *, retstep: Literal[True],
             dtype: ElementType | None = None, axis: int = 0) -> tuple[Var, float]: ...  # fmt: skip
def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: ElementType | None = None, axis: int = 0) -> Var | tuple[Var, float]:  # fmt: skip
    """Evenly spaced numbers; with ``retstep`` also their distance."""
    if num < 0:
        raise MNNError(f"linspace(): num is how many numbers are made, found {num}")
    values, step = _np.linspace(start, stop, num, endpoint=endpoint, retstep=True, axis=axis)
    kind = DType.F32 if dtype is None else dtype_of(dtype)
    v = build.leaf((values if kind.is_float else _np.floor(values)).astype(kind.numpy))
    return (v, float(step)) if retstep else v


def concatenate(args: Sequence[ArrayLike], axis: int | None = 0, out: Var | None = None,
                dtype: ElementType | None = None, casting: str = "same_kind") -> Var:  # fmt: skip
    """Arrays one after the other along an axis, or flat when it is None; ``dtype`` where ``casting`` allows it."""
    if out is None and dtype is None and (found := direct.joined(args, axis)) is not None:
        return found
    target = out.dtype if isinstance(out, Var) else dtype
    parts = [build.to_var(a) for a in args] if target is None else _cast(args, target, casting, "concatenate")
    v = shaping.concat([p.ravel() for p in parts], 0) if axis is None else shaping.concat(parts, axis)
    return build.to_var(into(v, out))


def stack(arrays: Sequence[ArrayLike], axis: int = 0, out: Var | None = None, *, dtype: ElementType | None = None,
          casting: str = "same_kind") -> Var:  # fmt: skip
    """Arrays of one shape along a new axis; as ``dtype``, where ``casting`` allows it."""
    parts = arrays if dtype is None else _cast(arrays, dtype, casting, "stack")
    return build.to_var(into(shaping.stack(parts, axis), out, casting))


def vstack(tup: Sequence[ArrayLike], *, dtype: ElementType | None = None, casting: str = "same_kind") -> Var:
    """Arrays below each other; vectors count as rows."""
    return concatenate([atleast_2d(t) for t in tup], 0, None, dtype, casting)


def hstack(tup: Sequence[ArrayLike], *, dtype: ElementType | None = None, casting: str = "same_kind") -> Var:
    """Arrays beside each other."""
    parts = [atleast_1d(t) for t in tup]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, None, dtype, casting)


def _cast(arrays: Sequence[ArrayLike], dtype: ElementType, casting: str, name: str) -> list[Var]:
    parts = [build.to_var(a) for a in arrays]
    check_casting([p._kind for p in parts], dtype_of(dtype), casting, name)
    return [p.astype(dtype) for p in parts]


def dstack(tup: Sequence[ArrayLike]) -> Var:
    """Arrays behind each other."""
    return shaping.concat([atleast_3d(t) for t in tup], 2)


def column_stack(tup: Sequence[ArrayLike]) -> Var:
    """Vectors as columns."""
    parts = [build.to_var(t) for t in tup]
    return shaping.concat([shaping.reshape(p, [-1, 1]) if p.ndim < 2 else p for p in parts], 1)


@overload
def atleast_1d(a0: ArrayLike, /) -> Var: ...
@overload
def atleast_1d(a0: ArrayLike, a1: ArrayLike, /, *arys: ArrayLike) -> list[Var]: ...
def atleast_1d(*arys: ArrayLike) -> Var | list[Var]:
    """At least one axis."""
    return _each(arys, lambda v: v if v.ndim else shaping.reshape(v, [1]))


@overload
def atleast_2d(a0: ArrayLike, /) -> Var: ...
@overload
def atleast_2d(a0: ArrayLike, a1: ArrayLike, /, *arys: ArrayLike) -> list[Var]: ...
def atleast_2d(*arys: ArrayLike) -> Var | list[Var]:
    """At least two axes; vectors become rows."""
    return _each(arys, lambda v: v if v.ndim > 1 else shaping.reshape(v, [1, -1]))


@overload
def atleast_3d(a0: ArrayLike, /) -> Var: ...
@overload
def atleast_3d(a0: ArrayLike, a1: ArrayLike, /, *arys: ArrayLike) -> list[Var]: ...
def atleast_3d(*arys: ArrayLike) -> Var | list[Var]:
    """At least three axes."""
    return _each(arys, lambda v: v if v.ndim > 2 else shaping.reshape(v, [*v.shape, 1] if v.ndim == 2 else [1, -1, 1]))


def _each(values: Sequence[ArrayLike], change: Callable[[Var], Var]) -> Var | list[Var]:
    found = [build.own(change(build.to_var(v))) for v in values]
    return found[0] if len(found) == 1 else found


def split(ary: ArrayLike, indices_or_sections: Ints, axis: int = 0) -> list[Var]:
    """Equal pieces, or pieces between positions."""
    v = build.to_var(ary)
    if isinstance(indices_or_sections, (int, _np.integer)):
        return shaping.split(v, int(indices_or_sections), axis)
    where = shaping.axis_of(v, axis)
    length, places = v.shape[where], shaping.dims_of(indices_or_sections)
    cuts = [0, *(min(max(c + length if c < 0 else c, 0), length) for c in places), length]
    if cuts != sorted(cuts):  # pieces that are empty, before others that begin again further left
        return [v[(slice(None),) * where + (slice(a, z),)] for a, z in pairwise(cuts)]
    return shaping.split(v, [z - a for a, z in pairwise(cuts)], axis)


def array_split(ary: ArrayLike, indices_or_sections: Ints, axis: int = 0) -> list[Var]:
    """Like :func:`split`; the first pieces are one longer where it does not divide."""
    v = build.to_var(ary)
    if not isinstance(indices_or_sections, (int, _np.integer)):
        return split(v, indices_or_sections, axis)
    count, length = int(indices_or_sections), v.shape[shaping.axis_of(v, axis)]
    if not 1 <= count < 1 << 31:
        raise ShapeError(f"cannot split into {count} pieces")
    return shaping.split(v, [length // count + (i < length % count) for i in range(count)], axis)


def hsplit(ary: ArrayLike, indices_or_sections: Ints) -> list[Var]:
    """Split along the second axis (the only one of a vector)."""
    v = build.to_var(ary)
    return split(v, indices_or_sections, 0 if v.ndim == 1 else 1)


def vsplit(ary: ArrayLike, indices_or_sections: Ints) -> list[Var]:
    """Split along the first axis."""
    return split(ary, indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: Ints) -> list[Var]:
    """Split along the third axis."""
    return split(ary, indices_or_sections, 2)


def reshape(
    a: ArrayLike, *newshape: Ints, order: str = "C", shape: Ints | None = None, copy: bool | None = None
) -> Var:
    """Other sizes, which may be called ``shape``; with order "F" first axes run fastest. It is another Var, whatever
    ``copy`` says."""
    if (shape is None) != bool(newshape):
        raise CallError(f"reshape() takes sizes once, found {newshape} and shape={shape}")
    v, sizes = build.to_var(a), newshape if shape is None else (shape,)
    dims = shaping.dims_of(sizes[0] if len(sizes) == 1 else sizes)
    if 0 in dims and -1 not in dims and not v.size:  # of nothing, a size of 0 is no other one that is kept
        return empty(dims, v.dtype, order if order == "C" else "K")
    return v.reshape(dims, order=order)


def ravel(a: ArrayLike, order: str = "C") -> Var:
    """One axis; with order "F" the first axis runs fastest."""
    return build.to_var(a).ravel(order)


def transpose(a: ArrayLike, axes: Axes = None) -> Var:
    """Axes in another order; reversed when none is given."""
    return shaping.transpose(a, axes)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Var:
    """Two axes exchanged."""
    return build.to_var(a).swapaxes(axis1, axis2)


def moveaxis(a: ArrayLike, source: Ints, destination: Ints) -> Var:
    """Axes moved to other places."""
    v = build.to_var(a)
    try:
        _np.moveaxis(_np.empty((1,) * v.ndim), source, destination)
    except ValueError as error:
        raise ShapeError(f"moveaxis() of {v.ndim} axes: {error}") from error
    take, put = ([i % v.ndim for i in shaping.dims_of(s)] for s in (source, destination))
    order = [i for i in range(v.ndim) if i not in take]
    for place, axis in sorted(zip(put, take, strict=True)):
        order.insert(place, axis)
    return shaping.transpose(v, order)


def squeeze(a: ArrayLike, axis: Axes = None) -> Var:
    """Without axes of size 1."""
    return build.to_var(a).squeeze(axis)


def expand_dims(x: ArrayLike, axis: Ints) -> Var:
    """New axes of size 1."""
    return shaping.unsqueeze(x, axis)


def tile(A: ArrayLike, reps: Ints) -> Var:
    """Repeated along each axis."""
    v, times = build.to_var(A), shaping.dims_of(reps)
    v = shaping.unsqueeze(v, list(range(len(times) - v.ndim))) if len(times) > v.ndim else v
    return shaping.tile(v, [1] * (v.ndim - len(times)) + times)


def repeat(a: ArrayLike, repeats: Ints, axis: int | None = None) -> Var:
    """Every element so many times; each its own number of times where there are as many of them."""
    return build.to_var(a).repeat(repeats, axis)


def broadcast_to(array: ArrayLike, shape: Ints) -> Var:
    """Broadcast to a shape."""
    v, sizes = build.to_var(array), shaping.dims_of(shape)
    ends = zip(v.shape[::-1], sizes[::-1], strict=False)
    if v.ndim > len(sizes) or any(have not in (1, wanted) for have, wanted in ends):
        raise ShapeError(f"broadcast_to(): shape {v.shape} does not become {sizes}")
    return shaping.broadcast_to(v, sizes)


def pad(array: ArrayLike, pad_width: ArrayLike, mode: str = "constant", **options: Any) -> Var:
    """A border of zeros (``constant``), mirrored (``reflect``) or mirrored with the edge (``symmetric``).

    numpy's other modes, and its options by name (``constant_values``, ``reflect_type``, ``stat_length``,
    ``end_values``), are computed of constants."""
    v = build.to_var(array)
    modes = {m.name.lower(): m for m in PadValue_Mode}
    if mode in modes and not options:
        try:
            widths = _np.broadcast_to(_np.asarray(pad_width), (v.ndim, 2))
        except ValueError as error:
            raise ShapeError(f"pad(): pad_width {pad_width!r} does not fit {v.ndim} axes") from error
        return shaping.pad(v, widths, modes[mode])
    given = {name: build.to_var(o)._array() if isinstance(o, Var) else o for name, o in options.items()}
    return build.to_var(at_hand(lambda x: _np.pad(x, pad_width, mode, **given), v))  # type: ignore[call-overload]


__all__ = [
    "arange", "array", "array_split", "asarray", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to",
    "column_stack", "concatenate", "copy", "dsplit", "dstack", "empty", "empty_like", "expand_dims", "eye",
    "full", "full_like", "hsplit", "hstack", "identity", "linspace", "moveaxis", "ones",
    "ones_like", "pad", "ravel", "repeat", "reshape", "split", "squeeze", "stack", "swapaxes", "tile",
    "transpose", "vsplit", "vstack", "zeros", "zeros_like",
]  # fmt: skip
