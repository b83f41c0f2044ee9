"""Gathering, scattering, sorting, and results as long as the data says."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import binary, insert_axis, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.lists import one
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.basic import content_of
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@tf_op("Gather")
def gather_first(ctx: Context, node: TfNode) -> Value:
    node.ignore("validate_indices")
    return ctx.op("GatherV2", node.input(0), node.input(1), ctx.const(0, DType.I32))


@tf_op("GatherV2")
def gather(ctx: Context, node: TfNode) -> Value:
    return _gather(ctx, node, node.input(0), node.input(1), node.input(2), node.int_attr("batch_dims", 0))


@tf_op("ResourceGather")
def resource_gather(ctx: Context, node: TfNode) -> Value:
    node.ignore("validate_indices")
    axis = node.int_attr("batch_dims", 0)
    return _gather(ctx, node, content_of(ctx, node), node.input(1), ctx.const(axis, DType.I32), axis)


def _gather(ctx: Context, node: TfNode, x: Value, at: Value, axis: Value, batch: int) -> Value:
    if not batch:
        return ctx.op("GatherV2", x, at, axis)
    known, ranks = ctx.constant_ints(axis), (ctx.rank(x), ctx.rank(at))
    if not known or ranks[0] is None or ranks[1] is None:
        raise node.unsupported("batch_dims with an unknown rank or axis", "export the model with shapes")
    batch += ranks[1] if batch < 0 else 0
    place = known[0] + (ranks[0] if known[0] < 0 else 0)
    order = [*range(batch), place, *(a for a in range(batch, ranks[0]) if a != place)]
    moved = x if order == sorted(order) else ctx.op("Permute", x, dims=order)
    out = ctx.op("GatherND", moved, insert_axis(ctx, at, ranks[1]), batchDims=batch)
    if order == sorted(order):
        return out
    # [batch, indices, before, after] to [batch, before, indices, after]
    inner, before = ranks[1] - batch, place - batch
    count = ranks[0] + ranks[1] - batch - 1
    back = [*range(batch), *(batch + inner + i for i in range(before)), *(batch + i for i in range(inner))]
    return ctx.op("Permute", out, dims=[*back, *range(batch + inner + before, count)])


@tf_op("GatherNd", "ResourceGatherNd")
def gather_nd(ctx: Context, node: TfNode) -> Value:
    node.ignore("bad_indices_policy")
    x = content_of(ctx, node) if node.op == "ResourceGatherNd" else node.input(0)
    return ctx.op("GatherND", x, node.input(1))


@tf_op("ScatterNd")
def scatter_nd(ctx: Context, node: TfNode) -> Value:
    """Updates of one place are added."""
    node.ignore("bad_indices_policy")
    indices, updates, shape = node.tensors(0, 3)
    zeros = ctx.op("Fill", shape, ctx.const_like(0, updates))
    return ctx.op("ScatterNd", indices, updates, shape, zeros, opType="ADD")


_COMBINED = {"Update": None, "Add": "ADD", "Sub": "ADD", "Max": "MAXIMUM", "Min": "MINIMUM"}


@tf_op(*(f"TensorScatter{kind}" for kind in _COMBINED))
def tensor_scatter(ctx: Context, node: TfNode) -> Value:
    node.ignore("bad_indices_policy")
    x, indices, updates = node.tensors(0, 3)
    kind = node.op.removeprefix("TensorScatter")
    if kind == "Sub":
        updates = ctx.op("UnaryOp", updates, opType="NEG")
    out = ctx.op("ScatterNd", indices, updates, ctx.op("Shape", x), x, opType=_COMBINED[kind])
    out.dtype, out.shape = x.dtype, x.shape
    return out


@tf_op("TopK", "TopKV2")
def top_k(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("sorted")  # a sorted answer is right in both cases
    k = node.input(1) if node.op == "TopKV2" else ctx.const(node.int_attr("k"), DType.I32)
    kind = data_type(node.dtype_attr("index_type", DType.I32))
    axis = ctx.const(-1, DType.I32)
    return ctx.emit("TopKV2", [node.input(0), k, axis], 2, sorted=True, largest=True, outputDataType=kind)


@tf_op("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def unique(ctx: Context, node: TfNode) -> list[Value]:
    """In the order of first occurrence: elements, or slices along an axis, the place of each input among them, and how
    often each is there."""
    kind = data_type(node.dtype_attr("out_idx", DType.I32))
    axis = ctx.constant_ints(node.input(1)) if len(node.inputs) > 1 else []
    if axis is None:
        raise node.unsupported("an axis that is not constant", "use a constant")
    along = axis[0] if axis and ctx.rank(node.input(0)) != 1 else None
    attrs = {"sorted": False, "outputDataType": kind, "inverseSecond": False, "axis": along}
    found = ctx.emit("Unique", [node.input(0)], 4, **attrs)
    return [found[0], found[2], found[3]] if "Counts" in node.op else [found[0], found[2]]


@tf_op("ListDiff", "SetDiff1d")
def list_diff(ctx: Context, node: TfNode) -> list[Value]:
    """The elements of x that y lacks, and their places."""
    x, y = node.input(0), node.input(1)
    same = ctx.op("BinaryOp", insert_axis(ctx, x, 1), insert_axis(ctx, y, 0), opType="EQUAL")
    kept = ctx.op("Not", ctx.op("Reduction", same, operation="ANY", dim=[1], keepDims=False))
    places = ctx.op("Where", kept, outputDataType=data_type(node.dtype_attr("out_idx", DType.I32)))
    at = ctx.op("Reshape", places, ctx.const([-1]))
    return [ctx.op("GatherV2", x, at, ctx.const(0, DType.I32)), at]


@tf_op("InvertPermutation")
def invert_permutation(ctx: Context, node: TfNode) -> Value:
    x = node.input(0)
    count = ctx.op("Shape", x)
    dtype = x.dtype or DType.I32
    line = ctx.op("Range", *(ctx.const(0, DType.I32), ctx.op("Squeeze", count), ctx.const(1, DType.I32)))
    line = line if dtype is DType.I32 else ctx.op("Cast", line, dstT=data_type(dtype))
    return ctx.op("ScatterNd", insert_axis(ctx, x, 1), line, count)


@tf_op("UnravelIndex")
def unravel_index(ctx: Context, node: TfNode) -> Value:
    return ctx.op("UnravelIndex", node.input(0), node.input(1))


@tf_op("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(ctx: Context, node: TfNode) -> Value:
    """Rows of data at the places that the indices beside them say; later ones win."""
    count = node.int_attr("N")
    indices, data = node.tensors(0, count), node.tensors(count)
    flat = [ctx.op("Reshape", v, ctx.const([-1])) for v in indices]
    rows = []
    for at, x in zip(indices, data, strict=True):
        rank = ctx.rank(at)
        if rank is None:
            raise node.unsupported("indices of unknown rank", "export the model with shapes")
        tail = ctx.op("Shape", x, hasStart=True, start=rank)
        rows.append(ctx.op("Reshape", x, ctx.op("Concat", ctx.const([-1], DType.I32), tail, axis=0)))
    places = ctx.op("Concat", *flat, axis=0) if count > 1 else flat[0]
    values = ctx.op("Concat", *rows, axis=0) if count > 1 else rows[0]
    last = ctx.op("Reduction", places, operation="MAXIMUM", dim=[0], keepDims=True)
    last.dtype = places.dtype
    tail = ctx.op("Shape", values, hasStart=True, start=1)
    shape = ctx.op("Concat", one(ctx, binary(ctx, "ADD", last, 1)), tail, axis=0)
    zeros = ctx.op("Fill", shape, ctx.const_like(0, values))
    return ctx.op("ScatterNd", insert_axis(ctx, places, 1), values, shape, zeros)


@tf_op("DynamicPartition")
def dynamic_partition(ctx: Context, node: TfNode) -> list[Value]:
    """For each number, the entries that have it."""
    x, numbers = node.input(0), node.input(1)
    rank = ctx.rank(numbers)
    if rank is None:
        raise node.unsupported("numbers of unknown rank", "export the model with shapes")
    if rank != 1:
        tail = ctx.op("Shape", x, hasStart=True, start=rank)
        x = ctx.op("Reshape", x, ctx.op("Concat", ctx.const([-1], DType.I32), tail, axis=0))
        numbers = ctx.op("Reshape", numbers, ctx.const([-1]))
    found = []
    for i in range(node.int_attr("num_partitions")):
        same = ctx.op("BinaryOp", numbers, ctx.const(i, DType.I32), opType="EQUAL")
        at = ctx.op("Reshape", ctx.op("Where", same), ctx.const([-1]))
        found.append(ctx.op("GatherV2", x, at, ctx.const(0, DType.I32)))
    return found


@tf_op("SparseToDense")
def sparse_to_dense(ctx: Context, node: TfNode) -> Value:
    """Numbers at their places in a tensor of one other number."""
    node.ignore("validate_indices")
    places, shape, values, default = node.tensors(0, 4)
    rank, kind = ctx.rank(places), ctx.rank(values)
    if rank is None or kind is None:
        raise node.unsupported("places of unknown rank", "export the model with shapes")
    if rank < 2:
        places = ctx.op("Reshape", places, ctx.const([-1, 1]))
    if kind == 0:
        count = ctx.op("Shape", places, hasStart=True, start=0, hasEnd=True, end=1)
        values = ctx.op("BroadcastTo", values, count)
    return ctx.op("ScatterNd", places, values, shape, ctx.op("Fill", shape, default))


@tf_op("Bucketize")
def bucketize(ctx: Context, node: TfNode) -> Value:
    """How many boundaries are not above each number: all for one that is none."""
    bounds = ctx.const(np.asarray(node.floats_attr("boundaries"), np.float32))
    x, rank = node.input(0), ctx.rank(node.input(0))
    if rank is None:
        raise node.unsupported("an input of unknown rank", "export the model with shapes")
    x = x if x.dtype is DType.F32 else ctx.op("Cast", x, dstT="DT_FLOAT")
    above = ctx.op("BinaryOp", insert_axis(ctx, x, rank), bounds, opType="LESS")
    number = binary(ctx, "SUB", ctx.const(np.int32(1)), ctx.op("Cast", above, dstT="DT_INT32"))
    return ctx.op("Reduction", number, operation="SUM", dim=[rank], keepDims=False)


@tf_op("LowerBound", "UpperBound")
def bound(ctx: Context, node: TfNode) -> Value:
    """How many of each row's sorted numbers are smaller than (LowerBound), or not greater than, each value."""
    numbers, values = insert_axis(ctx, node.input(0), 1), insert_axis(ctx, node.input(1), 2)
    kind = "LESS" if node.op == "LowerBound" else "LESS_EQUAL"
    to = node.dtype_attr("out_type", DType.I32)
    hits = ctx.op("Cast", ctx.op("BinaryOp", numbers, values, opType=kind), dstT=data_type(to))
    return ctx.op("Reduction", hits, operation="SUM", dim=[2], keepDims=False)


