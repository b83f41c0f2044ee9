"""Layers that move, join and cut."""

from __future__ import annotations

from itertools import pairwise

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.frontends.common.expressions import binary
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

MAX_TILES = 1 << 20


@caffe_layer("Concat")
def concat(ctx: Context, node: CaffeNode) -> Value:
    param = node.params("concat_param")
    axis = param.integer("axis", param.integer("concat_dim", 1))
    return ctx.emit("Concat", [node.input(i) for i in range(max(len(node.inputs), 1))], axis=node.axis(axis))[0]


@caffe_layer("Slice")
def slice_(ctx: Context, node: CaffeNode) -> list[Value]:
    """Cut at places, or into equal pieces."""
    param = node.params("slice_param")
    axis = node.axis(param.integer("axis", param.integer("slice_dim", 1)))
    points, size = param.integers("slice_point"), node.size(axis)
    if not points:
        if node.outputs < 1 or size % node.outputs:
            raise node.malformed(f"{size} in axis {axis} do not divide into {node.outputs} tops")
        points = [size // node.outputs * i for i in range(1, node.outputs)]
    edges = [0, *points, size]
    if len(points) != node.outputs - 1 or any(a >= b for a, b in pairwise(edges)):
        raise node.malformed(f"cuts at {points} for {node.outputs} tops of {size}")
    if node.outputs == 1:
        return [ctx.renamed(node.input(0))]
    return ctx.emit("Slice", [node.input(0)], node.outputs, axis=axis, slicePoints=points, sourceType="CAFFE")


@caffe_layer("Flatten")
def flatten(ctx: Context, node: CaffeNode) -> Value:
    param, rank = node.params("flatten_param"), node.rank()
    start, end = node.axis(param.integer("axis", 1)), node.axis(param.integer("end_axis", -1))
    if start > end:
        raise node.malformed(f"axes {start} to {end}")
    if start == 1 and end == rank - 1:
        return ctx.op("Flatten", node.input(0), axis=1)
    behind = [node.size(a) for a in range(end + 1, rank)]
    return ctx.reshaped(node.input(0), [*([0] * start), -1, *behind])


@caffe_layer("Reshape")
def reshape(ctx: Context, node: CaffeNode) -> Value:
    """Some axes in other sizes: 0 copies one, -1 follows."""
    param, rank = node.params("reshape_param"), node.rank()
    axis, count = param.integer("axis", 0), param.integer("num_axes", -1)
    start = axis if axis >= 0 else rank + axis + 1
    end = rank if count == -1 else start + count
    if not 0 <= start <= end <= rank or count < -1:
        raise node.malformed(f"axes {start} to {end} of a blob of shape {list(node.shape())}")
    dims = param.message("shape").integers("dim")
    if dims.count(-1) > 1 or min(dims, default=0) < -1 or any(d == 0 and start + i >= rank for i, d in enumerate(dims)):
        raise node.malformed(f"{dims} is no shape")
    return ctx.reshaped(node.input(0), [*([0] * start), *dims, *(node.size(a) for a in range(end, rank))])


@caffe_layer("Tile")
def tile(ctx: Context, node: CaffeNode) -> Value:
    param = node.params("tile_param")
    axis, tiles = node.axis(param.integer("axis", 1)), param.integer("tiles", 0)
    if not 1 <= tiles <= MAX_TILES:
        raise node.malformed(f"{tiles} tiles")
    repeats = [tiles if a == axis else 1 for a in range(node.rank())]
    return ctx.op("Tile", node.input(0), ctx.const(repeats, DType.I32))


@caffe_layer("Crop")
def crop(ctx: Context, node: CaffeNode) -> Value:
    """The first blob cut to the sizes of the second one from ``axis`` on."""
    param = node.params("crop_param")
    axis, offsets = node.axis(param.integer("axis", 2)), param.integers("offset") or [0]
    if node.rank(1) != node.rank() or len(offsets) not in (1, node.rank() - axis):
        raise node.malformed(
            f"{len(offsets)} offsets for blobs of shapes {list(node.shape())} and {list(node.shape(1))}"
        )
    return ctx.op("Crop", node.input(0), node.input(1), axis=axis, offset=offsets)


@caffe_layer("Permute")
def permute(ctx: Context, node: CaffeNode) -> Value:
    """SSD's: axes that the order leaves out come last."""
    order, rank = node.params("permute_param").integers("order"), node.rank()
    if len(set(order)) != len(order) or not all(0 <= a < rank for a in order):
        raise node.malformed(f"{order} is no order of {rank} axes")
    return ctx.op("Permute", node.input(0), dims=[*order, *(a for a in range(rank) if a not in order)])


@caffe_layer("ShuffleChannel")
def shuffle_channel(ctx: Context, node: CaffeNode) -> Value:
    """Channels of groups take turns (Zhang et al. 2017, arXiv:1707.01083)."""
    group, channels = node.params("shuffle_channel_param").integer("group", 1), node.size(1)
    if group < 1 or channels % group:
        raise node.malformed(f"{channels} channels do not divide into {group} groups")
    behind = [node.size(a) for a in range(2, node.rank())]
    apart = ctx.reshaped(node.input(0), [0, group, channels // group, *behind])
    turned = ctx.op("Permute", apart, dims=[0, 2, 1, *range(3, node.rank() + 1)])
    return ctx.reshaped(turned, [0, channels, *behind])


@caffe_layer("BatchReindex")
def batch_reindex(ctx: Context, node: CaffeNode) -> Value:
    """Samples by their numbers."""
    index = ctx.op("Cast", node.input(1), dstT=data_type(DType.I32))
    return ctx.op("GatherV2", node.input(0), ctx.reshaped(index, [-1]), ctx.const(0, DType.I32))


@caffe_layer("Filter")
def filter_(ctx: Context, node: CaffeNode) -> list[Value]:
    """The samples of each blob that the last one has other than 0 for."""
    *blobs, selector = node.inputs or [node.input(0)]
    if len(blobs) != node.outputs:
        raise node.malformed(f"{len(node.inputs)} bottoms and {node.outputs} tops")
    chosen = ctx.reshaped(binary(ctx, "NOTEQUAL", selector, 0.0), [-1])
    return [ctx.op("Compress", x, chosen, axis=0) for x in blobs]


@caffe_layer("ArgMax")
def arg_max(ctx: Context, node: CaffeNode) -> Value:
    """The places of the largest numbers, as floats, of equal ones the last first; of all of a sample where no axis is
    given, and then with the numbers themselves if asked."""
    param, x = node.params("argmax_param"), node.input(0)
    count, values = param.integer("top_k", 1), param.flag("out_max_val", False)
    along = node.axis(param.integer("axis")) if param.has("axis") else None
    axis = 1 if along is None else along
    if along is None:
        x = ctx.op("Flatten", x, axis=1)
        size = 1
        for a in range(1, node.rank()):
            size *= node.size(a)
    else:
        size = node.size(axis)
    if not 1 <= count <= size:
        raise node.malformed(f"{count} largest of {size} numbers")
    backwards = ctx.op("Reverse", x, ctx.const([axis], DType.I32))  # so that the last of equal ones is the first
    best, at = ctx.emit(
        "TopKV2", [backwards, ctx.const(count, DType.I32), ctx.const(axis, DType.I32)], 2, sorted=True, largest=True,
        outputDataType="DT_INT32",
    )  # fmt: skip
    if along is not None and values:
        return ctx.renamed(best)
    place = ctx.op("Cast", binary(ctx, "SUB", ctx.const(size - 1, DType.I32), at), dstT=data_type(DType.F32))
    if along is not None:
        return place
    rows = [ctx.reshaped(v, [0, 1, count]) for v in ((place, best) if values else (place,))]
    out = rows[0] if len(rows) == 1 else ctx.emit("Concat", rows, axis=1)[0]
    return ctx.reshaped(out, [0, 2 if values else 1, count, *([1] * (node.rank() - 3))]) if node.rank() > 3 else out


@caffe_layer("Parameter")
def parameter(ctx: Context, node: CaffeNode) -> Value:
    """Weights as a blob."""
    shape = node.params("parameter_param").message("shape").integers("dim")
    return ctx.renamed(ctx.const(node.weight(0, *shape)))
