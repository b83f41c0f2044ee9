"""Operators that cut tensors apart, put them together and pad them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from MNN.errors import ShapeError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import cut, normalize_axis
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.common import agree
from MNN.ops.core.operands import operand, optional

_FROM_ONNX = 1
MAX_SIZE = 1 << 28
"""Padded axes stay below this."""


@register("StridedSlice")
class StridedSlice(Operator):
    """Slices by begin, end and step per axis.

    With ``fromType`` 1 the operands are x, starts, ends, axes?, steps? (ONNX). Otherwise x, begin, end, strides? with
    TensorFlow's masks: bit i of ``beginMask`` and ``endMask`` ignores that bound, of ``shrinkAxisMask`` takes one
    element and drops the axis, of ``newAxisMask`` inserts an axis, of ``ellipsisMask`` fills up with whole axes.
    """

    repeats = True
    attributes = {
        "Index": "DT_INVALID",
        "T": "DT_INVALID",
        "beginMask": 0,
        "endMask": 0,
        "ellipsisMask": 0,
        "newAxisMask": 0,
        "shrinkAxisMask": 0,
        "fromType": 0,
    }

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        begins, ends = b.ints(operand(b, inputs, 1), "the starts"), b.ints(operand(b, inputs, 2), "the ends")
        if self.int_attr(node, "fromType") == _FROM_ONNX:
            axes, steps = optional(inputs, 3), optional(inputs, 4)
            where = tuple(range(len(begins))) if axes is None else b.ints(axes, "the axes")
            strides = (1,) * len(begins) if steps is None else b.ints(steps, "the steps")
            return [slice_axes(b, x, begins, ends, where, strides)]
        if optional(inputs, 4) is not None:
            raise UnsupportedError(f"{b.where}: writing into a slice (a fifth operand) is not supported")
        steps = optional(inputs, 3)
        strides = (1,) * len(begins) if steps is None else b.ints(steps, "the strides")
        return [self._masked(b, node, x, begins, ends, strides)]

    def _masked(
        self, b: Builder, node: Node, x: Tensor, begins: Sequence[int], ends: Sequence[int], strides: Sequence[int]
    ) -> Tensor:
        names = ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask")
        begin_mask, end_mask, ellipsis, new_axis, shrink = (self.int_attr(node, n) for n in names)
        if not len(begins) == len(ends) == len(strides):
            raise ShapeError(f"{b.where}: begin {begins}, end {ends} and strides {strides} differ in length")
        index: list[slice | int | None] = []
        used = sum(1 for i in range(len(begins)) if not (new_axis >> i & 1 or ellipsis >> i & 1))
        for i, (begin, end, step) in enumerate(zip(begins, ends, strides, strict=True)):
            if ellipsis >> i & 1:
                index += [slice(None)] * (x.rank - used)
            elif new_axis >> i & 1:
                index.append(None)
            elif shrink >> i & 1:
                index.append(begin)
            else:
                index.append(slice(None if begin_mask >> i & 1 else begin, None if end_mask >> i & 1 else end, step))
        return basic_index(b, x, index)


def basic_index(b: Builder, x: Tensor, index: Sequence[slice | int | None]) -> Tensor:
    """``x[index]`` by numpy's rules for slices, integers and None."""
    starts, counts, steps = [0] * x.rank, list(x.shape), [1] * x.rank
    shape: list[int] = []
    axis = 0
    for item in index:
        if item is None:
            shape.append(1)
            continue
        if axis >= x.rank:
            raise ShapeError(f"{b.where}: more indices than the axes of {list(x.shape)}")
        size = x.shape[axis]
        if isinstance(item, int):
            if not -size <= item < size:
                raise ShapeError(f"{b.where}: index {item} is outside axis {axis} of {list(x.shape)}")
            starts[axis], counts[axis] = item % size, 1
        else:
            if item.step == 0:
                raise ShapeError(f"{b.where}: a step of 0 along axis {axis}")
            start, stop, step = item.indices(size)
            counts[axis] = len(range(start, stop, step))
            starts[axis], steps[axis] = (start, step) if counts[axis] else (0, 1)
            shape.append(counts[axis])
        axis += 1
    shape += x.shape[axis:]
    return b.reshape(b.slice(x, starts, counts, steps), shape)


