"""Shapes, cutting and joining, padding, and tensors made from sizes."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from MNN.frontends.onnx_export.exporter import CODES, Exporter, exports
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value

END = int(np.iinfo(np.int64).max)


@exports("Reshape", "ReshapeExact")
def reshape(e: Exporter, node: Node) -> str:
    exact = 1 if node.op == "ReshapeExact" else None
    given = e.value(node, 1)
    shape = e.const(np.asarray(e.list_of(node, "dims"), np.int64)) if given is None else e.i64(node, 1)
    return e.op("Reshape", e.input(node, 0), shape, allowzero=exact)


@exports("Permute")
def permute(e: Exporter, node: Node) -> str:
    order, x = e.list_of(node, "dims"), e.value(node, 0)
    if any(a < 0 for a in order):
        order = [a % e.rank(x) for a in order]
    return e.op("Transpose", e.name(x), perm=order or None)


@exports("Transpose")
def transpose(e: Exporter, node: Node) -> str:
    order = e.ints(e.value(node, 1))
    if order is None:
        raise e.unsupported(node, "transposition in an order that is known only at run time")
    return e.op("Transpose", e.input(node, 0), perm=order)


@exports("ConvertTensor")
def convert_tensor(e: Exporter, node: Node) -> str:
    """The order of dimensions of two formats; NC4HW4 has NCHW's."""
    source, dest = ("NHWC" if e.text(node, k) == "NHWC" else "NCHW" for k in ("source", "dest"))
    x = e.value(node, 0)
    if source == dest:
        return e.op("Identity", e.name(x))
    rank = e.rank(x)
    order = [0, *range(2, rank), 1] if dest == "NHWC" else [0, rank - 1, *range(1, rank - 1)]
    return e.op("Transpose", e.name(x), perm=order if rank > 2 else list(range(rank)))


@exports("Squeeze", "Unsqueeze")
def squeeze(e: Exporter, node: Node) -> str:
    given, axes = e.value(node, 1), e.list_of(node, "squeezeDims")
    listed = e.line(node, 1) if given is not None else e.const(np.asarray(axes, np.int64)) if axes else ""
    return e.op(node.op, e.input(node, 0), listed)


@exports("ExpandDims")
def expand_dims(e: Exporter, node: Node) -> str:
    axis = e.const([e.integer(node, "axis")]) if e.value(node, 1) is None else e.line(node, 1)
    return e.op("Unsqueeze", e.input(node, 0), axis)


@exports("Flatten")
def flatten(e: Exporter, node: Node) -> str:
    return e.op("Flatten", e.input(node, 0), axis=e.integer(node, "axis"))


@exports("Concat")
def concat(e: Exporter, node: Node) -> str:
    return e.op("Concat", *(e.name(v) for v in node.inputs), axis=e.integer(node, "axis"))


@exports("Pack")
def pack(e: Exporter, node: Node) -> str:
    axis = e.integer(node, "axis")
    at = e.const([axis])
    return e.op("Concat", *(e.op("Unsqueeze", e.name(v), at) for v in node.inputs), axis=axis)


@exports("Unpack")
def unpack(e: Exporter, node: Node) -> list[str]:
    axis, count = e.integer(node, "axis"), len(node.outputs)
    parts = e.emit("Split", [e.input(node, 0)], count, axis=axis, num_outputs=count)
    at = e.const([axis])
    return [e.op("Squeeze", p, at) for p in parts]


