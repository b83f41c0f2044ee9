"""Elementwise layers of one blob."""

from __future__ import annotations

import math

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.frontends.common.expressions import binary, clamp, unary
from MNN.ir.graph import Value


@caffe_layer("ReLU")
def relu(ctx: Context, node: CaffeNode) -> Value:
    return ctx.op("ReLU", node.input(0), slope=node.params("relu_param").number("negative_slope", 0.0))


@caffe_layer("ReLU6")
def relu6(ctx: Context, node: CaffeNode) -> Value:
    """MobileNet forks': some have a parameter that bounds it."""
    param = node.params("relu6_param", "relu_param")
    param.number("negative_slope", 0.0)
    return clamp(ctx, node.input(0), 0.0, param.number("threshold", 6.0))


@caffe_layer("PReLU")
def prelu(ctx: Context, node: CaffeNode) -> Value:
    """``x < 0 ? slope * x : x``; one slope per channel, or one for all."""
    shared = node.params("prelu_param").flag("channel_shared", False)
    slope = node.weight(0, 1) if shared else node.weight(0, node.size(1) if node.rank() > 1 else 1)
    return ctx.op("PReLU", node.input(0), ctx.const(slope), slopeCount=slope.size)


@caffe_layer("ELU")
def elu(ctx: Context, node: CaffeNode) -> Value:
    return ctx.op("ELU", node.input(0), alpha=node.params("elu_param").number("alpha", 1.0))


@caffe_layer("Sigmoid")
def sigmoid(ctx: Context, node: CaffeNode) -> Value:
    node.params("sigmoid_param")
    return ctx.op("Sigmoid", node.input(0))


@caffe_layer("TanH")
def tanh(ctx: Context, node: CaffeNode) -> Value:
    node.params("tanh_param")
    return ctx.op("TanH", node.input(0))


@caffe_layer("AbsVal")
def absolute(ctx: Context, node: CaffeNode) -> Value:
    return unary(ctx, "ABS", node.input(0))


@caffe_layer("BNLL")
def bnll(ctx: Context, node: CaffeNode) -> Value:
    """``log(1 + e^x)``."""
    return unary(ctx, "BNLL", node.input(0))


@caffe_layer("Swish")
def swish(ctx: Context, node: CaffeNode) -> Value:
    """``x * sigmoid(beta * x)``."""
    x, beta = node.input(0), node.params("swish_param").number("beta", 1.0)
    if beta == 1:
        return unary(ctx, "SILU", x)
    return binary(ctx, "MUL", x, ctx.op("Sigmoid", binary(ctx, "MUL", x, beta)))


@caffe_layer("Clip")
def clip(ctx: Context, node: CaffeNode) -> Value:
    param = node.params("clip_param")
    if not (param.has("min") and param.has("max")):
        raise node.malformed("clip_param needs min and max")
    return clamp(ctx, node.input(0), param.number("min"), param.number("max"))


@caffe_layer("Threshold")
def threshold(ctx: Context, node: CaffeNode) -> Value:
    """1 where ``x > threshold``, else 0."""
    return ctx.op("Threshold", node.input(0), alpha=node.params("threshold_param").number("threshold", 0.0))


def scaled(ctx: Context, x: Value, scale: float, shift: float) -> Value:
    """``scale * x + shift``."""
    x = x if scale == 1 else binary(ctx, "MUL", x, scale)
    return x if shift == 0 else binary(ctx, "ADD", x, shift)


@caffe_layer("Power")
def power(ctx: Context, node: CaffeNode) -> Value:
    """``(shift + scale * x) ^ power``."""
    param = node.params("power_param")
    exponent = param.number("power", 1.0)
    x = scaled(ctx, node.input(0), param.number("scale", 1.0), param.number("shift", 0.0))
    if exponent == 1:
        return x
    if exponent == 2:
        return unary(ctx, "SQUARE", x)
    return unary(ctx, "SQRT", x) if exponent == 0.5 else binary(ctx, "POW", x, exponent)


def _logarithm(node: CaffeNode, base: float) -> float:
    """The natural logarithm of a base, of which -1 means e."""
    if base != -1 and not (base > 0 and math.isfinite(base)):
        raise node.malformed(f"a base of {base}")
    return 1.0 if base == -1 else math.log(base)


@caffe_layer("Exp")
def exp(ctx: Context, node: CaffeNode) -> Value:
    """``base ^ (shift + scale * x)``."""
    param = node.params("exp_param")
    factor = _logarithm(node, param.number("base", -1.0))
    scale, shift = param.number("scale", 1.0), param.number("shift", 0.0)
    return unary(ctx, "EXP", scaled(ctx, node.input(0), scale * factor, shift * factor))


@caffe_layer("Log")
def log(ctx: Context, node: CaffeNode) -> Value:
    """``log_base(shift + scale * x)``."""
    param = node.params("log_param")
    factor = _logarithm(node, param.number("base", -1.0))
    if factor == 0:
        raise node.malformed("a base of 1 has no logarithm")
    inner = scaled(ctx, node.input(0), param.number("scale", 1.0), param.number("shift", 0.0))
    return scaled(ctx, unary(ctx, "LOG", inner), 1 / factor, 0.0)


@caffe_layer("Dropout")
def dropout(ctx: Context, node: CaffeNode) -> Value:
    """Nothing is dropped in use; numbers were scaled up while training."""
    param = node.params("dropout_param")
    param.number("dropout_ratio", 0.5)
    if not param.flag("scale_train", True):
        raise node.unsupported("scale_train: false", "multiply by what is kept with a Power layer instead")
    return ctx.renamed(node.input(0))


@caffe_layer("Split")
def split(ctx: Context, node: CaffeNode) -> list[Value]:
    return [ctx.renamed(node.input(0)) for _ in range(node.outputs)]
