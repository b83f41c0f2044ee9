"""Sequences and optionals."""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.registry import onnx_op
from MNN.frontends.onnx.tensors import dtype_of
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@onnx_op("SequenceConstruct", "SequenceLength", "OptionalHasElement", "OptionalGetElement")
@onnx_op("SequenceErase", "SequenceAt", operands=Operands(singles=(1,)))
@onnx_op("SequenceInsert", operands=Operands(singles=(2,)))
def plain(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op(node.op, *node.inputs)


@onnx_op("Optional")
def optional(ctx: Context, node: OnnxNode) -> Value:
    node.ignore("type")  # the type of what is not there
    return ctx.op("Optional", *node.inputs)


@onnx_op("SequenceEmpty")
def empty(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("SequenceEmpty", dtype=data_type(dtype_of(node.int_attr("dtype", 1), node.where)))


@onnx_op("ConcatFromSequence")
def concat(ctx: Context, node: OnnxNode) -> Value:
    axis, new = node.int_attr("axis"), node.bool_attr("new_axis", False)
    return ctx.op("ConcatFromSequence", node.input(0), axis=axis, newAxis=new)


@onnx_op("SplitToSequence", operands=Operands(lists=(1,)))
def split(ctx: Context, node: OnnxNode) -> Value:
    axis, keep = node.int_attr("axis", 0), node.bool_attr("keepdims", True)
    return ctx.op("SplitToSequence", node.input(0), node.optional(1), axis=axis, keepDims=keep)
