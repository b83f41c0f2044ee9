"""Activations."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import binary, clamp, log1p_exp, select, unary
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value


@onnx_op("Relu")
def relu(ctx: Context, node: OnnxNode) -> Value:
    node.ignore("consumed_inputs")
    return ctx.op("ReLU", node.input(0))


@onnx_op("Sigmoid")
def sigmoid(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Sigmoid", node.input(0))


@onnx_op("Tanh")
def tanh(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("TanH", node.input(0))


@onnx_op("LeakyRelu")
def leaky_relu(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("ReLU", node.input(0), slope=node.float_attr("alpha", 0.01))


@onnx_op("PRelu")
def prelu(ctx: Context, node: OnnxNode) -> Value:
    x, slope = node.input(0), node.input(1)
    numbers, rank = ctx.constant(slope), ctx.rank(x)
    if numbers is not None and rank is not None and rank >= 2:
        if node.opset < 7 and numbers.ndim == 1 and numbers.size > 1:  # one slope per channel; it broadcasts since
            slope = ctx.const(numbers.reshape(-1, *(1,) * (rank - 2)))
            numbers = numbers.reshape(-1, *(1,) * (rank - 2))
        line = numbers.reshape((1,) * (rank - numbers.ndim) + numbers.shape) if numbers.ndim <= rank else numbers
        if numbers.size == 1 or (line.ndim == rank and line.shape[1] == numbers.size):
            return ctx.op("PReLU", x, ctx.const(numbers.reshape(-1)), slopeCount=int(numbers.size))
    above = ctx.op("BinaryOp", x, ctx.const_like(0, x), opType="GREATER")
    return select(ctx, above, x, binary(ctx, "MUL", x, slope))


@onnx_op("Elu")
def elu(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("ELU", node.input(0), alpha=node.float_attr("alpha", 1.0))


@onnx_op("Selu")
def selu(ctx: Context, node: OnnxNode) -> Value:
    alpha = node.float_attr("alpha", 1.67326319217681884765625)
    return ctx.op("Selu", node.input(0), alpha=alpha, scale=node.float_attr("gamma", 1.05070102214813232421875))


@onnx_op("Celu")
def celu(ctx: Context, node: OnnxNode) -> Value:
    """Of 0 as of numbers below, so that the slope there is 1, as torch has it."""
    x, alpha = node.input(0), node.float_attr("alpha", 1.0)
    above, none = ctx.op("BinaryOp", x, ctx.const_like(0, x), opType="GREATER"), ctx.const_like(0, x)
    negative = unary(ctx, "EXPM1", binary(ctx, "REALDIV", select(ctx, above, none, x), alpha))
    return binary(ctx, "ADD", select(ctx, above, x, none), binary(ctx, "MUL", negative, alpha))


@onnx_op("ThresholdedRelu")
def thresholded_relu(ctx: Context, node: OnnxNode) -> Value:
    x = node.input(0)
    above = ctx.op("BinaryOp", x, ctx.const_like(node.float_attr("alpha", 1.0), x), opType="GREATER")
    return select(ctx, above, x, ctx.const_like(0, x))


@onnx_op("HardSigmoid")
def hard_sigmoid(ctx: Context, node: OnnxNode) -> Value:
    scaled = binary(ctx, "MUL", node.input(0), node.float_attr("alpha", 0.2))
    return clamp(ctx, binary(ctx, "ADD", scaled, node.float_attr("beta", 0.5)), 0.0, 1.0)


@onnx_op("HardSwish")
def hard_swish(ctx: Context, node: OnnxNode) -> Value:
    return unary(ctx, "HARDSWISH", node.input(0))


@onnx_op("Gelu")
def gelu(ctx: Context, node: OnnxNode) -> Value:
    approximate = node.choice_attr("approximate", "none", "none", "tanh")
    return unary(ctx, "GELU" if approximate == "tanh" else "GELU_STANDARD", node.input(0))


@onnx_op("Swish")
def swish(ctx: Context, node: OnnxNode) -> Value:
    x, alpha = node.input(0), node.float_attr("alpha", 1.0)
    if alpha == 1:
        return unary(ctx, "SILU", x)
    return binary(ctx, "MUL", x, unary(ctx, "SIGMOID", binary(ctx, "MUL", x, alpha)))


@onnx_op("Softplus")
def softplus(ctx: Context, node: OnnxNode) -> Value:
    return log1p_exp(ctx, node.input(0))


@onnx_op("Mish")
def mish(ctx: Context, node: OnnxNode) -> Value:
    return binary(ctx, "MUL", node.input(0), unary(ctx, "TANH", log1p_exp(ctx, node.input(0))))


@onnx_op("Softsign")
def softsign(ctx: Context, node: OnnxNode) -> Value:
    x = node.input(0)
    return binary(ctx, "REALDIV", x, binary(ctx, "ADD", unary(ctx, "ABS", x), 1))


@onnx_op("Shrink")
def shrink(ctx: Context, node: OnnxNode) -> Value:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, 0 between; for integers too."""
    x, bias, limit = node.input(0), node.float_attr("bias", 0.0), node.float_attr("lambd", 0.5)
    if x.dtype is not None and not x.dtype.is_float:
        limit = float(np.floor(limit))  # of integers, the ones above 1.5 are those above 1
        if not bias.is_integer():
            raise node.unsupported(f"bias {bias} on integers", "cast to float first")
    below = ctx.op("BinaryOp", x, ctx.const_like(-limit, x), opType="LESS")
    above = ctx.op("BinaryOp", x, ctx.const_like(limit, x), opType="GREATER")
    high = select(ctx, above, binary(ctx, "SUB", x, bias), ctx.const_like(0, x))
    return select(ctx, below, binary(ctx, "ADD", x, bias), high)


@onnx_op("Softmax", "LogSoftmax", since=13)
def softmax(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op(node.op, node.input(0), axis=node.int_attr("axis", -1))


@onnx_op("Softmax", "LogSoftmax", "Hardmax")
def softmax_flat(ctx: Context, node: OnnxNode) -> Value:
    """Before opset 13: over everything from ``axis`` on, taken as one axis."""
    x, axis = node.input(0), node.int_attr("axis", 1)
    rank = ctx.rank(x)
    if rank is not None and rank > 0 and axis % rank == rank - 1:
        return ctx.op(node.op, x, axis=-1)
    flat = ctx.op(node.op, ctx.op("Flatten", x, axis=axis), axis=1)
    return ctx.op("Reshape", flat, ctx.op("Shape", x))


@onnx_op("Hardmax", since=13)
def hardmax(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Hardmax", node.input(0), axis=node.int_attr("axis", -1))
