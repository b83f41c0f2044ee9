"""Functions that move elements: shapes, axes, layouts, pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import ShapeError
from MNN.expr import compute
from MNN.expr.arrays import direct, few, views
from MNN.expr.build import apply, apply_all, floats, ints, leaf, number, own, to_var
from MNN.expr.build import cast as _cast
from MNN.expr.types import (
    NCHW,
    NHWC,
    ElementType,
    Ints,
    PadValue_Mode,
    channels_first,
    channels_last,
    data_format,
    dtype,
    dtype_of,
    format_of,
    promote,
)
from MNN.expr.var import Var
from MNN.ir.dtype import DType


def convert(x: ArrayLike, format: data_format) -> Var:
    """The same tensor with its sizes listed in another layout; what holds channels is moved between NHWC and the rest.

    Tensors with fewer than three axes have no such axis and stay as they are.
    """
    return converted(own(to_var(x)), format)


def converted(v: Var, format: data_format) -> Var:
    """:func:`convert`; the result may lie in memory of the user's, as ``v`` may."""
    target = format_of(format)
    if (v.data_format is NHWC) == (target is NHWC):
        expr, index = v._expr, v._index
    else:
        order = channels_last(v.ndim) if target is NHWC else channels_first(v.ndim)
        if v.ndim < 3:
            moved = v
        elif v._expr.sources:
            moved = apply("Permute", v, layout=target, dims=list(order))
        else:
            moved = leaf(v._array().transpose(order), target)
            if v._expr.borrowed:
                moved._expr.borrowed = True
        expr, index = moved._expr, moved._index
    unconverted = None if v.ndim != 3 else v if v._unconverted is None else v._unconverted
    return Var(expr, index, target, unconverted)


def cast(x: ArrayLike, dtype: ElementType = dtype.float) -> Var:
    """The same numbers in another element type: fractions are cut off, numbers out of range saturate."""
    return own(_cast(to_var(x), dtype_of(dtype)))


def reshape(x: ArrayLike, shape: Ints, original_format: data_format = NCHW) -> Var:
    """The same elements in row-major order under other sizes; 0 keeps a size, -1 is computed.

    ``original_format`` is taken for PyMNN's sake: elements are always read in the order in which ``x`` lists them.
    """
    format_of(original_format)
    v, sizes = to_var(x), dims_of(shape)
    found = views.resized(v, sizes)
    return found if found is not None else apply("Reshape", v, dims=sizes)


def reordered(x: Var, shape: Ints) -> Var:
    """The same elements in the order in which first axes run fastest under other sizes, of which -1 is computed."""
    sizes = dims_of(shape)
    return transpose(reshape(transpose(x), sizes[::-1]))


def dims_of(shape: object) -> list[int]:
    """Sizes, axes or positions that a user gives, as a list."""
    if type(shape) in (list, tuple) and all(type(d) is int for d in shape):  # type: ignore[attr-defined]
        return list(shape)  # type: ignore[call-overload, no-any-return]
    try:
        return compute.whole_numbers(shape)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"a shape is whole numbers, found {shape!r}") from error


def transpose(x: ArrayLike, perm: Ints | None = None) -> Var:
    """Axes in another order; reversed when none is given."""
    v = to_var(x)
    if (direct_ := direct.moved(v, perm)) is not None:
        return direct_
    order = list(reversed(range(v.ndim))) if perm is None else dims_of(perm)
    if not v.ndim:
        return own(v)
    found = few.moved(v, order)
    return found if found is not None else apply("Permute", v, dims=order)


def squeeze(x: ArrayLike, axes: Ints = ()) -> Var:
    """Drops axes of size 1: the given ones, or all."""
    v = to_var(x)
    return apply("Squeeze", v, squeezeDims=dims_of(axes))


def unsqueeze(x: ArrayLike, axes: Ints = ()) -> Var:
    """Inserts axes of size 1 at the given places of the result."""
    return apply("Unsqueeze", to_var(x), squeezeDims=dims_of(axes))


def expand_dims(x: ArrayLike, axis: Ints) -> Var:
    """Inserts axes of size 1."""
    return unsqueeze(x, axis)


def concat(values: Sequence[ArrayLike], axis: int) -> Var:
    """Tensors one after the other along an axis."""
    parts = _meet(values)
    found = few.joined(parts, int(axis), parts[0]._kind)
    return found if found is not None else apply("Concat", *parts, axis=int(axis))


