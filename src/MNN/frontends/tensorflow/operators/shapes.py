"""Shapes as tensors, reshaping, and tensors made from sizes."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@tf_op("Shape", "ShapeN")
def shape(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("N")
    kind = data_type(node.dtype_attr("out_type", DType.I32))
    return [ctx.op("Shape", x, outputDataType=kind) for x in node.tensors()]


@tf_op("Size")
def size(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Size", node.input(0), outputDataType=data_type(node.dtype_attr("out_type", DType.I32)))


@tf_op("Rank")
def rank(ctx: Context, node: TfNode) -> Value:
    known = ctx.rank(node.input(0))
    return ctx.op("Rank", node.input(0)) if known is None else ctx.const(known, DType.I32)


@tf_op("Reshape")
def reshape(ctx: Context, node: TfNode) -> Value:
    """A size of 0 means no elements."""
    known = ctx.constant_ints(node.input(1))
    empty = known is not None and 0 in known
    return ctx.op("ReshapeExact" if empty else "Reshape", node.input(0), node.input(1))


@tf_op("ExpandDims")
def expand_dims(ctx: Context, node: TfNode) -> Value:
    axis = ctx.constant_ints(node.input(1))
    if not axis:
        return ctx.op("Unsqueeze", node.input(0), ctx.op("Reshape", node.input(1), ctx.const([1])))
    return ctx.op("Unsqueeze", node.input(0), squeezeDims=axis[:1])


@tf_op("Squeeze")
def squeeze(ctx: Context, node: TfNode) -> Value:
    dims = node.ints_attr("squeeze_dims", []) or node.ints_attr("axis", [])
    return ctx.op("Squeeze", node.input(0), squeezeDims=dims or None)


@tf_op("Transpose", "ConjugateTranspose")
def transpose(ctx: Context, node: TfNode) -> Value:
    order = ctx.constant_ints(node.input(1))
    if order is None:
        return ctx.op("Transpose", node.input(0), node.input(1))
    return ctx.op("Permute", node.input(0), dims=order) if order else node.input(0)


@tf_op("Fill")
def fill(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Fill", node.input(0), node.input(1))


@tf_op("Empty")
def empty(ctx: Context, node: TfNode) -> Value:
    node.ignore("init")
    return ctx.op("Fill", node.input(0), ctx.const(0, node.dtype_attr("dtype")))


@tf_op("Range")
def arange(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Range", *node.tensors(0, 3))


@tf_op("LinSpace")
def linspace(ctx: Context, node: TfNode) -> Value:
    return ctx.op("LinSpace", *node.tensors(0, 3))


@tf_op("BroadcastTo")
def broadcast_to(ctx: Context, node: TfNode) -> Value:
    return ctx.op("BroadcastTo", node.input(0), node.input(1))


@tf_op("BroadcastArgs")
def broadcast_args(ctx: Context, node: TfNode) -> Value:
    """The common shape of two shapes: of tensors of ones that are broadcast."""
    x, y = (ctx.op("Fill", v, ctx.const(1, DType.I32)) for v in node.tensors(0, 2))
    kind = data_type(node.input(0).dtype or DType.I32)
    return ctx.op("Shape", binary(ctx, "MUL", x, y), outputDataType=kind)


@tf_op("Tile")
def tile(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Tile", node.input(0), node.input(1))


@tf_op("Pack")
def pack(ctx: Context, node: TfNode) -> Value:
    node.ignore("N")
    return ctx.op("Pack", *node.tensors(), axis=node.int_attr("axis", 0))


@tf_op("Unpack")
def unpack(ctx: Context, node: TfNode) -> list[Value]:
    x, count, axis = node.input(0), node.int_attr("num"), node.int_attr("axis", 0)
    if ctx.static_shape(x) is not None:
        return ctx.emit("Unpack", [x], count, axis=axis)
    parts = ctx.emit("Slice", [x], count, axis=axis, slicePoints=[1] * count, sourceType="TORCH") if count > 1 else [x]
    return [ctx.op("Squeeze", part, squeezeDims=[axis]) for part in parts]


@tf_op("ConcatV2", "Concat")
def concat(ctx: Context, node: TfNode) -> Value:
    """The axis is the last operand, of the old form the first one."""
    node.ignore("N")
    last = node.op == "ConcatV2"
    axis = ctx.constant_ints(node.input(-1 if last else 0))
    parts = node.tensors(0, -1) if last else node.tensors(1)
    if not axis:
        raise node.unsupported("an axis that is not constant", "use a constant")
    return ctx.op("Concat", *parts, axis=axis[0]) if len(parts) > 1 else parts[0]


@tf_op("ParallelConcat")
def parallel_concat(ctx: Context, node: TfNode) -> Value:
    node.ignore("N", "shape")
    return ctx.op("Concat", *node.tensors(), axis=0)


@tf_op("Split", "SplitV")
def split(ctx: Context, node: TfNode) -> list[Value]:
    count = node.int_attr("num_split")
    x, axis = (node.input(1), node.input(0)) if node.op == "Split" else (node.input(0), node.input(2))
    at = ctx.constant_ints(axis)
    if not at:
        raise node.unsupported("an axis that is not constant", "use a constant")
    if count == 1:
        return [x]
    if node.op == "SplitV":
        sizes = ctx.constant_ints(node.input(1))
        if sizes is not None:
            return ctx.emit("Slice", [x], count, axis=at[0], slicePoints=sizes, sourceType="TORCH")
        return ctx.emit("Slice", [x, node.input(1)], count, axis=at[0], sourceType="TORCH")
    return ctx.emit("Slice", [x], count, axis=at[0], sourceType="TORCH")


@tf_op("Where")
def where(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Where", node.input(0), outputDataType="DT_INT64")


@tf_op("OneHot")
def one_hot(ctx: Context, node: TfNode) -> Value:
    return ctx.op("OneHot", *node.tensors(0, 4), axis=node.int_attr("axis", -1))
