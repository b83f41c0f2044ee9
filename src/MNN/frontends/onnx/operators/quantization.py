"""Quantisation operators keep their ONNX form; passes turn pairs of them into MNN's quantised tensors."""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operators.convolution import ints, pad_mode, spatial_rank
from MNN.frontends.onnx.registry import onnx_op
from MNN.frontends.onnx.tensors import dtype_of
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@onnx_op("QuantizeLinear", "DequantizeLinear")
def quantize_linear(ctx: Context, node: OnnxNode) -> Value:
    code = node.int_attr("output_dtype", 0)
    node.ignore("precision")  # the width of the division only
    saturate = bool(node.int_attr("saturate", 1))
    return ctx.op(
        node.op, node.input(0), node.input(1), node.optional(2), axis=node.int_attr("axis", 1),
        block_size=node.int_attr("block_size", 0) or None,
        dtype=data_type(dtype_of(code, node.where)) if code else None, **({} if saturate else {"saturate": False}),
    )  # fmt: skip


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx: Context, node: OnnxNode) -> list[Value]:
    return ctx.emit("DynamicQuantizeLinear", [node.input(0)], 3)


@onnx_op("MatMulInteger")
def matmul_integer(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("MatMulInteger", node.input(0), node.input(1), node.optional(2), node.optional(3))


@onnx_op("QLinearMatMul")
def qlinear_matmul(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("QLinearMatMul", *(node.input(i) for i in range(8)))


@onnx_op("ConvInteger", "QLinearConv")
def quantized_conv(ctx: Context, node: OnnxNode) -> Value:
    linear = node.op == "QLinearConv"
    x, w = node.input(0), node.input(3 if linear else 1)
    count = spatial_rank(ctx, node, x, w)
    shape = ctx.static_shape(w)
    kernel = list(shape[2:]) if shape is not None else ints(node, "kernel_shape", count, 1)
    strides, dilations = ints(node, "strides", count, 1), ints(node, "dilations", count, 1)
    mode, pads = pad_mode(ctx, node, x, kernel, strides, dilations)
    operands = [node.optional(i) for i in range(9 if linear else 4)]
    return ctx.op(
        node.op, *operands, strides=strides, dilations=dilations, pads=pads, padMode=mode,
        group=node.int_attr("group", 1),
    )  # fmt: skip
