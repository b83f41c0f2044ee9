"""Operations that move numbers (``keras.ops``), and products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.operations import operands
from MNN.frontends.keras.layers.preprocessing import resized_as
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import keras_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis

_END = int(np.iinfo(np.int32).max)


def target(ctx: KerasContext, sizes: Any) -> Value:
    """A shape out of numbers and tensors; None is a size that follows."""
    if isinstance(sizes, Value) and ctx.rank(sizes) == 1:
        return sizes
    parts = sizes if isinstance(sizes, list | tuple) else [sizes]
    if not any(isinstance(p, Value) for p in parts):
        return ctx.const([-1 if p is None else int(p) for p in parts])
    made = []
    for p in parts:
        known = not isinstance(p, Value)
        made.append(ctx.const([p], DType.I32) if known else ctx.op("Reshape", ctx.cast(p, DType.I32), ctx.const([1])))
    return ctx.op("Concat", *made, axis=0)


@keras_op("Reshape")
def reshape(ctx: KerasContext, node: KerasNode) -> Value:
    sizes = node.argument(1, "newshape", node.get("newshape", None))
    return ctx.tf_like("Reshape", node.input(0), target(ctx, sizes))


@keras_op("Ravel")
def ravel(ctx: KerasContext, node: KerasNode) -> Value:
    return ctx.op("Reshape", node.input(0), ctx.const([-1]))


@keras_op("Transpose")
def transpose(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    order = node.config.get("axes") or list(range(ctx.sizes(x, node.where)))[::-1]
    return turned(ctx, x, [int(a) for a in order])


def turned(ctx: KerasContext, x: Value, order: Sequence[int]) -> Value:
    return ctx.tf_like("Transpose", x, ctx.const([a % len(order) for a in order], DType.I32))


@keras_op("Swapaxes")
def swap_axes(ctx: KerasContext, node: KerasNode) -> Value:
    rank = ctx.sizes(node.input(0), node.where)
    order = list(range(rank))
    a, b = (normalize_axis(node.int_attr(key), rank, node.where) for key in ("axis1", "axis2"))
    order[a], order[b] = b, a
    return turned(ctx, node.input(0), order)


@keras_op("Moveaxis")
def move_axis(ctx: KerasContext, node: KerasNode) -> Value:
    rank = ctx.sizes(node.input(0), node.where)
    given = [node.get(key) for key in ("source", "destination")]
    source, to = (
        [normalize_axis(int(a), rank, node.where) for a in (v if isinstance(v, list) else [v])] for v in given
    )
    order = [a for a in range(rank) if a not in source]
    for place, axis in sorted(zip(to, source, strict=True)):
        order.insert(place, axis)
    return turned(ctx, node.input(0), order)


@keras_op("ExpandDims")
def expand_dims(ctx: KerasContext, node: KerasNode) -> Value:
    axis = node.argument(1, "axis", node.get("axis", 0))
    y = ctx.op("Unsqueeze", node.input(0), squeezeDims=[int(a) for a in (axis if isinstance(axis, list) else [axis])])
    y.dtype = node.input(0).dtype
    return y


@keras_op("Squeeze")
def squeeze(ctx: KerasContext, node: KerasNode) -> Value:
    x, axis = node.input(0), node.config.get("axis")
    if axis is None:
        axis = [i for i, d in enumerate(x.shape or ()) if d == 1]
    y = ctx.op("Squeeze", x, squeezeDims=[int(a) for a in (axis if isinstance(axis, list) else [axis])])
    y.dtype = x.dtype
    return y


@keras_op("Concatenate")
def concatenate(ctx: KerasContext, node: KerasNode) -> Value:
    return joined(ctx, node, node.inputs, node.argument(1, "axis", node.get("axis", 0)))


def joined(ctx: KerasContext, node: KerasNode, inputs: Sequence[Value], axis: Any) -> Value:
    if len(inputs) == 1:
        return inputs[0]
    y = ctx.op("Concat", *inputs, axis=normalize_axis(int(axis), ctx.sizes(inputs[0], node.where), node.where))
    y.dtype = inputs[0].dtype
    return y


@keras_op("Stack")
def stack(ctx: KerasContext, node: KerasNode) -> Value:
    y = ctx.op("Pack", *node.inputs, axis=int(node.get("axis", 0)))
    y.dtype = node.input(0).dtype
    return y


@keras_op("Unstack")
def unstack(ctx: KerasContext, node: KerasNode) -> list[Value]:
    x, axis = node.input(0), node.get("axis", 0)
    axis = normalize_axis(int(axis), ctx.sizes(x, node.where), node.where)
    count = node.get("num", (x.shape or ())[axis])
    return ctx.tf_all("Unpack", x, num=int(count), axis=axis)


@keras_op("Split")
def split(ctx: KerasContext, node: KerasNode) -> list[Value]:
    x = node.input(0)
    where = node.argument(1, "indices_or_sections", node.get("indices_or_sections", None))
    axis = normalize_axis(int(node.get("axis", 0)), ctx.sizes(x, node.where), node.where)
    size = (x.shape or ())[axis]
    if isinstance(where, int):
        if not isinstance(size, int):
            return ctx.emit("Slice", [x], where, axis=axis, sourceType="TORCH")
        sizes = [size // where] * where
    else:
        if not isinstance(size, int):
            raise node.unsupported("a split of an open size at places", "save the model with shapes")
        edges = [0, *(int(p) for p in where), size]
        sizes = [b - a for a, b in pairwise(edges)]
    if len(sizes) == 1:
        return [x]
    return ctx.emit("Slice", [x], len(sizes), axis=axis, slicePoints=sizes, sourceType="TORCH")


@keras_op("GetItem")
def get_item(ctx: KerasContext, node: KerasNode) -> Value:
    return picked(ctx, node, node.input(0), node.argument(1, "key"))


def picked(ctx: KerasContext, node: KerasNode, x: Value, key: Any) -> Value:
    """``x[key]`` of slices, numbers, an ellipsis, None; or of one tensor of places."""
    keys = list(key) if isinstance(key, list | tuple) else [key]
    if len(keys) == 1 and isinstance(keys[0], Value):
        return ctx.op("GatherV2", x, keys[0], ctx.const(0, DType.I32))
    begins, ends, strides, masks = [], [], [], dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
    for i, item in enumerate(keys):
        begin, end, stride = 0, 0, 1
        if item is Ellipsis:
            masks["ellipsis"] |= 1 << i
        elif item is None:
            masks["new_axis"] |= 1 << i
        elif isinstance(item, slice):
            if any(isinstance(v, Value) for v in (item.start, item.stop, item.step)):
                raise node.unsupported("a slice between places that are computed", "use constants")
            stride = 1 if item.step is None else int(item.step)
            masks["begin"] |= (item.start is None) << i
            masks["end"] |= (item.stop is None) << i
            begin, end = int(item.start or 0), int(item.stop or 0)
        elif isinstance(item, int):
            masks["shrink_axis"] |= 1 << i
            begin, end = item, item + 1
        else:
            raise node.unsupported(f"an index {item!r:.60}", "use slices and numbers")
        begins.append(begin)
        ends.append(end)
        strides.append(stride)
    numbers = [ctx.const(v, DType.I32) for v in (begins, ends, strides)]
    return ctx.tf_like("StridedSlice", x, *numbers, **{f"{name}_mask": bits for name, bits in masks.items()})


@keras_op("Take")
def take(ctx: KerasContext, node: KerasNode) -> Value:
    x, axis = node.input(0), node.config.get("axis")
    places = node.argument(1, "indices")
    places = places if isinstance(places, Value) else ctx.const(np.asarray(places, np.int32))
    if axis is None:
        x, axis = ctx.op("Reshape", x, ctx.const([-1])), 0
    y = ctx.op("GatherV2", x, places, ctx.const(int(axis), DType.I32))
    y.dtype = x.dtype
    return y


@keras_op("Repeat")
def repeat(ctx: KerasContext, node: KerasNode) -> Value:
    x, times, axis = node.input(0), node.get("repeats"), node.config.get("axis")
    if axis is None:
        raise node.unsupported("repeats without an axis", "repeat along one axis")
    times = times[0] if isinstance(times, list) and len(times) == 1 else times
    axis = normalize_axis(int(axis), ctx.sizes(x, node.where), node.where)
    size = (x.shape or ())[axis]
    if not isinstance(size, int):
        raise node.unsupported("an open size", "save the model with shapes")
    if not isinstance(times, int) and len(times) != size:
        raise FormatError(f"{node.where}: {len(times)} repeats for {size} entries")
    places = np.repeat(np.arange(size, dtype=np.int32), times)
    y = ctx.op("GatherV2", x, ctx.const(places), ctx.const(axis, DType.I32))
    y.dtype = x.dtype
    return y


@keras_op("Tile")
def tile(ctx: KerasContext, node: KerasNode) -> Value:
    x, times = node.input(0), node.get("repeats")
    times = [times] if isinstance(times, int) else [int(t) for t in times]
    rank = ctx.sizes(x, node.where)
    if len(times) > rank:
        x = ctx.op("Unsqueeze", x, squeezeDims=list(range(len(times) - rank)))
    y = ctx.op("Tile", x, ctx.const([1] * (rank - len(times)) + times, DType.I32))
    y.dtype = node.input(0).dtype
    return y


@keras_op("BroadcastTo")
def broadcast_to(ctx: KerasContext, node: KerasNode) -> Value:
    return ctx.op("BroadcastTo", node.input(0), target(ctx, node.get("shape")))


@keras_op("Flip")
def flip(ctx: KerasContext, node: KerasNode) -> Value:
    x, axis = node.input(0), node.config.get("axis")
    dims = list(range(ctx.sizes(x, node.where))) if axis is None else axis if isinstance(axis, list) else [axis]
    return ctx.tf("ReverseV2", x, ctx.const([int(a) for a in dims], DType.I32))


@keras_op("Roll")
def roll(ctx: KerasContext, node: KerasNode) -> Value:
    shift, axis = node.get("shift"), node.get("axis")
    lists = [[int(a) for a in v] if isinstance(v, list) else [int(v)] for v in (shift, axis)]
    return ctx.tf("Roll", node.input(0), *(ctx.const(v, DType.I32) for v in lists))


@keras_op("Pad")
def pad(ctx: KerasContext, node: KerasNode) -> Value:
    x, widths = node.input(0), node.get("pad_width")
    rank = ctx.sizes(x, node.where)
    if isinstance(widths, int):
        widths = [[widths, widths]] * rank
    elif len(widths) == 1 or isinstance(widths[0], int):
        one = widths[0] if isinstance(widths[0], list) else widths
        widths = [one] * rank
    mode = node.choice_attr("mode", "constant", "constant", "reflect", "symmetric")
    flat = ctx.const([int(n) for pair in widths for n in pair], DType.I32)
    value = node.argument(1, "constant_values", 0) or 0
    if mode != "constant":
        return ctx.op("Padding", x, flat, mode=mode.upper())
    return ctx.op("Padding", x, flat, ctx.const_like(value, x), mode="CONSTANT")


# -- products ----------------------------------------------------------------------------------------------------------


@keras_op("Matmul", "Dot")
def matmul(ctx: KerasContext, node: KerasNode) -> Value:
    x, y = operands(ctx, node.argument(0, "x1"), node.argument(1, "x2"))
    if node.op.endswith("Dot") and max(ctx.sizes(v, node.where) for v in (x, y)) > 2:
        raise node.unsupported("dot of more than two axes", "use keras.ops.matmul")
    out = ctx.op("MatMul", x, y)
    out.dtype = x.dtype
    return out


@keras_op("Einsum")
def einsum(ctx: KerasContext, node: KerasNode) -> Value:
    out = ctx.op("Einsum", *node.inputs, equation=str(node.get("subscripts")))
    out.dtype = node.input(0).dtype
    return out


@keras_op("OneHot")
def one_hot(ctx: KerasContext, node: KerasNode) -> Value:
    line = ctx.const(np.arange(node.int_attr("num_classes"), dtype=np.int32))
    places = ctx.cast(node.input(0), DType.I32)
    rank = ctx.sizes(places, node.where) + 1
    axis = normalize_axis(int(node.get("axis", -1)), rank, node.where)
    hot = ctx.op("BinaryOp", ctx.op("Unsqueeze", places, squeezeDims=[-1]), line, opType="EQUAL")
    hot.dtype = DType.BOOL
    out = ctx.cast(hot, DType.F32)
    if axis == rank - 1:
        return out
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return turned(ctx, out, order)


@keras_op("TopK")
def top_k(ctx: KerasContext, node: KerasNode) -> list[Value]:
    return ctx.tf_all("TopKV2", node.input(0), ctx.const(node.int_attr("k"), DType.I32))


@keras_op("Resize")
def resize(ctx: KerasContext, node: KerasNode) -> Value:
    first = node.get("data_format", "channels_last") == "channels_first"
    return resized_as(ctx, node, node.input(0), [int(n) for n in node.get("size")], first)


@keras_op("DepthToSpace", "SpaceToDepth")
def blocks(ctx: KerasContext, node: KerasNode) -> Value:
    layout = "NCHW" if node.get("data_format", "channels_last") == "channels_first" else "NHWC"
    return ctx.tf(
        node.op.removeprefix("ops."), node.input(0), block_size=node.int_attr("block_size"), data_format=layout
    )