@tf_op("Bincount", "DenseBincount")
def bincount(ctx: Context, node: TfNode) -> Value:
    """How often each number below the size is there, or the sum of its weights."""
    binary_output = node.bool_attr("binary_output", False)
    at, size, weights = node.tensors(0, 3)
    if ctx.rank(at) == 2 and (binary_output or ctx.rank(weights) is not None):
        return _rows_counted(ctx, at, size, weights, binary_output)
    if binary_output or ctx.rank(at) != 1:
        raise node.unsupported("numbers of another rank than 1 and 2, or only whether they are there,", "count rows")
    if weights.shape == (0,):
        dtype = weights.dtype or DType.F32
        weights = ctx.op("Fill", ctx.op("Shape", at), ctx.const(np.asarray(1, dtype.numpy)))
    shape = one(ctx, size)
    zeros = ctx.op("Fill", shape, ctx.const_like(0, weights))
    inside = ctx.op("BinaryOp", at, size, opType="LESS")
    safe = ctx.op("Select", inside, at, ctx.const_like(0, at))
    kept = ctx.op("Select", inside, weights, ctx.const_like(0, weights))
    return ctx.op("ScatterNd", insert_axis(ctx, safe, 1), kept, shape, zeros, opType="ADD")


@tf_op("HistogramFixedWidth")
def histogram(ctx: Context, node: TfNode) -> Value:
    """How many numbers lie in each of equal intervals; those beyond the ends count to the outermost. Places are
    computed in f64, as TensorFlow has it."""
    values, ends, count = node.tensors(0, 3)
    kind = node.dtype_attr("dtype", DType.I32)
    low, high = (ctx.op("GatherV2", ends, ctx.const(i, DType.I32), ctx.const(0, DType.I32)) for i in (0, 1))
    low.dtype = high.dtype = values.dtype
    above = binary(ctx, "SUB", binary(ctx, "MAXIMUM", values, low), low)
    bins, whole, above = (ctx.op("Cast", v, dstT="DT_DOUBLE") for v in (count, binary(ctx, "SUB", high, low), above))
    bins.dtype = whole.dtype = above.dtype = DType.F64
    place = unary(ctx, "FLOOR", binary(ctx, "REALDIV", above, binary(ctx, "REALDIV", whole, bins)))
    place = binary(ctx, "MINIMUM", place, binary(ctx, "SUB", bins, 1))
    line = ctx.op("Reshape", ctx.op("Cast", place, dstT="DT_INT32"), ctx.const([-1]))
    line.dtype = DType.I32
    ones = ctx.op("Fill", ctx.op("Shape", line), ctx.const(np.asarray(1, kind.numpy)))
    zeros = ctx.op("Fill", one(ctx, count), ctx.const_like(0, ones))
    return ctx.op("ScatterNd", insert_axis(ctx, line, 1), ones, one(ctx, count), zeros, opType="ADD")


def _rows_counted(ctx: Context, at: Value, size: Value, weights: Value, only_whether: bool) -> Value:
    """``[rows, size]`` of ``at[rows, n]``: how often each number is there, the sum of its weights, or whether it is."""
    dtype = weights.dtype or DType.F32
    numbers = ctx.op(
        "Range", ctx.const(0, size.dtype), ctx.op("Reshape", size, ctx.const([])), ctx.const(1, size.dtype)
    )
    hits = ctx.op("BinaryOp", insert_axis(ctx, at, 2), numbers, opType="EQUAL")
    counts = ctx.op("Cast", hits, dstT=data_type(dtype))
    if only_whether:
        return ctx.op("Reduction", counts, operation="MAXIMUM", dim=[1], keepDims=False)
    if weights.shape is not None and 0 not in weights.shape:
        counts = ctx.op("BinaryOp", counts, insert_axis(ctx, weights, 2), opType="MUL")
    return ctx.op("Reduction", counts, operation="SUM", dim=[1], keepDims=False)