@exports("Slice")
def split(e: Exporter, node: Node) -> list[str]:
    axis, points, count = e.integer(node, "axis"), e.list_of(node, "slicePoints"), len(node.outputs)
    x, source = e.value(node, 0), e.text(node, "sourceType")
    if e.value(node, 1) is not None:
        sizes = e.numbers(e.value(node, 1))
        if sizes is not None and -1 in sizes:
            return _pieces(e, e.name(x), axis, [int(n) for n in sizes.reshape(-1)])
        return e.emit("Split", [e.name(x), e.i64(node, 1)], count, axis=axis)
    if not points:
        return e.emit("Split", [e.name(x)], count, axis=axis, num_outputs=count)
    shape = None if x is None else x.shape
    size = shape[axis] if shape is not None else None
    if source == "CAFFE":
        if not isinstance(size, int):
            raise e.unsupported(node, "cut at places of an axis of unknown size")
        cuts = [0, *points, size][: count + 1]
        points = [z - a for a, z in pairwise(cuts)]
    elif len(points) == 1 and count > 1:
        if not isinstance(size, int):
            return e.emit("Split", [e.name(x)], count, axis=axis, num_outputs=count)
        each = points[0] if source == "TORCH" else -(-size // count)
        points = [min(each, size - i * each) for i in range(count)]
    if -1 in points or (isinstance(size, int) and sum(points) != size) or not isinstance(size, int):
        return _pieces(e, e.name(x), axis, points)
    return e.emit("Split", [e.name(x), e.const(np.asarray(points, np.int64))], count, axis=axis)


def _pieces(e: Exporter, x: str, axis: int, sizes: list[int]) -> list[str]:
    """Pieces by slices, where they are not all of the axis or one takes the rest."""
    rest = sizes.index(-1) if -1 in sizes else len(sizes)
    bounds: list[tuple[int, int]] = []
    at = 0
    for n in sizes[:rest]:
        bounds.append((at, at + n))
        at += n
    tail = sum(sizes[rest + 1 :])
    if rest < len(sizes):
        bounds.append((at, -tail if tail else END))
        for n in sizes[rest + 1 :]:
            bounds.append((-tail, -(tail - n) if tail > n else END))
            tail -= n
    return [e.op("Slice", x, e.const([a]), e.const([z]), e.const([axis])) for a, z in bounds]


@exports("SliceTf")
def slice_tf(e: Exporter, node: Node) -> str:
    begin, size = e.ints(e.value(node, 1)), e.ints(e.value(node, 2))
    if begin is None or size is None:
        start, count = e.i64(node, 1), e.i64(node, 2)
        rest = e.op("Less", count, e.const([0]))  # -1: up to the end
        end = e.op("Where", rest, e.const([END]), e.op("Add", start, count))
        return e.op("Slice", e.input(node, 0), start, end)
    ends = [END if n == -1 else b + n for b, n in zip(begin, size, strict=True)]
    return e.op("Slice", e.input(node, 0), e.const(np.asarray(begin, np.int64)), e.const(np.asarray(ends, np.int64)))


@exports("StridedSlice")
def strided_slice(e: Exporter, node: Node) -> str:
    if e.integer(node, "fromType") == 1:
        operands = [e.i64(node, i) if e.value(node, i) is not None else "" for i in range(1, 5)]
        return e.op("Slice", e.input(node, 0), *operands)
    steps = e.ints(e.value(node, 3)) if e.value(node, 3) is not None else [1] * _count(e, node)
    if steps is None or e.value(node, 4) is not None:
        raise e.unsupported(node, "slice by TensorFlow's masks in steps known only at run time, or that is written to")
    return _masked(e, node, steps)


def _count(e: Exporter, node: Node) -> int:
    """How many entries a slice by TensorFlow's masks has."""
    for value in (e.value(node, 1), e.value(node, 2)):
        if value is not None and value.shape and isinstance(value.shape[0], int):
            return value.shape[0]
    raise e.unsupported(node, "slice by TensorFlow's masks of an unknown number of axes")


def _masked(e: Exporter, node: Node, steps: list[int]) -> str:
    names = ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask")
    begin_mask, end_mask, ellipsis, new_axis, shrink = (e.integer(node, n) for n in names)
    unknown: list[int | None] = [None] * len(steps)
    begins, ends = (e.ints(e.value(node, i)) or unknown for i in (1, 2))
    used = sum(1 for i in range(len(steps)) if not (new_axis | ellipsis) >> i & 1)
    x = e.value(node, 0)
    cuts: list[_Cut] = []
    dropped, inserted = [], []
    axis = made = 0
    for i, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if ellipsis >> i & 1:
            axis, made = axis + e.rank(x) - used, made + e.rank(x) - used
            continue
        if new_axis >> i & 1:
            inserted.append(made)
        elif shrink >> i & 1:
            last = None if begin is None else begin + 1 if begin != -1 else END
            cuts.append(_Cut(axis, i, begin, last, 1, True))
            dropped.append(axis)
            axis, made = axis + 1, made - 1
        else:
            first = begin if not begin_mask >> i & 1 else (0 if step > 0 else END)
            last = end if not end_mask >> i & 1 else (END if step > 0 else -END)
            cuts.append(_Cut(axis, i, first, last, step))
            axis += 1
        made += 1
    out = e.name(x)
    if cuts:
        axes, strides = (e.const(np.asarray(v, np.int64)) for v in ([c.axis for c in cuts], [c.step for c in cuts]))
        out = e.op("Slice", out, *_bounds(e, node, cuts), axes, strides)
    if dropped:
        out = e.op("Squeeze", out, e.const(dropped))
    return e.op("Unsqueeze", out, e.const(inserted)) if inserted else out if out != e.name(x) else e.op("Identity", out)


class _Cut(NamedTuple):
    """What is taken of an axis by an entry; bounds that are computed are None. ``single``: one element."""

    axis: int
    entry: int
    first: int | None
    last: int | None
    step: int
    single: bool = False


def _bounds(e: Exporter, node: Node, cuts: list[_Cut]) -> tuple[str, str]:
    """Begins and ends. The end of a single element follows from its begin."""
    starts = _places(e, node, 1, cuts, [c.first for c in cuts])
    followed = [c.single and c.last is None for c in cuts]
    stops = _places(e, node, 2, cuts, [0 if f else c.last for f, c in zip(followed, cuts, strict=True)])
    if any(followed):
        after = e.op("Where", e.op("Equal", starts, e.const([-1])), e.const([END]), e.op("Add", starts, e.const([1])))
        stops = e.op("Where", e.const(np.asarray(followed)), after, stops)
    return starts, stops


def _places(e: Exporter, node: Node, operand: int, cuts: list[_Cut], known: list[int | None]) -> str:
    """One number for each cut: what is ``known``, and entries of an operand where it is computed."""
    numbers = e.const(np.asarray([n or 0 for n in known], np.int64))
    if None not in known:
        return numbers
    computed = e.op("Gather", e.i64(node, operand), e.const([c.entry for c in cuts]))
    fixed = [n is not None for n in known]
    return e.op("Where", e.const(np.asarray(fixed)), numbers, computed) if any(fixed) else computed


@exports("Crop")
def crop(e: Exporter, node: Node) -> str:
    """Cut to the last sizes of the second operand."""
    x, like, axis, offset = e.value(node, 0), e.value(node, 1), e.integer(node, "axis"), e.list_of(node, "offset")
    count = e.rank(x) - axis
    offset = (offset or [0]) * (count if len(offset) < 2 else 1)
    starts = e.const(np.asarray(offset, np.int64))
    ends = e.op("Add", starts, e.op("Shape", e.name(like), start=axis))
    return e.op("Slice", e.name(x), starts, ends, e.const(list(range(axis, axis + count))))


@exports("Padding")
def padding(e: Exporter, node: Node) -> str:
    """Pairs of begin and end become all begins, then all ends; SYMMETRIC has no form."""
    mode = {"CONSTANT": "constant", "REFLECT": "reflect", "EDGE": "edge"}.get(e.text(node, "mode"))
    if mode is None:
        return _symmetric(e, node)
    x, value = e.input(node, 0), e.input(node, 2) if mode == "constant" else ""
    return e.op("Pad", x, _begins_then_ends(e, node), value, mode=mode)


def _begins_then_ends(e: Exporter, node: Node) -> str:
    pads = e.ints(e.value(node, 1))
    if pads is not None:
        return e.const(np.asarray([*pads[0::2], *pads[1::2]], np.int64))
    pairs = e.op("Reshape", e.i64(node, 1), e.const([-1, 2]))
    return e.op("Reshape", e.op("Transpose", pairs, perm=[1, 0]), e.const([-1]))


def _symmetric(e: Exporter, node: Node) -> str:
    """The border is repeated: each axis by a Gather."""
    x, pads = e.required(node, 0), e.ints(e.value(node, 1))
    if pads is None or x.shape is None or not all(isinstance(d, int) for d in x.shape):
        raise e.unsupported(node, "padding that repeats the border, of open size")
    out = e.name(x)
    for axis, size in enumerate(x.shape):
        before, after = pads[2 * axis : 2 * axis + 2]
        if before or after:
            at = np.pad(np.arange(size), (before, after), mode="symmetric")
            out = e.op("Gather", out, e.const(at), axis=axis)
    return out if out != e.name(x) else e.op("Identity", out)


@exports("PadWrap")
def pad_wrap(e: Exporter, node: Node) -> str:
    return e.op("Pad", e.input(node, 0), _begins_then_ends(e, node), mode="wrap")


@exports("PadAxes")
def pad_axes(e: Exporter, node: Node) -> str:
    mode = e.text(node, "mode").lower()
    operands = (e.i64(node, 1), e.input(node, 2), e.i64(node, 3))
    return e.op("Pad", e.input(node, 0), *operands, mode=mode)


@exports("Tile")
def tile(e: Exporter, node: Node) -> str:
    return e.op("Tile", e.input(node, 0), e.i64(node, 1))


@exports("BroadcastTo")
def broadcast_to(e: Exporter, node: Node) -> str:
    return e.op("Expand", e.input(node, 0), e.i64(node, 1))


def sized(e: Exporter, x: str, dtype: DType | None) -> str:
    """Sizes, which ONNX has in i64, in the type that is wanted."""
    return x if dtype in (DType.I64, None) else e.cast(x, dtype or DType.I64)


@exports("Shape")
def shape(e: Exporter, node: Node) -> str:
    start = e.integer(node, "start") if e.flag(node, "hasStart") else None
    end = e.integer(node, "end") if e.flag(node, "hasEnd") else None
    out = e.op("Shape", e.input(node, 0), start=start, end=end)
    return sized(e, out, e.type_attr(node, "outputDataType"))


@exports("Size")
def size(e: Exporter, node: Node) -> str:
    return sized(e, e.op("Size", e.input(node, 0)), e.type_attr(node, "outputDataType"))


@exports("Rank")
def rank(e: Exporter, node: Node) -> str:
    return e.cast(e.op("Size", e.op("Shape", e.input(node, 0))), DType.I32)


@exports("Fill")
def fill(e: Exporter, node: Node) -> str:
    number = e.numbers(e.value(node, 1))
    if number is not None and number.dtype != object:
        return e.op("ConstantOfShape", e.i64(node, 0), value=number.reshape(1))
    return e.op("Expand", e.op("Reshape", e.input(node, 1), e.const(np.zeros(0, np.int64))), e.i64(node, 0))


@exports("Range")
def arange(e: Exporter, node: Node) -> str:
    operands = [e.required(node, i) for i in range(3)]
    names = [
        e.op("Reshape", e.name(v), e.const(np.zeros(0, np.int64))) if v.shape != () else e.name(v) for v in operands
    ]
    return e.op("Range", *names)


@exports("LinSpace")
def linspace(e: Exporter, node: Node) -> str:
    first = e.required(node, 0)
    scalar = e.const(np.zeros(0, np.int64))
    start, stop, count = (e.op("Reshape", e.input(node, i), scalar) for i in range(3))
    count = e.cast(count, DType.I64)
    line = e.cast(e.op("Range", e.const(0), count, e.const(1)), e.dtype(first))
    gaps = e.cast(e.op("Max", e.op("Sub", count, e.const(1)), e.const(1)), e.dtype(first))
    step = e.op("Div", e.op("Sub", stop, start), gaps)
    return e.op("Add", start, e.op("Mul", line, step))


@exports("EyeLike")
def eye_like(e: Exporter, node: Node) -> str:
    to, k = e.type_attr(node, "outputDataType"), e.ints(e.value(node, 1))
    if e.value(node, 1) is not None and k is None:
        raise e.unsupported(node, "diagonal that is known only at run time")
    return e.op("EyeLike", e.input(node, 0), dtype=None if to is None else CODES[to], k=k[0] if k else 0)


@exports("Trilu")
def trilu(e: Exporter, node: Node) -> str:
    k = "" if e.value(node, 1) is None else e.i64(node, 1)
    return e.op("Trilu", e.input(node, 0), k, upper=e.flag(node, "upper"))


@exports("MatrixBandPart")
def band_part(e: Exporter, node: Node) -> str:
    low, high = (e.ints(e.value(node, i)) for i in (1, 2))
    if low is None or high is None:
        raise e.unsupported(node, "band that is known only at run time")
    out = e.input(node, 0)
    if high[0] >= 0:
        out = e.op("Trilu", out, e.const(high[0]), upper=0)
    if low[0] >= 0:
        out = e.op("Trilu", out, e.const(-low[0]), upper=1)
    return out if out != e.input(node, 0) else e.op("Identity", out)


def flat_places(e: Exporter, value: Value) -> str:
    """Places as i64."""
    return e.name(value) if value.dtype in (DType.I64, DType.I32) else e.cast(e.name(value), DType.I64)
