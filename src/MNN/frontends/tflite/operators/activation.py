"""Activations."""

from __future__ import annotations

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.graph import Value


@tflite_op("RELU")
def relu(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("ReLU", ctx.real(node, 0))


@tflite_op("RELU6")
def relu6(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("ReLU6", ctx.real(node, 0))


@tflite_op("RELU_N1_TO_1")
def relu_n1_to_1(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("ReLU6", ctx.real(node, 0), minValue=-1.0, maxValue=1.0)


@tflite_op("RELU_0_TO_1")
def relu_0_to_1(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("ReLU6", ctx.real(node, 0), minValue=0.0, maxValue=1.0)


@tflite_op("LEAKY_RELU")
def leaky_relu(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("ReLU", ctx.real(node, 0), slope=float(node.option("alpha", 0.0)))


@tflite_op("PRELU")
def prelu(ctx: Context, node: TfliteNode) -> Value:
    """``x < 0 ? slope * x : x``; slopes broadcast. One for every channel is the operator of that name."""
    x, slope = ctx.real(node, 0), ctx.real(node, 1)
    rank, sizes = node.rank(0), ctx.static_shape(slope)
    if (
        rank in (3, 4, 5)
        and sizes is not None
        and all(d == 1 for d in sizes[:-1])
        and len(sizes) in (1, rank - 1, rank)
    ):
        per = ctx.op("Reshape", slope, ctx.const([-1])) if slope.data is None else ctx.const(slope.array().reshape(-1))
        first = ctx.permuted(x, [0, rank - 1, *range(1, rank - 1)])
        return ctx.channels_last(ctx.op("PReLU", first, per, slopeCount=int(sizes[-1])), rank)
    negative = ctx.binary("LESS", x, ctx.const_like(0, x))
    return ctx.op("Select", negative, ctx.binary("MUL", x, slope), x)


@tflite_op("ELU")
def elu(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("ELU", ctx.real(node, 0), alpha=1.0)


@tflite_op("GELU")
def gelu(ctx: Context, node: TfliteNode) -> Value:
    return ctx.unary("GELU" if node.flag("approximate") else "GELU_STANDARD", ctx.real(node, 0))


@tflite_op("HARD_SWISH")
def hard_swish(ctx: Context, node: TfliteNode) -> Value:
    return ctx.unary("HARDSWISH", ctx.real(node, 0))


@tflite_op("STABLEHLO_LOGISTIC")
def logistic(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Sigmoid", ctx.real(node, 0))


@tflite_op("STABLEHLO_TANH")
def tanh(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("TanH", ctx.real(node, 0))


@tflite_op("LOG_SOFTMAX")
def log_softmax(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("LogSoftmax", ctx.real(node, 0), axis=-1)
