"""Activations."""

from __future__ import annotations

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.graph import Value


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
