"""Sparse tensors: numbers and their places ``[entries, axes]`` in a shape."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, cast, compare, insert_axis
from MNN.frontends.common.terms import line, size_of
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.sparse.rows import counted, taken
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def _column(ctx: Context, at: Value, axis: int) -> Value:
    out = ctx.op("GatherV2", at, ctx.const(axis, DType.I32), ctx.const(1, DType.I32))
    out.dtype = at.dtype
    return out


def _strides(ctx: Context, shape: Value) -> Value:
    """How many places of the last axis a step along each axis is."""
    out = ctx.op("CumProd", shape, ctx.const(0, DType.I32), exclusive=True, reverse=True)
    out.dtype = shape.dtype
    return out


def _flat(ctx: Context, at: Value, shape: Value) -> Value:
    """One number for each place, ascending in the order of axes."""
    steps = binary(ctx, "MUL", at, _strides(ctx, shape))
    out = ctx.op("Reduction", steps, operation="SUM", dim=[1], keepDims=False)
    out.dtype = at.dtype
    return out


@tf_op("SparseTensorDenseMatMul")
def matrix_product(ctx: Context, node: TfNode) -> Value:
    """A sparse matrix by a dense one: each number weighs a row, which is added where it belongs."""
    at, values, shape, dense = node.tensors(0, 4)
    turned = node.bool_attr("adjoint_a", False)
    if node.bool_attr("adjoint_b", False):
        dense = ctx.op("Permute", dense, dims=[1, 0])
        dense.dtype = values.dtype
    row, column = (_column(ctx, at, axis) for axis in ((1, 0) if turned else (0, 1)))
    count = ctx.op("GatherV2", shape, ctx.const([1 if turned else 0], DType.I32))
    whole = ctx.op("Concat", cast(ctx, count, DType.I32), ctx.op("Shape", dense, hasStart=True, start=1), axis=0)
    added = binary(ctx, "MUL", taken(ctx, dense, column), insert_axis(ctx, values, 1))
    zeros = ctx.op("Fill", whole, ctx.const_like(0, values))
    out = ctx.op("ScatterNd", insert_axis(ctx, row, 1), added, whole, zeros, opType="ADD")
    out.dtype, out.shape = (
        values.dtype,
        None if dense.shape is None else (ctx.unique(f"{node.name}.0"), *dense.shape[1:]),
    )
    return out


@tf_op("SparseTensorDenseAdd")
def dense_sum(ctx: Context, node: TfNode) -> Value:
    at, values, shape, dense = node.tensors(0, 4)
    return ctx.op("ScatterNd", at, values, shape, dense, opType="ADD")


_CWISE = {"Add": "ADD", "Mul": "MUL", "Div": "REALDIV"}


@tf_op(*(f"SparseDenseCwise{kind}" for kind in _CWISE))
def with_dense(ctx: Context, node: TfNode) -> Value:
    """The values, each with the dense number at its place."""
    at, values, shape, dense = node.tensors(0, 4)
    there = ctx.op("GatherND", ctx.op("BroadcastTo", dense, shape), at)
    out = binary(ctx, _CWISE[node.op.removeprefix("SparseDenseCwise")], values, there)
    out.shape = values.shape
    return out


@tf_op("SparseReorder")
def reorder(ctx: Context, node: TfNode) -> list[Value]:
    """Places in the order of axes."""
    at, values, shape = node.tensors(0, 3)
    order = _ascending(ctx, _flat(ctx, at, shape))
    return [taken(ctx, at, order), taken(ctx, values, order)]


@tf_op("SparseReshape")
def reshape(ctx: Context, node: TfNode) -> list[Value]:
    """Places and shape in another shape of as many places; one size may be -1."""
    at, shape, wanted = node.tensors(0, 3)
    negative = ctx.op("BinaryOp", wanted, ctx.const_like(0, wanted), opType="LESS")
    known = ctx.op("Select", negative, ctx.const_like(1, wanted), wanted)
    rest = binary(ctx, "FLOORDIV", *(_product(ctx, v) for v in (shape, known)))
    sizes = ctx.op("Select", negative, rest, wanted)
    sizes.dtype = wanted.dtype
    steps = binary(ctx, "FLOORDIV", insert_axis(ctx, _flat(ctx, at, shape), 1), _strides(ctx, sizes))
    return [binary(ctx, "FLOORMOD", steps, sizes), sizes]


def _product(ctx: Context, x: Value) -> Value:
    out = ctx.op("Reduction", x, operation="PROD", dim=[0], keepDims=True)
    out.dtype = x.dtype
    return out


@tf_op("SparseSlice")
def slice_of(ctx: Context, node: TfNode) -> list[Value]:
    """What lies in a box, its places counted from there."""
    at, values, shape, start, size = node.tensors(0, 5)
    end = binary(ctx, "MINIMUM", binary(ctx, "ADD", start, size), shape)
    above = ctx.op("BinaryOp", start, at, opType="LESS_EQUAL")
    below = ctx.op("BinaryOp", at, end, opType="LESS")
    inside = ctx.op("BinaryOp", above, below, opType="MUL")
    whole = ctx.op("Reduction", inside, operation="ALL", dim=[1], keepDims=False)
    kept = ctx.op("Reshape", ctx.op("Where", whole), ctx.const([-1]))
    moved = binary(ctx, "SUB", taken(ctx, at, kept), start)
    return [moved, taken(ctx, values, kept), binary(ctx, "MAXIMUM", binary(ctx, "SUB", end, start), 0)]


@tf_op("SparseFillEmptyRows")
def fill_empty_rows(ctx: Context, node: TfNode) -> list[Value]:
    """Rows without entries get one of a default number, at their begin."""
    at, values, shape, default = node.tensors(0, 4)
    rows = cast(ctx, ctx.op("GatherV2", shape, ctx.const(0, DType.I32)), DType.I32)
    own = cast(ctx, _column(ctx, at, 0), DType.I32)
    empty = compare(ctx, "EQUAL", counted(ctx, own, rows), 0)
    added = ctx.op("Reshape", ctx.op("Where", empty), ctx.const([-1]))
    added.dtype = DType.I32
    begins = ctx.op("Padding", insert_axis(ctx, added, 1), _behind(ctx, shape), mode="CONSTANT")
    places = ctx.op("Concat", at, cast(ctx, begins, DType.I64), axis=0)
    numbers = ctx.op("Concat", values, ctx.op("BroadcastTo", default, ctx.op("Shape", added)), axis=0)
    all_rows = ctx.op("Concat", own, added, axis=0)
    places.dtype, numbers.dtype, all_rows.dtype = DType.I64, values.dtype, DType.I32
    total = size_of(ctx, all_rows, 0)
    wide = [cast(ctx, v, DType.I64) for v in (all_rows, total, line(ctx, total))]
    keys = binary(ctx, "ADD", binary(ctx, "MUL", wide[0], wide[1]), wide[2])  # entries of a row stay in order
    order = _ascending(ctx, keys)
    back = ctx.op("ScatterNd", insert_axis(ctx, order, 1), line(ctx, total), ctx.op("Shape", order))
    back.dtype = DType.I32
    kept = taken(ctx, back, line(ctx, size_of(ctx, own, 0)))
    return [taken(ctx, places, order), taken(ctx, numbers, order), empty, cast(ctx, kept, DType.I64)]


def _behind(ctx: Context, shape: Value) -> Value:
    """Borders that make a column as wide as a shape is long."""
    axes = binary(ctx, "SUB", size_of(ctx, shape, 0), 1)
    return ctx.op("Concat", ctx.const([0, 0, 0], DType.I32), ctx.op("Reshape", axes, ctx.const([1])), axis=0)


def _ascending(ctx: Context, keys: Value) -> Value:
    """The order in which numbers ascend."""
    count = ctx.op("Reshape", size_of(ctx, keys, 0), ctx.const([1]))
    _, order = ctx.emit("TopKV2", [keys, count, ctx.const(-1, DType.I32)], 2, sorted=True, largest=False)
    order.dtype = DType.I32
    return order
