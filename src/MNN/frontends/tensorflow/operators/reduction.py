"""Reductions, extremes' positions, running sums, segments."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.common.expressions import binary, insert_axis, select, unary
from MNN.frontends.common.nhwc import channels_first, channels_last
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.lists import one
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.slicing import cut
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis
from MNN.ops.core.datatypes import data_type

_KINDS = {
    "Sum": "SUM", "Mean": "MEAN", "Max": "MAXIMUM", "Min": "MINIMUM", "Prod": "PROD", "All": "ALL", "Any": "ANY",
}  # fmt: skip
_PLACES = 1 << 20
"""Of an axis that is summed up in steps."""


@tf_op(*_KINDS)
def reduce(ctx: Context, node: TfNode) -> Value:
    return total(ctx, _KINDS[node.op], node.input(0), node.input(1), node.bool_attr("keep_dims", False))


def total(ctx: Context, kind: str, x: Value, axes: Value, keep: bool) -> Value:
    """A reduction over the axes in an operand; no axes leave the input as it is."""
    known = ctx.constant_ints(axes) if axes.is_const or axes.shape != (0,) else []
    if axes.is_const and not known:
        return ctx.op("Identity", x)
    if ctx.rank(x) == 4 and sorted(a % 4 for a in known or ()) == [1, 2]:  # of images: as convolutions give them
        out = ctx.op("Reduction", channels_first(ctx, x), operation=kind, dim=[2, 3], keepDims=keep)
        out = channels_last(ctx, out) if keep else out
    elif known:
        out = ctx.op("Reduction", x, operation=kind, dim=known, keepDims=keep)
    else:
        out = ctx.op("ReductionOrNone", x, axes, operation=kind, keepDims=keep)
    out.dtype = x.dtype
    return out


@tf_op("EuclideanNorm")
def euclidean_norm(ctx: Context, node: TfNode) -> Value:
    square = unary(ctx, "SQUARE", node.input(0))
    return unary(ctx, "SQRT", total(ctx, "SUM", square, node.input(1), node.bool_attr("keep_dims", False)))


@tf_op("ArgMax", "ArgMin")
def arg_extreme(ctx: Context, node: TfNode) -> Value:
    axis = ctx.constant_ints(node.input(1)) if len(node.inputs) > 1 else [0]
    if not axis:
        raise node.unsupported("an axis that is not constant", "use a constant")
    to = node.dtype_attr("output_type", DType.I64)
    kind = "DT_INT32" if to is DType.I32 else "DT_INT64"
    out = ctx.op(node.op, node.input(0), axis=axis[0], topK=1, outputDataType=kind)
    return out if to in (DType.I32, DType.I64) else ctx.op("Cast", out, dstT=data_type(to))


@tf_op("Cumsum", "Cumprod")
def cumulative(ctx: Context, node: TfNode) -> Value:
    exclusive, reverse = node.bool_attr("exclusive", False), node.bool_attr("reverse", False)
    op = "CumSum" if node.op == "Cumsum" else "CumProd"
    return ctx.op(op, node.input(0), node.input(1), exclusive=exclusive, reverse=reverse)


@tf_op("CumulativeLogsumexp")
def cumulative_log_sum(ctx: Context, node: TfNode) -> Value:
    """In as many steps as the axis' size has bits (Hillis and Steele, "Data parallel algorithms", 1986): each adds what
    lies 1, 2, 4... places before. ``exclusive`` begins with that of nothing, which is infinitely small."""
    x, axis = node.input(0), ctx.constant_ints(node.input(1))
    exclusive, reverse = node.bool_attr("exclusive", False), node.bool_attr("reverse", False)
    if not axis or x.shape is None:
        raise node.unsupported("an axis that is not constant, or an input of unknown rank", "export it with shapes")
    at = normalize_axis(axis[0], len(x.shape), node.where)
    count = x.shape[at]
    if not isinstance(count, int) or count > _PLACES:
        raise node.unsupported(f"an axis of size {count}", f"fix its size (below {_PLACES}) when exporting")
    out = ctx.op("Reverse", x, ctx.const([at])) if reverse else x
    out.dtype = x.dtype
    lowest = -math.inf
    if exclusive:
        out = _moved(ctx, out, at, 1, count, lowest)
    reach = 1
    while reach < count:
        earlier = _moved(ctx, out, at, reach, count, lowest)
        larger, smaller = (binary(ctx, k, out, earlier) for k in ("MAXIMUM", "MINIMUM"))
        share = unary(ctx, "LOG1P", unary(ctx, "EXP", binary(ctx, "SUB", smaller, larger)))
        same = ctx.op("BinaryOp", smaller, larger, opType="EQUAL")  # infinities of one sign leave no difference
        share = select(ctx, same, ctx.const_like(math.log(2), x), share)
        share.dtype = x.dtype
        out = binary(ctx, "ADD", larger, share)
        reach *= 2
    return ctx.op("Reverse", out, ctx.const([at])) if reverse else out


def _moved(ctx: Context, x: Value, axis: int, by: int, count: int, filled: float) -> Value:
    """Along the axis by some places, ``filled`` in front."""
    rank = ctx.rank(x) or 0
    borders = [[by if i == axis else 0, 0] for i in range(rank)]
    kept = cut(ctx, x, [(axis, 0, max(count - by, 0), 1)])
    out = ctx.op(
        "Padding", kept, ctx.const(np.asarray(borders).reshape(-1)), ctx.const_like(filled, x), mode="CONSTANT"
    )
    out.dtype = x.dtype
    return out


_SEGMENTS = {
    "Sum": ("ADD", 0), "Mean": ("ADD", 0), "SqrtN": ("ADD", 0), "Prod": ("MUL", 1), "Max": ("MAXIMUM", 0),
    "Min": ("MINIMUM", 0),
}  # fmt: skip


@tf_op("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def segment(ctx: Context, node: TfNode) -> Value:
    """As many segments as the largest number tells; a segment without entries is 0 (1 of a product)."""
    ids = node.input(1)
    last = ctx.op("Reduction", ids, operation="MAXIMUM", dim=[0], keepDims=True)
    last.dtype = ids.dtype
    return _segments(ctx, node, node.op.removeprefix("Segment"), one(ctx, binary(ctx, "ADD", last, 1)))


_SPARSE = tuple(f"SparseSegment{kind}{more}" for kind in ("Sum", "Mean", "SqrtN") for more in ("", "WithNumSegments"))


@tf_op(*_SPARSE)
def sparse_segment(ctx: Context, node: TfNode) -> Value:
    """Segments of entries that are picked first, as sums over embeddings are; over their count's root (``SqrtN``)."""
    node.ignore("sparse_gradient", "Tidx", "Tsegmentids", "Tnumsegments")
    data, picked, ids = node.tensors(0, 3)
    if ctx.rank(data) is None:
        raise node.unsupported("an input of unknown rank", "export the model with shapes")
    entries = ctx.op("GatherV2", data, picked, ctx.const(0, DType.I32))
    entries.dtype = data.dtype
    if ctx.rank(ids) != 1:
        raise node.unsupported("segment numbers that are not one row", "give one number per entry")
    if node.op.endswith("WithNumSegments"):
        count = one(ctx, node.input(3))
    else:
        last = ctx.op("Reduction", ids, operation="MAXIMUM", dim=[0], keepDims=True)
        last.dtype = ids.dtype
        count = one(ctx, binary(ctx, "ADD", last, 1))
    kind = node.op.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    return _segments(ctx, node, kind, count, (entries, ids))


