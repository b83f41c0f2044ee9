"""Operations that sort, pick and change parts of tensors (``keras.ops``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.operations import axes, floating, operands, paired
from MNN.frontends.keras.layers.operations_elementwise import chosen, reduced
from MNN.frontends.keras.layers.operations_shapes import joined, target, turned
from MNN.frontends.keras.layers.reshaping import cut
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import keras_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis


def known_size(node: KerasNode, x: Value, axis: int) -> int:
    """A size that has to be a number."""
    size = (x.shape or ())[axis]
    if not isinstance(size, int):
        raise node.unsupported("an open size", "save the model with shapes")
    return size


def places(ctx: KerasContext, given: Any, dtype: DType = DType.I32) -> Value:
    return given if isinstance(given, Value) else ctx.const(np.asarray(given), dtype)


def reshaped(ctx: KerasContext, x: Value, sizes: Sequence[int]) -> Value:
    """A size of 0 is that of the input there."""
    y = ctx.op("Reshape", x, ctx.const([int(n) for n in sizes]))
    y.dtype = x.dtype
    return y


def axis_last(ctx: KerasContext, x: Value, axis: int, rank: int) -> tuple[Value, list[int]]:
    """``x`` with one axis behind all others, and the order that turns it back."""
    order = [a for a in range(rank) if a != axis] + [axis]
    back = [order.index(a) for a in range(rank)]
    return (x if axis == rank - 1 else turned(ctx, x, order)), back


# -- sorting -----------------------------------------------------------------------------------------------------------


def sorted_last(ctx: KerasContext, x: Value) -> list[Value]:
    """The numbers along the last axis from the smallest on, and where they were."""
    size = ctx.op("Shape", x, hasStart=True, start=-1)
    values, indices = ctx.emit("TopKV2", [x, ctx.op("Squeeze", size, squeezeDims=[0])], 2, largest=False, sorted=True)
    values.dtype, indices.dtype = x.dtype, DType.I32
    values.shape = indices.shape = x.shape
    return [values, indices]


@keras_op("Sort", "Argsort")
def sort(ctx: KerasContext, node: KerasNode) -> Value:
    x, axis = node.input(0), node.config.get("axis", -1)
    if axis is None:
        x, axis = reshaped(ctx, x, [-1]), 0
    rank = ctx.sizes(x, node.where)
    axis = normalize_axis(int(axis), rank, node.where)
    last, back = axis_last(ctx, x, axis, rank)
    found = sorted_last(ctx, last)[node.op.endswith("Argsort")]
    return found if axis == rank - 1 else turned(ctx, found, back)


@keras_op("Median", "Quantile", "Percentile")
def quantile(ctx: KerasContext, node: KerasNode) -> Value:
    """The number below which a share of the others lie; between two of them as ``method`` says."""
    x = floating(ctx, node.input(0))
    share: Any = 0.5 if node.op.endswith("Median") else node.argument(1, "q")
    if isinstance(share, Value):
        raise node.unsupported("a share that is computed", "use a number")
    shares = np.asarray(share, np.float64) / (100 if node.op.endswith("Percentile") else 1)
    method = node.choice_attr("method", "linear", "linear", "lower", "higher", "midpoint", "nearest")
    rank, dims = ctx.sizes(x, node.where), axes(ctx, node, x)
    order = [a for a in range(rank) if a not in dims] + dims
    count = math.prod(known_size(node, x, a) for a in dims)
    kept = rank - len(dims)
    together = turned(ctx, x, order) if order != list(range(rank)) else x
    line = sorted_last(ctx, reshaped(ctx, together, [*(0,) * kept, count]))[0]
    found = [_between(ctx, line, kept, float(s) * (count - 1), method) for s in shares.reshape(-1)]
    if node.bool_attr("keepdims"):
        found = [ctx.op("Unsqueeze", v, squeezeDims=dims) for v in found]
    return found[0] if shares.ndim == 0 else ctx.op("Pack", *found, axis=0)


def _between(ctx: KerasContext, line: Value, axis: int, place: float, method: str) -> Value:
    low, high = math.floor(place), math.ceil(place)
    if method == "nearest":
        low = high = round(place)
    elif method in ("lower", "higher"):
        low = high = low if method == "lower" else high
    ends = []
    for index in (low, high):
        one = ctx.op("GatherV2", line, ctx.const(index, DType.I32), ctx.const(axis, DType.I32))
        one.dtype = line.dtype
        ends.append(one)
    if low == high:
        return ends[0]
    share = 0.5 if method == "midpoint" else place - low
    return binary(ctx, "ADD", binary(ctx, "MUL", ends[0], 1 - share), binary(ctx, "MUL", ends[1], share))


# -- picking -----------------------------------------------------------------------------------------------------------


@keras_op("TakeAlongAxis")
def take_along_axis(ctx: KerasContext, node: KerasNode) -> Value:
    """Sizes of 1 of the places are not broadcast: Keras writes these out before."""
    x, where, axis = node.input(0), places(ctx, node.argument(1, "indices")), node.config.get("axis")
    if axis is None:
        x, axis = reshaped(ctx, x, [-1]), 0
    rank = ctx.sizes(x, node.where)
    axis = normalize_axis(int(axis), rank, node.where)
    for a in range(rank):
        if a != axis and (where.shape or (0,) * rank)[a] == 1 and (x.shape or (1,) * rank)[a] != 1:
            raise node.unsupported("places that are broadcast", "repeat them with keras.ops.broadcast_to")
    numbers = where if where.dtype in (DType.I32, DType.I64) else ctx.cast(where, DType.I32)
    y = ctx.op("GatherElements", x, numbers, ctx.const(axis, DType.I32))
    y.dtype = x.dtype
    return y


@keras_op("Diagonal", "Trace")
def diagonal(ctx: KerasContext, node: KerasNode) -> Value:
    """Along a new last axis, or its sum."""
    x, offset = node.input(0), node.int_attr("offset", 0)
    rank = ctx.sizes(x, node.where)
    pair = [normalize_axis(node.int_attr(k, d), rank, node.where) for k, d in (("axis1", 0), ("axis2", 1))]
    order = [a for a in range(rank) if a not in pair] + pair
    rows, columns = (known_size(node, x, a) for a in pair)
    flat = reshaped(ctx, turned(ctx, x, order), [*(0,) * (rank - 2), rows * columns])
    found = [i * columns + i + offset for i in range(rows) if 0 <= i + offset < columns]
    if not found:
        raise node.unsupported(f"a diagonal {offset} out of {rows} x {columns}", "choose one that is there")
    y = ctx.op("GatherV2", flat, ctx.const(found, DType.I32), ctx.const(rank - 2, DType.I32))
    y.dtype = x.dtype
    return y if node.op.endswith("Diagonal") else reduced(ctx, "SUM", y, [rank - 2], False)


@keras_op("Tril", "Triu")
def triangle(ctx: KerasContext, node: KerasNode) -> Value:
    x, k = node.input(0), node.int_attr("k", 0)
    rank = ctx.sizes(x, node.where)
    rows, columns = (known_size(node, x, a) for a in (rank - 2, rank - 1))
    ones = np.ones((rows, columns), np.bool_)
    return chosen(ctx, ctx.const((np.tril if node.op.endswith("Tril") else np.triu)(ones, k)), x, 0)


@keras_op("Diff")
def difference(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    axis = normalize_axis(node.int_attr("axis", -1), ctx.sizes(x, node.where), node.where)
    for _ in range(node.int_attr("n", 1)):
        size = known_size(node, x, axis)
        if size < 2:
            raise node.unsupported("differences of one number", "save the model with more steps")
        later, earlier = cut(ctx, x, [(axis, 1, size)]), cut(ctx, x, [(axis, 0, size - 1)])
        x = binary(ctx, "SUB", later, earlier)
    return x


@keras_op("Fliplr", "Flipud", "Rot90")
def flipped(ctx: KerasContext, node: KerasNode) -> Value:
    x, kind = node.input(0), node.op.removeprefix("ops.")
    if kind != "Rot90":
        return _reversed(ctx, x, 1 if kind == "Fliplr" else 0)
    rank = ctx.sizes(x, node.where)
    first, second = (normalize_axis(int(a), rank, node.where) for a in node.get("axes", [0, 1]))
    order = list(range(rank))
    order[first], order[second] = second, first
    times = node.int_attr("k", 1) % 4
    if times == 2:
        return _reversed(ctx, _reversed(ctx, x, first), second)
    if times == 1:
        return turned(ctx, _reversed(ctx, x, second), order)
    return _reversed(ctx, turned(ctx, x, order), second) if times else x


def _reversed(ctx: KerasContext, x: Value, axis: int) -> Value:
    y = ctx.tf("ReverseV2", x, ctx.const([axis], DType.I32))
    y.dtype, y.shape = x.dtype, x.shape
    return y


@keras_op("Hstack", "Vstack", "Dstack")
def stacked(ctx: KerasContext, node: KerasNode) -> Value:
    inputs, kind = node.inputs, node.op.removeprefix("ops.")
    least, axis = {"Hstack": (1, 1), "Vstack": (2, 0), "Dstack": (3, 2)}[kind]
    if min(ctx.sizes(v, node.where) for v in inputs) < least:
        raise node.unsupported("tensors of so few axes", "use keras.ops.stack")
    return joined(ctx, node, inputs, min(axis, ctx.sizes(inputs[0], node.where) - 1))


@keras_op("ArraySplit")
def array_split(ctx: KerasContext, node: KerasNode) -> list[Value]:
    """Parts that may differ by one in size."""
    x = node.input(0)
    axis = normalize_axis(node.int_attr("axis", 0), ctx.sizes(x, node.where), node.where)
    size, count = known_size(node, x, axis), node.get("indices_or_sections")
    if not isinstance(count, int) or not 0 < count <= size:
        raise node.unsupported(f"parts {count!r:.60} of {size}", "use keras.ops.split")
    sizes = [size // count + (i < size % count) for i in range(count)]
    return [x] if count == 1 else ctx.emit("Slice", [x], count, axis=axis, slicePoints=sizes, sourceType="TORCH")


@keras_op("Slice")
def slice_of(ctx: KerasContext, node: KerasNode) -> Value:
    x, begin = node.input(0), node.argument(1, "start_indices")
    return ctx.tf_like(
        "Slice", x, begin if isinstance(begin, Value) else target(ctx, begin), target(ctx, node.get("shape"))
    )


@keras_op("Size")
def count_of(ctx: KerasContext, node: KerasNode) -> Value:
    return ctx.tf("Size", node.input(0), out_type=DType.I32)


# -- changing parts ----------------------------------------------------------------------------------------------------

_UPDATES = {None: "Update", "add": "Add", "max": "Max", "min": "Min"}


@keras_op("ScatterUpdate", "Scatter")
def scattered(ctx: KerasContext, node: KerasNode) -> Value:
    if node.op.endswith("Scatter"):
        numbers = places(ctx, node.argument(1, "values"), DType.F32)
        return ctx.tf("ScatterNd", places(ctx, node.argument(0, "indices")), numbers, target(ctx, node.get("shape")))
    how = node.config.get("reduction")
    if how not in _UPDATES:
        raise node.unsupported(f"reduction={how!r:.40}", "use add, max, min or None")
    x, updates = operands(ctx, node.argument(0, "inputs"), node.argument(2, "updates"))
    return ctx.tf_like(f"TensorScatter{_UPDATES[how]}", x, places(ctx, node.argument(1, "indices")), updates)


@keras_op("SegmentSum", "SegmentMax", "SegmentMin", "SegmentProd")
def segments(ctx: KerasContext, node: KerasNode) -> Value:
    data, which = (node.argument(i, k) for i, k in ((0, "data"), (1, "segment_ids")))
    if not isinstance(data, Value):
        raise FormatError(f"{node.where}: its data is no tensor")
    count = node.config.get("num_segments")
    if count is None:
        raise node.unsupported("an open number of segments", "give num_segments")
    kind = f"Unsorted{node.op.removeprefix('ops.')}"
    return ctx.tf_like(kind, data, places(ctx, which), ctx.const(int(count), DType.I32))


@keras_op("MultiHot")
def multi_hot(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    hot = _one_hot(ctx, node, x)
    rank = ctx.sizes(x, node.where)
    out = reduced(ctx, "MAXIMUM", hot, [1 if rank > 1 else 0], False)
    return out


def _one_hot(ctx: KerasContext, node: KerasNode, x: Value) -> Value:
    if node.int_attr("axis", -1) != -1:
        raise node.unsupported("categories along another axis than the last", "transpose behind it")
    line = ctx.const(np.arange(node.int_attr("num_classes"), dtype=np.int32))
    apart = ctx.op("Unsqueeze", ctx.cast(x, DType.I32), squeezeDims=[-1])
    apart.dtype = DType.I32
    return ctx.cast(paired(ctx, "Equal", apart, line), DType.F32)
