"""Activations."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, clamp, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.graph import Value

SELU_ALPHA, SELU_SCALE = 1.67326319217681884765625, 1.05070102214813232421875
_PLAIN = {"Relu": "ReLU", "Sigmoid": "Sigmoid", "Tanh": "TanH"}


@tf_op(*_PLAIN)
def plain(ctx: Context, node: TfNode) -> Value:
    return ctx.op(_PLAIN[node.op], node.input(0))


@tf_op("Relu6")
def relu6(ctx: Context, node: TfNode) -> Value:
    return clamp(ctx, node.input(0), 0.0, 6.0)


@tf_op("LeakyRelu")
def leaky_relu(ctx: Context, node: TfNode) -> Value:
    return ctx.op("ReLU", node.input(0), slope=node.float_attr("alpha", 0.2))


@tf_op("Prelu")
def prelu(ctx: Context, node: TfNode) -> Value:
    x, slope = node.input(0), node.input(1)
    below = binary(ctx, "MUL", binary(ctx, "MINIMUM", x, 0), slope)
    return binary(ctx, "ADD", binary(ctx, "MAXIMUM", x, 0), below)


@tf_op("Elu")
def elu(ctx: Context, node: TfNode) -> Value:
    return ctx.op("ELU", node.input(0), alpha=1.0)


@tf_op("Selu")
def selu(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Selu", node.input(0), alpha=SELU_ALPHA, scale=SELU_SCALE)


@tf_op("Softplus")
def softplus(ctx: Context, node: TfNode) -> Value:
    return unary(ctx, "BNLL", node.input(0))


@tf_op("Softsign")
def softsign(ctx: Context, node: TfNode) -> Value:
    x = node.input(0)
    return binary(ctx, "REALDIV", x, binary(ctx, "ADD", unary(ctx, "ABS", x), 1))


@tf_op("Softmax", "LogSoftmax")
def softmax(ctx: Context, node: TfNode) -> Value:
    return ctx.op(node.op, node.input(0), axis=-1)
