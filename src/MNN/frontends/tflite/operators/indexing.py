"""Reading and writing at computed positions, sorting, and results that are as long as the data says."""

from __future__ import annotations

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@tflite_op("GATHER", stored=True)
def gather(ctx: Context, node: TfliteNode) -> Value:
    """Slices along an axis; after ``batch_dims`` common axes, each entry has its own."""
    x, at = node.input(0), node.input(1)
    axis, batch = node.number("axis"), node.number("batch_dims")
    rank, picked = node.rank(0), node.rank(1)
    axis, batch = axis % max(rank, 1), batch % max(picked, 1) if batch < 0 else batch
    if batch == 0:
        return ctx.op("GatherV2", x, at, ctx.const(axis))
    if not batch <= axis < rank:
        raise node.malformed(f"axis {axis} with {batch} batch axes")
    order = [*range(batch), axis, *(a for a in range(batch, rank) if a != axis)]
    moved = ctx.permuted(x, order)  # the indexed axis right behind the batch
    found = ctx.op("GatherND", moved, ctx.op("Unsqueeze", at, squeezeDims=[picked]), batchDims=batch)
    # batch axes, those of the indices, the rest: the latter go around the indices again
    inner, between = picked - batch, axis - batch
    total = rank - 1 + inner
    rest = list(range(batch + inner, total))
    return ctx.permuted(found, [*range(batch), *rest[:between], *range(batch, batch + inner), *rest[between:]])


@tflite_op("GATHER_ND", stored=True)
def gather_nd(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("GatherND", node.input(0), node.input(1))


@tflite_op("SCATTER_ND")
def scatter_nd(ctx: Context, node: TfliteNode) -> Value:
    """Updates are added into zeros."""
    indices, updates, shape = node.input(0), ctx.real(node, 1), node.input(2)
    return ctx.op("ScatterNd", indices, updates, shape)


@tflite_op("SPARSE_TO_DENSE", stored=True)
def sparse_to_dense(ctx: Context, node: TfliteNode) -> Value:
    """Operands: places (a number, a list, or rows of coordinates), the shape, values (one for all, or one each), and
    the number elsewhere."""
    at, shape, values, other = (node.input(i) for i in range(4))
    rank = node.rank(0)
    depth = len(node.tensors_out[0].sizes)
    at = ctx.op("Reshape", at, ctx.const([-1, depth])) if rank < 2 else at
    whole = ctx.op("Fill", ctx.cast(shape, DType.I64), other)
    if node.rank(2) == 0:
        count = ctx.op("Shape", at, outputDataType="DT_INT64", hasEnd=True, end=1)
        values = ctx.op("BroadcastTo", values, count)
    return ctx.op("ScatterNd", at, values, shape, whole, opType="NONE")


@tflite_op("DYNAMIC_UPDATE_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE", stored=True)
def dynamic_update_slice(ctx: Context, node: TfliteNode) -> Value:
    """Operands: a tensor, what is written into it, where: moved so that it lies inside."""
    whole, part = node.input(0), node.input(1)
    starts = _starts(ctx, node, 2)
    sizes, sizes_in = (ctx.op("Shape", v, outputDataType="DT_INT64") for v in (whole, part))
    room = ctx.binary("SUB", sizes, sizes_in)
    starts = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", starts, ctx.const([0])), room)
    rank = node.rank(0)
    grids = []
    for axis in range(rank):
        size = ctx.op(
            "Reshape", ctx.op("GatherV2", sizes_in, ctx.const([axis]), ctx.const(0)), ctx.const([], DType.I64)
        )
        first = ctx.op("GatherV2", starts, ctx.const([axis]), ctx.const(0))
        line = ctx.op("Range", ctx.const(0), size, ctx.const(1))
        placed = ctx.op(
            "Reshape", ctx.binary("ADD", line, first), ctx.const([-1 if a == axis else 1 for a in range(rank)])
        )
        grids.append(ctx.op("BroadcastTo", placed, sizes_in))
    at = ctx.op("Pack", *grids, axis=-1)
    return ctx.op("ScatterNd", at, part, sizes, whole, opType="NONE")


@tflite_op("STABLEHLO_DYNAMIC_SLICE", stored=True)
def dynamic_slice(ctx: Context, node: TfliteNode) -> Value:
    """As many elements as the options say, from computed places on, moved so that they lie inside."""
    x, wanted = node.input(0), node.ints("slice_sizes")
    starts = _starts(ctx, node, 1)
    room = ctx.binary("SUB", ctx.op("Shape", x, outputDataType="DT_INT64"), ctx.const(wanted))
    starts = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", starts, ctx.const([0])), room)
    for axis, size in enumerate(wanted):
        first = ctx.op("GatherV2", starts, ctx.const([axis]), ctx.const(0))
        x = ctx.op("GatherV2", x, ctx.binary("ADD", first, ctx.const(np.arange(size))), ctx.const(axis))
    return x


def _starts(ctx: Context, node: TfliteNode, index: int) -> Value:
    """Places as one list of i64: an operand of one dimension, or a scalar for every axis."""
    if node.rank(index) == 1:
        return ctx.cast(node.input(index), DType.I64)
    scalars = [ctx.cast(node.input(i), DType.I64) for i in range(index, len(node.inputs))]
    return ctx.op("Pack", *scalars, axis=0)


@tflite_op("TOPK_V2", stored=True)
def top_k(ctx: Context, node: TfliteNode) -> list[Value]:
    kind = node.tensors_out[1].dtype if len(node.tensors_out) > 1 else None
    return ctx.emit("TopKV2", [node.input(0), node.input(1)], 2, outputDataType=data_type(kind or DType.I32))


@tflite_op("WHERE")
def where(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Where", node.input(0), outputDataType="DT_INT64")


@tflite_op("UNIQUE", stored=True)
def unique(ctx: Context, node: TfliteNode) -> list[Value]:
    kind = node.tensors_out[1].dtype if len(node.tensors_out) > 1 else None
    return ctx.emit("Unique", [node.input(0)], 2, sorted=False, outputDataType=data_type(kind or DType.I32))


@tflite_op("BUCKETIZE")
def bucketize(ctx: Context, node: TfliteNode) -> Value:
    """How many boundaries are not above a number."""
    given = node.option("boundaries")
    x = ctx.cast(node.input(0), DType.F32)
    line = ctx.const(np.asarray([] if given is None else given, np.float32))
    reached = ctx.binary("GREATER_EQUAL", ctx.op("Unsqueeze", x, squeezeDims=[-1]), line)
    return ctx.op("Reduction", ctx.cast(reached, DType.I32), operation="SUM", dim=[-1], keepDims=False)


@tflite_op("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def suppression(ctx: Context, node: TfliteNode) -> list[Value]:
    """Boxes that stay, filled up with zeros to the most asked for, their scores (the newer one), and their number. A
    sixth operand lowers the scores of neighbours instead of dropping them."""
    newer = node.op.endswith("V5")
    kept, scores = ctx.emit("SoftSuppression", [node.input(i) for i in range(6 if newer else 5)], 2)
    count = ctx.op("Shape", kept)
    room = ctx.binary("SUB", ctx.op("Reshape", node.input(2), ctx.const([1])), count)
    pads = ctx.op("Concat", ctx.const([0], DType.I32), room, axis=0)
    filled = [ctx.op("Padding", v, pads) for v in (kept, scores)]
    return [*filled[: 1 + newer], ctx.op("Reshape", count, ctx.const([], DType.I64))]