def stack(values: Sequence[ArrayLike], axis: int = 0) -> Var:
    """Tensors of one shape along a new axis."""
    parts = _meet(values)
    found = views.stacked(parts, int(axis))
    return found if found is not None else apply("Pack", *parts, axis=int(axis))


def _meet(values: Sequence[object]) -> list[Var]:
    """Operands in one element type."""
    parts = [to_var(v) for v in values]
    if not parts:
        raise ShapeError("there is nothing to join")
    kinds = {p._kind for p in parts}
    if len(kinds) == 1:
        return parts
    kind = parts[0]._kind
    for p in parts[1:]:
        kind = promote(kind, p._kind)
    return [_cast(p, kind) for p in parts]


def split(x: ArrayLike, size_splits: Ints, axis: int) -> list[Var]:
    """Pieces along an axis: of the given sizes, or so many equal ones."""
    v = to_var(x)
    if not -v.ndim <= int(axis) < v.ndim:
        raise ShapeError(f"axis {axis} is outside of a tensor of shape {v.shape}")
    if isinstance(size_splits, (int, np.integer)):
        count = int(size_splits)
        if count < 1 or v.shape[axis] % count:
            raise ShapeError(f"axis {axis} of shape {v.shape} does not split into {count} equal pieces")
        sizes = [v.shape[axis] // count] * count
    else:
        sizes = dims_of(size_splits)
    if (found := views.pieces(v, sizes, int(axis))) is not None:
        return found
    return apply_all("Slice", [v, ints(sizes)], len(sizes), v.data_format, axis=int(axis), sourceType="TENSORFLOW")


def unstack(x: ArrayLike, axis: int = 0) -> list[Var]:
    """The elements along an axis, which is dropped."""
    v = to_var(x)
    if not -v.ndim <= int(axis) < v.ndim:
        raise ShapeError(f"axis {axis} is outside of a tensor of shape {v.shape}")
    return apply_all("Unpack", [v], v.shape[axis], axis=int(axis))


def slice(x: ArrayLike, starts: Ints, sizes: Ints) -> Var:
    """``sizes`` elements per axis from ``starts`` on; -1 means all that are left."""
    return apply("SliceTf", to_var(x), ints(starts), ints(sizes))


def strided_slice(
    x: ArrayLike, begin: Ints, end: Ints, strides: Ints, begin_mask: int = 0, end_mask: int = 0,
    ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
) -> Var:  # fmt: skip
    """Slices with TensorFlow's masks (bit i stands for entry i)."""
    return apply(
        "StridedSlice", to_var(x), ints(begin), ints(end), ints(strides), beginMask=begin_mask, endMask=end_mask,
        ellipsisMask=ellipsis_mask, newAxisMask=new_axis_mask, shrinkAxisMask=shrink_axis_mask,
    )  # fmt: skip


def tile(x: ArrayLike, multiples: Ints) -> Var:
    """The tensor repeated along each axis."""
    v = to_var(x)
    times = [] if isinstance(multiples, Var) else dims_of(multiples)
    fits = len(times) == v.ndim and min(times, default=-1) >= 0
    found = views.made(v, lambda a: np.tile(a, times)) if fits else None
    return found if found is not None else apply("Tile", v, _operand(multiples))


def broadcast_to(input: ArrayLike, shape: Ints) -> Var:
    """Broadcast to a shape by numpy's rule."""
    v = to_var(input)
    if not isinstance(shape, Var) and (found := views.spread(v, dims_of(shape))) is not None:
        return found
    return apply("BroadcastTo", v, _operand(shape))


def _operand(values: object) -> Var:
    return _cast(values, DType.I32) if isinstance(values, Var) else ints(values)


def pad(x: ArrayLike, paddings: ArrayLike, mode: PadValue_Mode = PadValue_Mode.CONSTANT) -> Var:
    """A border of ``paddings[axis] = [before, after]``: zeros, mirrored, or mirrored with the edge."""
    return apply("Padding", to_var(x), ints(paddings), mode=mode.name)


def gather(x: ArrayLike, index: ArrayLike) -> Var:
    """Rows of ``x`` by index; the indices' shape takes the place of the first axis."""
    return apply("GatherV2", to_var(x), _cast(to_var(index), DType.I32), leaf(np.asarray(0, np.int32)))


def gather_nd(x: ArrayLike, indices: ArrayLike) -> Var:
    """Elements (or slices) of ``x`` by coordinates along the last axis of ``indices``."""
    return apply("GatherND", to_var(x), _cast(to_var(indices), DType.I32))


def scatter_nd(indices: ArrayLike, updates: ArrayLike, shape: Ints) -> Var:
    """A tensor of zeros with ``updates`` at coordinates; of equal coordinates the last one counts."""
    v, dims = to_var(updates), _operand(shape)
    zeros = apply("Fill", dims, number(0, v._kind), layout=v.data_format)
    return apply("ScatterNd", _cast(to_var(indices), DType.I32), v, dims, zeros, layout=v.data_format, opType="NONE")


def axis_of(x: Var, axis: object) -> int:
    """One axis, counted from the front. Raises :class:`ShapeError` where a tensor has no such axis."""
    place, rank = axis if type(axis) is int else dims_of(axis)[0], x.ndim
    if not -rank <= place < rank:
        raise ShapeError(f"axis {axis} is outside of a tensor of shape {x.shape}")
    return place % rank


def reverse(x: ArrayLike, axis: Ints) -> Var:
    """Elements in the opposite order along axes."""
    v = to_var(x)
    if not isinstance(axis, Var):
        axis = axes = tuple([axis_of(v, a) for a in dims_of(axis)])
        if (found := views.seen(v, lambda a: np.flip(a, axes))) is not None:
            return found
    return apply("Reverse", v, _operand(axis))


def reverse_sequence(x: ArrayLike, y: ArrayLike, batch_dim: int, seq_dim: int) -> Var:
    """The first ``y[i]`` elements of batch entry i in the opposite order."""
    return apply(
        "ReverseSequence", to_var(x), _cast(to_var(y), DType.I32), batchDim=int(batch_dim), seqDim=int(seq_dim)
    )


def where(x: ArrayLike) -> Var:
    """Coordinates ``[count, rank]`` of the elements that are not 0."""
    return apply("Where", to_var(x))


def one_hot(indices: ArrayLike, depth: int, onValue: float = 1.0, offValue: float = 0.0, axis: int = -1) -> Var:
    """A new axis of size ``depth`` that holds ``onValue`` at the index; floats."""
    on = floats(onValue)
    off = number(offValue, on._kind)
    depth_var = leaf(np.asarray(int(depth), np.int32))
    return apply("OneHot", _cast(to_var(indices), DType.I32), depth_var, on, off, layout=NCHW, axis=int(axis))


def matrix_band_part(x: ArrayLike, num_lower: int, num_upper: int) -> Var:
    """Keeps so many diagonals below and above the main one (negative: all)."""
    v = to_var(x)
    low, high = number(int(num_lower), DType.I32), number(int(num_upper), DType.I32)
    return apply("MatrixBandPart", v, low, high)


def shape(x: ArrayLike) -> Var:
    """The sizes, as a vector of ``int``."""
    return apply("Shape", to_var(x), layout=NHWC)


def rank(x: ArrayLike) -> Var:
    """The number of axes."""
    return apply("Rank", to_var(x), layout=NHWC)


def size(x: ArrayLike) -> Var:
    """The number of elements."""
    return apply("Size", to_var(x), layout=NHWC)


def clone(x: Var, deepCopy: bool = False) -> Var:
    """Another Var of the same tensor; with ``deepCopy`` one whose numbers are its own."""
    return x.copy() if deepCopy else Var(x._expr, x._index, x.data_format, x._unconverted)


def unravel_index(indices: ArrayLike, shape: Ints) -> Var:
    """Coordinates of flat positions, one row per axis."""
    return apply("UnravelIndex", _cast(to_var(indices), DType.I32), _operand(shape))


def depth_to_space(x: ArrayLike, axis: int) -> Var:
    """Blocks of channels to squares of ``axis`` by ``axis`` pixels, in TensorFlow's order of channels."""
    return _blocks("DepthToSpace", x, axis)


def space_to_depth(x: ArrayLike, axis: int) -> Var:
    """The inverse of :func:`depth_to_space`."""
    return _blocks("SpaceToDepth", x, axis)


def _blocks(op: str, x: object, block: int) -> Var:
    v = to_var(x)
    if v.data_format is not NHWC:
        return apply(op, v, blockSize=int(block))
    return convert(apply(op, convert(v, NCHW), blockSize=int(block)), NHWC)


def setdiff1d(x: ArrayLike, y: ArrayLike) -> Var:
    """The elements of ``x`` that are not in ``y``, in the order of ``x`` and as often as there."""
    a, b = to_var(x), to_var(y)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"setdiff1d() takes tensors of one axis, found {a.shape} and {b.shape}")
    numbers = a._array()
    return leaf(numbers[~np.isin(numbers, b._array())], a.data_format)
