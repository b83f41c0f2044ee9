"""Operators that cut tensors apart and put them together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from MNN.errors import ShapeError, UnsupportedError
from MNN.ir import symbolic
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import counted, cut, normalize_axis
from MNN.ops.arranging.extents import MASKS, WHOLE, length, masked_index
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.common import agree
from MNN.ops.core.operands import operand, optional
from MNN.ops.inference import infer, symbolic_shape_check

_FROM_ONNX = 1


@register("StridedSlice")
class StridedSlice(Operator):
    """Slices by begin, end and step per axis.

    With ``fromType`` 1 the operands are x, starts, ends, axes?, steps? (ONNX). Otherwise x, begin, end, strides? with
    TensorFlow's masks: bit i of ``beginMask`` and ``endMask`` ignores that bound, of ``shrinkAxisMask`` takes one
    element and drops the axis, of ``newAxisMask`` inserts an axis, of ``ellipsisMask`` fills up with whole axes.
    """

    moves = True
    sizes_from = 1
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
        if not len(begins) == len(ends) == len(strides):
            raise ShapeError(f"{b.where}: begin {begins}, end {ends} and strides {strides} differ in length")
        index = masked_index([self.int_attr(node, n) for n in MASKS], begins, ends, strides, x.rank)
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
            starts[axis], counts[axis] = item + size if item < 0 else item, 1
        else:
            if item.step == 0:
                raise ShapeError(f"{b.where}: a step of 0 along axis {axis}")
            start, step, counts[axis] = counted(item, size)
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

    moves = True
    sizes_from = 1
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


@infer.rule(Unpack)
def _infer_unpack(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    shape = infer.sizes(x)
    if not shape:
        return []
    axis = infer.axis_of(int(str(node.attrs.get("axis", 0))), len(shape))
    return [(x.dtype, (*shape[:axis], *shape[axis + 1 :]))] * len(node.outputs)


@register("Concat")
class Concat(Operator):
    """Operands one after the other along ``axis``."""

    repeats = True
    attributes = {"axis": 0}

    def moved_operands(self, node: Node) -> Sequence[int]:
        return range(len(node.inputs))

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


@register("Reverse")
class Reverse(Operator):
    """Elements in the opposite order along the axes in the second operand."""

    keeps_shape = True

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        flipped = {normalize_axis(a, x.rank, b.where) for a in b.ints(operand(b, inputs, 1), "the axes")}
        flipped = {a for a in flipped if x.shape[a]}
        starts = [d - 1 if i in flipped else 0 for i, d in enumerate(x.shape)]
        return [b.slice(x, starts, x.shape, [-1 if i in flipped else 1 for i in range(x.rank)])]


@infer.rule(Concat)
def _infer_concat(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    parts = [infer.operand(node, i) for i in range(len(node.inputs))]
    numbers = [h.ints(p) for p in parts]
    if any(n is not None for n in numbers):
        numbers = [infer.listed(h, p) for p in parts]
    if all(n is not None for n in numbers) and all(p.shape is None or len(p.shape) == 1 for p in parts):
        h.numbers[node.outputs[0]] = [v for n in numbers if n is not None for v in n]
    shapes = [infer.sizes(p) for p in parts]
    known = [s for s in shapes if s is not None]
    if not known:
        return [(parts[0].dtype, None)]
    axis = infer.axis_of(infer.number(node, "axis"), len(known[0]))
    out: list[symbolic.Size] = []
    for i in range(len(known[0])):
        column = [s[i] for s in known]
        if i != axis:
            fixed = [d for d in column if isinstance(d, int)]
            out.append(fixed[0] if fixed else next((d for d in column if d is not None), None))
        else:
            out.append(symbolic.add(*column) if len(known) == len(shapes) else None)
    return [(parts[0].dtype, tuple(out))]


@infer.rule(Pack)
def _infer_pack(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    first = infer.operand(node, 0)
    known = infer.sizes(first)
    if known is None:
        return [(first.dtype, None)]
    axis = infer.axis_of(infer.number(node, "axis"), len(known) + 1)
    if not known:  # numbers, of which some may be known
        parts = [h.ints(v) for v in node.inputs]
        if any(part is not None for part in parts):
            h.numbers[node.outputs[0]] = [None if part is None else part[0] for part in parts]
    return [(first.dtype, (*known[:axis], len(node.inputs), *known[axis:]))]


@infer.rule(Slice)
def _infer_split(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known, count = infer.sizes(x), len(node.outputs)
    if known is None:
        return [(x.dtype, None)] * count
    axis = infer.axis_of(infer.number(node, "axis"), len(known))
    given = h.ints(node.inputs[1]) if len(node.inputs) > 1 else list(infer.ints(node, "slicePoints"))
    size, pieces = known[axis], [None] * count  # type: tuple[symbolic.Size, list[symbolic.Size]]
    if given is not None and len(given) == count and node.attrs.get("sourceType") != "CAFFE":
        pieces = [None if d == -1 else d for d in given]
        if pieces.count(None) == 1:
            pieces[pieces.index(None)] = symbolic.subtract(size, symbolic.add(*(d for d in pieces if d is not None)))
    elif given == []:
        step = symbolic.ceil_divide(size, count)
        left = [symbolic.subtract(size, symbolic.multiply(step, i)) for i in range(count)]
        pieces = [symbolic.maximum(symbolic.minimum(step, rest), 0) for rest in left]
    return [(x.dtype, (*known[:axis], p, *known[axis + 1 :])) for p in pieces]


@infer.rule(StridedSlice)
def _infer_strided_slice(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known = infer.sizes(x)
    if known is None:
        return [(x.dtype, None)]
    if infer.number(node, "fromType") != _FROM_ONNX:
        return [(x.dtype, _masked_sizes(h, node, known))]
    begins, ends = h.ints(node.inputs[1]), h.ints(node.inputs[2])
    given = node.inputs[3] if len(node.inputs) > 3 else None
    axes = h.known_ints(given) if given is not None else None if begins is None else list(range(len(begins)))
    if axes is None:
        return [(x.dtype, (None,) * len(known))]
    steps = h.known_ints(node.inputs[4]) if len(node.inputs) > 4 else [1] * len(axes)
    at = [infer.axis_of(a, len(known)) for a in axes]
    if begins is None or ends is None or steps is None:
        return [(x.dtype, tuple(None if i in at else d for i, d in enumerate(known)))]
    out = list(known)
    for axis, begin, end, step in zip(at, begins, ends, steps, strict=True):
        out[axis] = length(out[axis], begin, end, step)
    numbers = h.ints(x)
    if numbers is not None and len(known) == 1 and len(begins) == 1:
        begin, end = begins[0], ends[0]
        if isinstance(begin, int) and isinstance(end, int):
            h.numbers[node.outputs[0]] = numbers[cut(begin, end, steps[0], len(numbers))]
    return [(x.dtype, tuple(out))]


def _masked_sizes(h: infer.ShapeInference, node: Node, known: infer.Sizes) -> infer.Sizes | None:
    """The sizes of a slice with TensorFlow's masks; of a small vector also its numbers are noted."""
    steps = h.known_ints(node.inputs[3]) if len(node.inputs) > 3 else None
    begins, ends = h.ints(node.inputs[1]), h.ints(node.inputs[2])
    if steps is None or 0 in steps:
        return None
    count = len(steps)
    begins, ends = (given or [None] * count for given in (begins, ends))
    if not count == len(begins) == len(ends):
        return None
    begin_mask, end_mask, ellipsis, new_axis, shrink = (infer.number(node, name) for name in MASKS)
    used = sum(not (new_axis >> i & 1 or ellipsis >> i & 1) for i in range(count))
    left, out = list(known), list[symbolic.Size]()
    listed = h.ints(infer.operand(node, 0)) if len(known) == 1 else None
    if used > len(left):
        return None
    for i, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if ellipsis >> i & 1:
            filled = len(known) - used
            out, left = [*out, *left[:filled]], left[filled:]
        elif new_axis >> i & 1:
            out.append(1)
        elif shrink >> i & 1:
            del left[0]
            listed = [listed[begin]] if listed is not None and isinstance(begin, int) else None
        else:
            start, stop = (0, WHOLE) if step > 0 else (-1, -WHOLE)
            first = start if begin_mask >> i & 1 else begin
            last = stop if end_mask >> i & 1 else end
            size, whole = left.pop(0), None
            if isinstance(first, int) and isinstance(last, int):
                taken = slice(first, last, step)
                listed = None if listed is None else listed[taken]
                whole = counted(taken, size)[2] if isinstance(size, int) else None
            else:
                listed = None
            out.append(length(size, first, last, step) if whole is None else whole)
    if listed is not None:
        h.numbers[node.outputs[0]] = listed
    return (*out, *left)


@symbolic_shape_check.rule(Concat)
def _fits_joined(node: Node, shapes: list[symbolic_shape_check.Sizes | None]) -> bool:
    known = [s for s in shapes if s is not None]
    given = node.attrs.get("axis")
    axis = given if isinstance(given, int) else 0
    if len({len(s) for s in known}) > 1:
        return False
    if not known or not -len(known[0]) <= axis < len(known[0]):
        return not known
    return not any(
        symbolic_shape_check.differ(s[i], known[0][i])
        for s in known
        for i in range(len(s))
        if i != axis % len(known[0])
    )