@tf_op(*(f"Segment{kind}V2" for kind in ("Sum", "Prod", "Max", "Min")))
def segment_of_count(ctx: Context, node: TfNode) -> Value:
    """Segments without entries have what changes nothing."""
    return _combined(ctx, node, node.op.removeprefix("Segment").removesuffix("V2"))


@tf_op("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def unsorted_segment(ctx: Context, node: TfNode) -> Value:
    """As many segments as an operand says, and entries of negative numbers in none. Segments without entries have what
    changes nothing: the smallest or the largest number of the type, too."""
    return _combined(ctx, node, node.op.removeprefix("UnsortedSegment"))


def _combined(ctx: Context, node: TfNode, kind: str) -> Value:
    x, ids, count = node.input(0), node.input(1), one(ctx, node.input(2))
    ranks = ctx.rank(x), ctx.rank(ids)
    if ranks[0] is None or ranks[1] is None:
        raise node.unsupported("an input of unknown rank", "export the model with shapes")
    entry = ctx.op("Shape", x, hasStart=True, start=ranks[1])
    if ranks[1] != 1:
        ids = ctx.op("Reshape", ids, ctx.const([-1]))
        x = ctx.op("Reshape", x, ctx.op("Concat", ctx.const([-1], DType.I32), entry, axis=0))
        ids.dtype, x.dtype = node.input(1).dtype, node.input(0).dtype
    numbers = ctx.constant(ids)
    away = numbers is None or bool((numbers < 0).any())
    if away:  # to a segment behind the others
        last = count if ids.dtype is DType.I32 else ctx.op("CastLike", count, ids)
        ids = ctx.op("Select", ctx.op("BinaryOp", ids, ctx.const_like(0, ids), opType="LESS"), last, ids)
    rows = binary(ctx, "ADD", count, 1) if away else count
    shape = ctx.op("Concat", rows, entry, axis=0)
    combine, nothing = _SEGMENTS[kind]
    empty = _limit(kind, x, finite=True) if kind in ("Max", "Min") else nothing
    base = ctx.op("Fill", shape, ctx.const_like(empty, x))
    out = ctx.op("ScatterNd", insert_axis(ctx, ids, 1), x, shape, base, opType=combine)
    out.dtype, out.shape = x.dtype, base.shape
    return cut(ctx, out, [(0, 0, -1, 1)]) if away else out


@tf_op("NthElement")
def nth_element(ctx: Context, node: TfNode) -> Value:
    """The n-th smallest number of each row, from 0 on; ``reverse``: the n-th largest."""
    n = ctx.constant_ints(node.input(1))
    if not n or n[0] < 0:
        raise node.unsupported("a place that is not constant", "use a constant")
    k, axis = ctx.const([n[0] + 1], DType.I32), ctx.const(-1, DType.I32)
    largest = node.bool_attr("reverse", False)
    found, _ = ctx.emit("TopKV2", [node.input(0), k, axis], 2, sorted=True, largest=largest)
    return ctx.op("GatherV2", found, ctx.const(n[0], DType.I32), axis)


def _segments(ctx: Context, node: TfNode, kind: str, count: Value, given: tuple[Value, Value] | None = None) -> Value:
    """``given``: entries and the numbers of their segments, where these are not the first operands."""
    x, ids = given or (node.input(0), node.input(1))
    if ctx.rank(ids) != 1:
        raise node.unsupported("segment numbers that are not one row", "give one number per entry of the first axis")
    combine, empty = _SEGMENTS[kind]
    entry = ctx.op("Shape", x, hasStart=True, start=1)
    shape = ctx.op("Concat", count, entry, axis=0)
    at = insert_axis(ctx, ids, 1)
    base = ctx.op(
        "Fill", shape, ctx.const_like(_limit(kind, x), x) if kind in ("Max", "Min") else ctx.const_like(empty, x)
    )
    out = ctx.op("ScatterNd", at, x, shape, base, opType=combine)
    out.dtype, out.shape = x.dtype, base.shape
    if kind not in ("Mean", "SqrtN", "Max", "Min"):
        return out
    ones = ctx.op("Fill", ctx.op("Shape", ids), ctx.const_like(1, x))
    none = ctx.op("Fill", count, ctx.const_like(0, x))
    counts = ctx.op("ScatterNd", at, ones, count, none, opType="ADD")
    counts.dtype = x.dtype
    tail = (ctx.rank(x) or 1) - 1
    if tail:
        counts = ctx.op("Unsqueeze", counts, squeezeDims=list(range(1, 1 + tail)))
    if kind in ("Mean", "SqrtN"):
        counts = binary(ctx, "MAXIMUM", counts, 1)
        return binary(ctx, "REALDIV", out, counts if kind == "Mean" else unary(ctx, "SQRT", counts))
    there = ctx.op("BinaryOp", counts, ctx.const_like(0, x), opType="GREATER")
    return ctx.op("Select", there, out, ctx.const_like(0, x))


def _limit(kind: str, x: Value, finite: bool = False) -> float:
    """What every number replaces; ``finite``: the smallest or largest number that there is."""
    dtype = x.dtype or DType.F32
    if dtype.is_float and finite:
        most = float(np.finfo(np.float64 if dtype is DType.F64 else np.float32).max)
        return -most if kind == "Max" else most
    if dtype.is_float:
        return float("-inf") if kind == "Max" else float("inf")
    limits = np.iinfo(dtype.numpy.name)
    return limits.min if kind == "Max" else limits.max