def slice_axes(
    b: Builder, x: Tensor, begins: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Tensor:
    """``x[begin:end:step]`` along some axes; bounds beyond the size are clipped (ONNX Slice)."""
    if not len(begins) == len(ends) == len(axes) == len(steps):
        raise ShapeError(
            f"{b.where}: starts {list(begins)}, ends {list(ends)}, axes {list(axes)} and steps {list(steps)} "
            "differ in length"
        )
    index: list[slice | int | None] = [slice(None)] * x.rank
    places = [normalize_axis(axis, x.rank, b.where) for axis in axes]
    if len(set(places)) < len(places):
        raise ShapeError(f"{b.where}: axes {list(axes)} name one of {x.rank} twice")
    for begin, end, at, step in zip(begins, ends, places, steps, strict=True):
        index[at] = cut(begin, end, step, x.shape[at])
    return basic_index(b, x, index)


@register("SliceTf")
class SliceTf(Operator):
    """x, begin, size: as many elements from begin on; -1 means all that are left."""

    attributes = {"T": "DT_INVALID"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        begin, size = b.ints(operand(b, inputs, 1), "begin"), b.ints(operand(b, inputs, 2), "size")
        if len(begin) != x.rank or len(size) != x.rank:
            raise ShapeError(f"{b.where}: begin {list(begin)} and size {list(size)} do not fit {list(x.shape)}")
        starts = [s + d if s < 0 else s for s, d in zip(begin, x.shape, strict=True)]
        counts = [d - s if n == -1 else n for n, s, d in zip(size, starts, x.shape, strict=True)]
        return [b.slice(x, starts, counts)]


@register("Slice")
class Slice(Operator):
    """Cuts ``x`` along ``axis`` into pieces.

    ``slicePoints`` are the pieces' sizes (positions of the cuts when ``sourceType`` is CAFFE); one of them may be -1.
    A single point is the size of every piece (their number for TENSORFLOW). The second operand may give the sizes.
    Without any, the pieces are equal, the last one smaller (or empty) when it does not divide.
    """

    repeats = True
    attributes = {"axis": 0, "slicePoints": None, "sourceType": "CAFFE"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, given = operand(b, inputs, 0), optional(inputs, 1)
        axis = normalize_axis(self.int_attr(node, "axis"), x.rank, b.where)
        size, outputs, source = x.shape[axis], len(node.outputs), self.str_attr(node, "sourceType")
        points = list(
            self.ints_attr(node, "slicePoints") if given is None else b.ints(given, "the sizes of the pieces")
        )
        if source == "CAFFE" and given is None and points:
            cuts = [0, *points, size][: outputs + 1]
            sizes = [z - a for a, z in pairwise(cuts)]
        elif len(points) > 1 or given is not None or (points and outputs == 1):
            sizes = points
        elif points and source == "TORCH":
            sizes = [min(points[0], size - i * points[0]) for i in range(outputs)]
        else:
            piece = -(-size // outputs)
            if source == "TORCH" and size < piece * (outputs - 1):
                raise ShapeError(f"{b.where}: axis {axis} of {list(x.shape)} has too few for {outputs} pieces")
            sizes = [max(min(piece, size - i * piece), 0) for i in range(outputs)]
        if source == "TORCH" and -1 not in sizes and sum(sizes) != size:
            raise ShapeError(f"{b.where}: pieces of {list(sizes)} are not all of axis {axis} of {list(x.shape)}")
        return split(b, x, axis, sizes)


def split(b: Builder, x: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
    """Neighbouring pieces of these sizes; one may be -1 for what is left."""
    known = sum(s for s in sizes if s >= 0)
    filled = [x.shape[axis] - known if s == -1 else s for s in sizes]
    if list(sizes).count(-1) > 1 or any(s < 0 for s in filled) or sum(filled) > x.shape[axis]:
        raise ShapeError(f"{b.where}: pieces of {list(sizes)} do not fit axis {axis} of {list(x.shape)}")
    pieces, at = [], 0
    for n in filled:
        starts, counts = [0] * x.rank, list(x.shape)
        starts[axis], counts[axis] = at if n else 0, n
        pieces.append(b.slice(x, starts, counts))
        at += n
    return pieces


@register("Unpack")
class Unpack(Operator):
    """One output per element along ``axis``, which is dropped."""

    attributes = {"axis": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        axis = normalize_axis(self.int_attr(node, "axis"), x.rank, b.where)
        return [b.squeeze(t, [axis]) for t in split(b, x, axis, [1] * x.shape[axis])]


@register("Concat")
class Concat(Operator):
    """Operands one after the other along ``axis``."""

    repeats = True
    attributes = {"axis": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        parts = agree(b, *[operand(b, inputs, i) for i in range(len(inputs))])
        if not parts or not parts[0].rank:
            raise ShapeError(f"{b.where}: nothing to concatenate, found {parts}")
        return [b.concat(parts, self.int_attr(node, "axis"))]


@register("Pack")
class Pack(Operator):
    """Operands of one shape stacked along a new ``axis``."""

    attributes = {"dataType": "DT_INVALID", "axis": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        parts = agree(b, *[operand(b, inputs, i) for i in range(len(inputs))])
        if not parts:
            raise ShapeError(f"{b.where}: nothing to stack")
        axis = normalize_axis(self.int_attr(node, "axis"), parts[0].rank + 1, b.where)
        return [b.concat([b.unsqueeze(t, [axis]) for t in parts], axis)]


@register("Padding")
class Padding(Operator):
    """x, pads ``[begin0, end0, begin1, end1, ...]``, value?: a border of ``mode`` CONSTANT, REFLECT, SYMMETRIC or EDGE.

    Negative amounts crop.
    """

    attributes = {"mode": "CONSTANT"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        return [pad(b, x, self.str_attr(node, "mode"), b.ints(operand(b, inputs, 1), "the pads"), optional(inputs, 2))]


@register("PadWrap")
class PadWrap(Operator):
    """Like Padding, continuing the tensor periodically."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [pad(b, operand(b, inputs, 0), "WRAP", b.ints(operand(b, inputs, 1), "the pads"), None)]


@register("PadAxes")
class PadAxes(Operator):
    """x, pads, value?, axes: pads are the begins, then the ends, of the named axes only (ONNX)."""

    in_mnn = False
    attributes = {"mode": "CONSTANT"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, pads = operand(b, inputs, 0), b.ints(operand(b, inputs, 1), "the pads")
        axes = [normalize_axis(a, x.rank, b.where) for a in b.ints(operand(b, inputs, 3), "the axes")]
        if len(pads) != 2 * len(axes):
            raise ShapeError(f"{b.where}: {len(pads)} pads for {len(axes)} axes, expected two for each")
        full = [0] * (2 * x.rank)
        for i, axis in enumerate(axes):
            full[2 * axis : 2 * axis + 2] = pads[i], pads[i + len(axes)]
        return [pad(b, x, self.str_attr(node, "mode"), full, optional(inputs, 2))]


def pad(b: Builder, x: Tensor, mode: str, pads: Sequence[int], value: Tensor | None) -> Tensor:
    """A border of ``pads`` (begin and end of axis 0, of axis 1, ...)."""
    if len(pads) != 2 * x.rank:
        raise ShapeError(f"{b.where}: {len(pads)} pads for an input of shape {list(x.shape)}, expected {2 * x.rank}")
    low, high = pads[0::2], pads[1::2]
    if mode == "CONSTANT":
        if any(d + a + z < 0 for d, a, z in zip(x.shape, low, high, strict=True)):
            raise ShapeError(f"{b.where}: pads {list(pads)} take more than all of {list(x.shape)}")
        number = b.value(value, "the value to pad with").reshape(-1) if value is not None else np.zeros(1)
        if x.dtype is DType.STR or number.size != 1:
            raise ShapeError(f"{b.where}: one number pads a tensor of numbers, found {number.size} for {x.dtype.value}")
        return b.pad(x, low, high, number[0].item())
    for axis, (a, z) in enumerate(zip(low, high, strict=True)):
        if a or z:
            x = _pad_axis(b, x, axis, mode, a, z)
    return x


def _pad_axis(b: Builder, x: Tensor, axis: int, mode: str, low: int, high: int) -> Tensor:
    first, size = max(-low, 0), x.shape[axis] + min(low, 0) + min(high, 0)  # what is cut off is not repeated
    if (size < 1 and (x.shape[axis] == 0 or low > 0 or high > 0)) or not 0 <= x.shape[axis] + low + high < MAX_SIZE:
        raise ShapeError(f"{b.where}: cannot pad axis {axis} of {list(x.shape)} by {low} and {high} in mode {mode}")
    starts, counts = [0] * x.rank, list(x.shape)
    starts[axis], counts[axis] = (first, size) if size > 0 else (0, 0)
    x, low, high = b.slice(x, starts, counts), max(low, 0), max(high, 0)
    if not low and not high:
        return x
    b.require(size + low + high, f"axis {axis}")
    where = np.arange(-low, size + high)
    if mode == "EDGE":
        index = np.clip(where, 0, size - 1)
    elif mode == "WRAP":
        index = where % size
    elif mode == "SYMMETRIC":
        folded = where % (2 * size)
        index = np.where(folded < size, folded, 2 * size - 1 - folded)
    elif mode == "REFLECT":
        period = max(2 * size - 2, 1)
        folded = where % period
        index = np.where(folded < size, folded, period - folded)
    else:
        raise ShapeError(f"{b.where}: mode {mode} is not one of CONSTANT, REFLECT, SYMMETRIC, EDGE")
    return b.concat(_runs(b, x, axis, index), axis) if index.size else b.take(x, b.const(index, DType.I64), axis)


def _runs(b: Builder, x: Tensor, axis: int, index: np.ndarray) -> list[Tensor]:
    """``take`` of a constant index as slices: runs that step by 1, -1 or 0."""
    parts: list[Tensor] = []
    at = 0
    while at < index.size:
        step = int(index[at + 1] - index[at]) if at + 1 < index.size else 1
        end = at + 1
        while end < index.size and step in (-1, 0, 1) and index[end] - index[end - 1] == step:
            end += 1
        starts, counts, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[axis], counts[axis], steps[axis] = int(index[at]), end - at, step
        if step == 0:
            counts[axis] = 1
            one = b.slice(x, starts, counts)
            parts.append(b.expand(one, [end - at if i == axis else d for i, d in enumerate(x.shape)]))
        else:
            parts.append(b.slice(x, starts, counts, steps))
        at = end
    return parts


@register("Reverse")
class Reverse(Operator):
    """Elements in the opposite order along the axes in the second operand."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        flipped = {normalize_axis(a, x.rank, b.where) for a in b.ints(operand(b, inputs, 1), "the axes")}
        flipped = {a for a in flipped if x.shape[a]}
        starts = [d - 1 if i in flipped else 0 for i, d in enumerate(x.shape)]
        return [b.slice(x, starts, x.shape, [-1 if i in flipped else 1 for i in range(x.rank)])]
