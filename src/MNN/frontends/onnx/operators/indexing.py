"""Gathering, scattering, sorting, and results as long as the data says."""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@onnx_op("Gather")
def gather(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("GatherV2", node.input(0), node.input(1), ctx.const(node.int_attr("axis", 0), DType.I32))


@onnx_op("GatherElements")
def gather_elements(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("GatherElements", node.input(0), node.input(1), ctx.const(node.int_attr("axis", 0), DType.I32))


@onnx_op("GatherND")
def gather_nd(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("GatherND", node.input(0), node.input(1), batchDims=node.int_attr("batch_dims", 0) or None)


_REDUCTIONS = {"none": None, "add": "ADD", "mul": "MUL", "max": "MAXIMUM", "min": "MINIMUM"}


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(ctx: Context, node: OnnxNode) -> Value:
    combine = _REDUCTIONS[node.choice_attr("reduction", "none", *_REDUCTIONS)]
    axis = ctx.const(node.int_attr("axis", 0), DType.I32)
    return ctx.op("ScatterElements", node.input(0), node.input(1), node.input(2), axis, opType=combine)


@onnx_op("ScatterND")
def scatter_nd(ctx: Context, node: OnnxNode) -> Value:
    combine = _REDUCTIONS[node.choice_attr("reduction", "none", *_REDUCTIONS)]
    shape = ctx.op("Shape", node.input(0))
    return ctx.op("ScatterNd", node.input(1), node.input(2), shape, node.input(0), opType=combine)


@onnx_op("TopK")
def top_k_1(ctx: Context, node: OnnxNode) -> list[Value]:
    """Opset below 10: k is an attribute."""
    return _top_k(ctx, node, ctx.const(node.int_attr("k"), DType.I32))


@onnx_op("TopK", since=10, operands=Operands(singles=(1,)))
def top_k(ctx: Context, node: OnnxNode) -> list[Value]:
    return _top_k(ctx, node, node.input(1))


def _top_k(ctx: Context, node: OnnxNode, k: Value) -> list[Value]:
    axis = ctx.const(node.int_attr("axis", -1), DType.I32)
    node.ignore("sorted")  # a sorted answer is right in both cases
    largest = node.bool_attr("largest", True)
    return ctx.emit("TopKV2", [node.input(0), k, axis], 2, sorted=True, largest=largest, outputDataType="DT_INT64")


@onnx_op("ReverseSequence", operands=Operands(lists=(1,)))
def reverse_sequence(ctx: Context, node: OnnxNode) -> Value:
    batch, line = node.int_attr("batch_axis", 1), node.int_attr("time_axis", 0)
    return ctx.op("ReverseSequence", node.input(0), node.input(1), batchDim=batch, seqDim=line)


@onnx_op("NonZero")
def non_zero(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Permute", ctx.op("Where", node.input(0), outputDataType="DT_INT64"), dims=[1, 0])


@onnx_op("Compress", operands=Operands(lists=(1,)))
def compress(ctx: Context, node: OnnxNode) -> Value:
    axis = node.int_attr("axis") if node.has("axis") else None
    return ctx.op("Compress", node.input(0), node.input(1), axis=axis)


@onnx_op("Unique")
def unique(ctx: Context, node: OnnxNode) -> list[Value]:
    axis = node.int_attr("axis") if node.has("axis") else None
    attrs = {"sorted": node.bool_attr("sorted", True), "outputDataType": "DT_INT64", "inverseSecond": False}
    return ctx.emit("Unique", [node.input(0)], max(len(node.outputs), 1), axis=axis, **attrs)


@onnx_op("NonMaxSuppression", operands=Operands(ranks=(3, 3)))
def non_max_suppression(ctx: Context, node: OnnxNode) -> Value:
    center = node.int_attr("center_point_box", 0)
    op = "NonMaxSuppression" if center else "NonMaxSuppressionV2"
    inputs = [node.input(0), node.input(1), *node.inputs[2:]]
    return ctx.op(op, *inputs, outputDataType="DT_INT64", centerPointBox=center or None)


@onnx_op("TensorScatter", operands=Operands(lists=(2,)))
def tensor_scatter(ctx: Context, node: OnnxNode) -> Value:
    mode = node.choice_attr("mode", "linear", "linear", "circular")
    return ctx.op(
        "TensorScatter", node.input(0), node.input(1), node.optional(2), axis=node.int_attr("axis", -2), mode=mode
    )
