"""Ragged tensors: rows of different lengths within each other."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, cast, compare, select, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.sparse.rows import Rows, places, splits_of, taken
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


def _levels(ctx: Context, node: TfNode, parts: list[Value]) -> list[Rows]:
    """The rows of each level, the outermost first, from splits, or from a number of rows and the rows of entries."""
    kinds = node.strs_attr("row_partition_types")
    if kinds[:1] == ["FIRST_DIM_SIZE"] and len(kinds) == len(parts) > 1 and set(kinds[1:]) == {"VALUE_ROWIDS"}:
        count, found = parts[0], []
        for rows in parts[1:]:
            found.append(Rows.of_rows(ctx, rows, count))
            count = ctx.op("Size", rows)
        return found
    if len(kinds) != len(parts) or not parts or set(kinds) != {"ROW_SPLITS"}:
        raise node.unsupported(f"rows given by {', '.join(kinds)}", "give splits, or the rows of values")
    return [Rows.of_splits(ctx, part) for part in parts]


@tf_op("RaggedTensorToTensor")
def to_tensor(ctx: Context, node: TfNode) -> Value:
    """Rows filled up with a default number; a shape that is given cuts them, too."""
    node.ignore("num_row_partition_tensors")
    shape, values, default = node.tensors(0, 3)
    levels = _levels(ctx, node, node.tensors(3))
    axes = len(levels) + 1
    at, sizes = places(ctx, levels)
    inner = ctx.op("Shape", values, hasStart=True, start=1)
    wanted = ctx.constant_ints(shape)
    if wanted is None or any(n >= 0 for n in wanted[:axes]):
        if wanted is not None:
            wanted = [*wanted, *[-1] * axes][:axes]
        given = ctx.const(wanted, DType.I32) if wanted is not None else cast(ctx, shape, DType.I32)
        if wanted is None:
            if shape.shape is None or len(shape.shape) != 1:
                raise node.unsupported("a shape that is not constant", "use a constant")
            given = ctx.op("StridedSlice", given, *(ctx.const([n]) for n in (0, axes, 0, 1)), fromType=1)
            given.dtype = DType.I32
        sizes = select(ctx, compare(ctx, "LESS", given, 0), sizes, given)
        sizes.dtype = DType.I32
        inside = ctx.op("Reduction", compare(ctx, "LESS", at, sizes), operation="ALL", dim=[1], keepDims=False)
        kept = ctx.op("Reshape", ctx.op("Where", inside), ctx.const([-1]))
        at, values = taken(ctx, at, kept), taken(ctx, values, kept)
    whole = ctx.op("Concat", sizes, inner, axis=0)
    out = ctx.op("ScatterNd", at, values, whole, ctx.op("BroadcastTo", default, whole))
    out.dtype = values.dtype
    if values.shape is not None:
        out.shape = (*(ctx.unique(f"{node.name}.{axis}") for axis in range(axes)), *values.shape[1:])
    return out


@tf_op("RaggedTensorToSparse")
def to_sparse(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("RAGGED_RANK")
    at, sizes = places(ctx, [Rows.of_splits(ctx, v) for v in node.tensors(0, len(node.inputs) - 1)])
    if ctx.rank(node.input(-1)) != 1:
        raise node.unsupported("values that are not one row", "use a ragged tensor whose innermost axis is ragged")
    return [cast(ctx, at, DType.I64), node.input(-1), cast(ctx, sizes, DType.I64)]


@tf_op("RaggedRange")
def ranges(ctx: Context, node: TfNode) -> list[Value]:
    """For each row the numbers from its start to its limit in steps of its delta."""
    starts, limits, deltas = node.tensors(0, 3)
    splits = node.dtype_attr("Tsplits", DType.I64)
    span = binary(ctx, "SUB", limits, starts)
    if starts.dtype is not None and starts.dtype.is_float:
        lengths = unary(ctx, "CEIL", binary(ctx, "REALDIV", span, deltas))
    else:
        lengths = unary(ctx, "NEG", binary(ctx, "FLOORDIV", unary(ctx, "NEG", span), deltas))
    lengths = ctx.op("Reshape", cast(ctx, binary(ctx, "MAXIMUM", lengths, 0), DType.I32), ctx.const([-1]))
    lengths.dtype = DType.I32
    rows = Rows.of_lengths(ctx, lengths)
    shape = ctx.op("Shape", lengths)
    start, delta = (taken(ctx, ctx.op("BroadcastTo", v, shape), rows.row) for v in (starts, deltas))
    start.dtype = delta.dtype = starts.dtype
    step = rows.place if starts.dtype in (DType.I32, None) else ctx.op("Cast", rows.place, dstT=data_type(starts.dtype))
    step.dtype = starts.dtype
    return [cast(ctx, rows.splits, splits), binary(ctx, "ADD", start, binary(ctx, "MUL", step, delta))]


@tf_op("RaggedGather")
def gather(ctx: Context, node: TfNode) -> list[Value]:
    """Whole rows that are picked."""
    node.ignore("num_splits")
    count = node.int_attr("PARAMS_RAGGED_RANK")
    splits, values, rows = node.tensors(0, count), node.input(count), cast(ctx, node.input(count + 1), DType.I32)
    if node.int_attr("OUTPUT_RAGGED_RANK") != count or len(splits) != count:
        raise node.unsupported("indices of more than one axis", "pick rows by one row of indices")
    made: list[Value] = []
    for given in splits:
        level = Rows.of_splits(ctx, given)
        picked = Rows.of_splits(ctx, splits_of(ctx, taken(ctx, level.lengths, rows)))
        rows = binary(ctx, "ADD", taken(ctx, level.splits, taken(ctx, rows, picked.row)), picked.place)
        made.append(cast(ctx, picked.splits, given.dtype or DType.I64))
    return [*made, taken(ctx, values, rows)]
