"""Operators without operands or without effect."""

from __future__ import annotations

import numpy as np

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@onnx_op("Identity")
def identity(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Identity", node.input(0))


@onnx_op("Constant")
def constant(ctx: Context, node: OnnxNode) -> Value:
    for key, read, dtype in (
        ("value_float", node.float_attr, DType.F32),
        ("value_int", node.int_attr, DType.I64),
        ("value_floats", node.floats_attr, DType.F32),
        ("value_ints", node.ints_attr, DType.I64),
    ):
        if node.has(key):
            return ctx.const(np.asarray(read(key)), dtype)
    if node.has("value_string"):
        return ctx.const(np.asarray(node.str_attr("value_string"), dtype=object))
    if node.has("value_strings"):
        return ctx.const(np.asarray(node.strs_attr("value_strings"), dtype=object))
    if node.has("sparse_value"):
        raise node.unsupported("a sparse constant", "store it as a dense tensor")
    value = node.tensor_attr("value")
    assert value is not None
    return ctx.const(value)
