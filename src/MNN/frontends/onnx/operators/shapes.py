"""Reshaping, reordering, and shapes as tensors."""

from __future__ import annotations

import numpy as np

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.registry import onnx_op
from MNN.frontends.onnx.tensors import dtype_of
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@onnx_op("Reshape")
def reshape(ctx: Context, node: OnnxNode) -> Value:
    """Opset below 5 gives the shape as an attribute."""
    return ctx.op("Reshape", node.input(0), ctx.const(np.asarray(node.ints_attr("shape", []), np.int64)))


@onnx_op("Reshape", since=5, operands=Operands(lists=(1,)))
def reshape_5(ctx: Context, node: OnnxNode) -> Value:
    shape = ctx.constant(node.input(1))
    exact = node.bool_attr("allowzero", False) and (shape is None or 0 in shape)
    return ctx.op("ReshapeExact" if exact else "Reshape", node.input(0), node.input(1))


@onnx_op("Flatten")
def flatten(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Flatten", node.input(0), axis=node.int_attr("axis", 1))


@onnx_op("Squeeze", "Unsqueeze", operands=Operands(lists=(1,)))
def squeeze(ctx: Context, node: OnnxNode) -> Value:
    """Axes are an attribute, from opset 13 on an operand."""
    axes = node.optional(1)
    dims = node.ints_attr("axes", None) if axes is None else ctx.constant_ints(axes)
    if dims is None and axes is not None:
        return ctx.op(node.op, node.input(0), axes)
    if dims == []:
        return node.input(0)
    return ctx.op(node.op, node.input(0), squeezeDims=dims)


@onnx_op("Transpose")
def transpose(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Permute", node.input(0), dims=node.ints_attr("perm", None) or None)


@onnx_op("Expand", operands=Operands(lists=(1,)))
def expand(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("BroadcastTo", node.input(0), node.input(1))


@onnx_op("Tile")
def tile(ctx: Context, node: OnnxNode) -> Value:
    """Opset below 6 repeats one axis: operands tiles and axis."""
    x, times, axis = node.input(0), ctx.constant_ints(node.input(1)), ctx.constant_ints(node.input(2))
    rank = ctx.rank(x)
    if times is None or axis is None or rank is None:
        raise node.unsupported("tiles and axis that are not constant", "use opset 6 or newer")
    repeats = [times[0] if i == axis[0] % rank else 1 for i in range(rank)]
    return ctx.op("Tile", x, ctx.const(repeats))


@onnx_op("Tile", since=6, operands=Operands(lists=(1,)))
def tile_6(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Tile", node.input(0), node.input(1))


@onnx_op("Shape")
def shape(ctx: Context, node: OnnxNode) -> Value:
    attrs: dict[str, object] = {"outputDataType": "DT_INT64"}
    if node.has("start"):
        attrs |= {"hasStart": True, "start": node.int_attr("start")}
    if node.has("end"):
        attrs |= {"hasEnd": True, "end": node.int_attr("end")}
    return ctx.op("Shape", node.input(0), **attrs)


@onnx_op("Size")
def size(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Size", node.input(0), outputDataType="DT_INT64")


@onnx_op("ConstantOfShape", operands=Operands(lists=(0,)))
def constant_of_shape(ctx: Context, node: OnnxNode) -> Value:
    value = node.tensor_attr("value", None)
    number = np.zeros(1, np.float32) if value is None else value
    if number.size != 1:
        raise node.unsupported(f"a value of {number.size} numbers", "give one")
    return ctx.op("Fill", node.input(0), ctx.const(number.reshape(())))


@onnx_op("Range", operands=Operands(singles=(0, 1, 2)))
def arange(ctx: Context, node: OnnxNode) -> Value:
    node.ignore("stash_type")
    return ctx.op("Range", node.input(0), node.input(1), node.input(2))


@onnx_op("EyeLike")
def eye_like(ctx: Context, node: OnnxNode) -> Value:
    kind = data_type(dtype_of(node.int_attr("dtype"), node.where)) if node.has("dtype") else None
    return ctx.op("EyeLike", node.input(0), ctx.const(node.int_attr("k", 0), DType.I32), outputDataType=kind)


@onnx_op("Trilu", operands=Operands(singles=(1,)))
def trilu(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Trilu", node.input(0), node.optional(1), upper=node.bool_attr("upper", True))


@onnx_op("OneHot", operands=Operands(singles=(1,)))
def one_hot(ctx: Context, node: OnnxNode) -> Value:
    """values holds the numbers (off, on); negative indices count from the end."""
    off, on = ctx.emit("Slice", [node.input(2)], 2, axis=0, slicePoints=[1, 1], sourceType="TORCH")
    parts = [ctx.op("Squeeze", v, squeezeDims=[0]) for v in (on, off)]
    indices, depth = node.input(0), node.input(1)
    if indices.dtype not in (None, DType.I32, DType.I64):  # small integers may not hold the depth
        indices = ctx.op("Cast", indices, dstT="DT_INT64")
    count = ctx.op("CastLike", ctx.op("Reshape", depth, ctx.const(np.zeros(0, np.int64))), indices)
    negative = ctx.op("BinaryOp", indices, ctx.const_like(0, indices), opType="LESS")
    indices = ctx.op("Select", negative, ctx.op("BinaryOp", indices, count, opType="ADD"), indices)
    return ctx.op("OneHot", indices, depth, *parts, axis=node.int_attr("axis", -1))
