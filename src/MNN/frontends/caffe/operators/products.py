"""Products with matrices, and rows looked up in them."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.frontends.common.expressions import binary
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@caffe_layer("InnerProduct")
def inner_product(ctx: Context, node: CaffeNode) -> Value:
    """The blob flattened from ``axis`` on, times a matrix ``[O, K]`` (``[K, O]`` with ``transpose``), plus a bias."""
    param, x = node.params("inner_product_param"), node.input(0)
    axis, outputs = node.axis(param.integer("axis", 1)), param.integer("num_output", 0)
    inputs = math.prod(node.size(a) for a in range(axis, node.rank()))
    if outputs < 1:
        raise node.malformed(f"num_output {outputs}, expected at least 1")
    transposed = param.flag("transpose", False)
    weight = node.weight(0, inputs, outputs) if transposed else node.weight(0, outputs, inputs)
    bias = ctx.const(node.weight(1, outputs)) if param.flag("bias_term", True) else None
    if node.rank() != axis + 1:
        x = ctx.op("Flatten", x, axis=1) if axis == 1 else ctx.reshaped(x, [*([0] * axis), inputs])
    if axis == 0:
        x = ctx.reshaped(x, [1, inputs])
    made = ctx.op("MatMul", x, ctx.const(weight), bias, transposeB=not transposed)
    return ctx.reshaped(made, [outputs]) if axis == 0 else made


@caffe_layer("Embed")
def embed(ctx: Context, node: CaffeNode) -> Value:
    """Rows of a matrix by their numbers, which are floats in Caffe."""
    param = node.params("embed_param")
    rows, width = param.integer("input_dim", 0), param.integer("num_output", 0)
    if min(rows, width) < 1:
        raise node.malformed(f"a table of {rows} rows of {width} numbers")
    table = node.weight(0, rows, width)
    index = ctx.op("Cast", node.input(0), dstT=data_type(DType.I32))
    if param.flag("bias_term", True):
        table = table + node.weight(1, width)
    return ctx.op("GatherV2", ctx.const(np.ascontiguousarray(table)), index, ctx.const(0, DType.I32))


@caffe_layer("Reduction")
def reduction(ctx: Context, node: CaffeNode) -> Value:
    """All axes from ``axis`` on become one number, times ``coeff``."""
    param = node.params("reduction_param")
    kind = node.choice(param, "operation", "SUM", "SUM", "ASUM", "SUMSQ", "MEAN")
    axis, factor = param.integer("axis", 0), param.number("coeff", 1.0)
    axes = list(range(node.axis(axis), node.rank()))
    out = ctx.op("Reduction", node.input(0), operation=kind, dim=axes, keepDims=False)
    return out if factor == 1 else binary(ctx, "MUL", out, factor)
