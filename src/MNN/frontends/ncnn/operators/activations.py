"""Layers that change every number by itself."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.common.expressions import clamp
from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value

_LARGEST = float(np.finfo(np.float32).max)
_UNARY = (
    "ABS NEG FLOOR CEIL SQUARE SQRT RSQRT EXP LOG SIN COS TAN ASIN ACOS ATAN RECIPROCAL TANH LOG10 ROUND TRUNC SIGN "
    "EXPM1 SINH ASINH COSH ACOSH ATANH LOG1P"
).split()
_PLAIN = {"AbsVal": "ABS", "BNLL": "BNLL", "Softplus": "BNLL", "Erf": "ERF", "Swish": "SILU"}


@ncnn_layer(*_PLAIN)
def plain(ctx: Context, node: NcnnNode) -> Value:
    return ctx.unary(_PLAIN[node.op], node.input(0))


@ncnn_layer("UnaryOp")
def unary_op(ctx: Context, node: NcnnNode) -> Value:
    """Parameter 0 numbers the function."""
    number, x = node.params.integer(0), node.input(0)
    if not 0 <= number < len(_UNARY):
        raise node.unsupported(f"function {number}")
    kind = _UNARY[number]
    if kind == "LOG10":
        return ctx.binary("MUL", ctx.unary("LOG", x), 1 / math.log(10))
    if kind == "TRUNC":
        return ctx.binary("MUL", ctx.unary("FLOOR", ctx.unary("ABS", x)), ctx.unary("SIGN", x))
    return ctx.unary(kind, x)


@ncnn_layer("ReLU")
def relu(ctx: Context, node: NcnnNode) -> Value:
    slope = node.params.real(0)
    return ctx.op("ReLU", node.input(0), slope=slope or None)


def _slopes(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    return {"slope": r.plain(p.integer(0))}


@ncnn_layer("PReLU", weights=_slopes)
def prelu(ctx: Context, node: NcnnNode) -> Value:
    """One slope, or one along the first of ncnn's axes."""
    slope = node.weight("slope", [node.params.integer(0)])
    if slope.size == 1:
        return ctx.op("ReLU", node.input(0), slope=float(slope[0]))
    return ctx.op("PReLU", node.input(0), ctx.const(slope), slopeCount=slope.size)


@ncnn_layer("Sigmoid")
def sigmoid(ctx: Context, node: NcnnNode) -> Value:
    return ctx.op("Sigmoid", node.input(0))


@ncnn_layer("TanH")
def tanh(ctx: Context, node: NcnnNode) -> Value:
    return ctx.op("TanH", node.input(0))


@ncnn_layer("Mish")
def mish(ctx: Context, node: NcnnNode) -> Value:
    return ctx.mish(node.input(0))


@ncnn_layer("HardSigmoid")
def hard_sigmoid(ctx: Context, node: NcnnNode) -> Value:
    return ctx.hard_sigmoid(node, node.input(0), node.params.real(0, 0.2), node.params.real(1, 0.5))


@ncnn_layer("HardSwish")
def hard_swish(ctx: Context, node: NcnnNode) -> Value:
    return ctx.hard_swish(node, node.input(0), node.params.real(0, 0.2), node.params.real(1, 0.5))


@ncnn_layer("ELU")
def elu(ctx: Context, node: NcnnNode) -> Value:
    return ctx.op("ELU", node.input(0), alpha=node.params.real(0, 0.1))


@ncnn_layer("CELU")
def celu(ctx: Context, node: NcnnNode) -> Value:
    """``alpha * (exp(x / alpha) - 1)`` below 0."""
    alpha = node.params.real(0, 1.0)
    if not alpha > 0:
        raise node.unsupported(f"alpha {alpha}")
    if alpha == 1:
        return ctx.op("ELU", node.input(0), alpha=1.0)
    return ctx.binary("MUL", ctx.op("ELU", ctx.binary("MUL", node.input(0), 1 / alpha), alpha=1.0), alpha)


@ncnn_layer("SELU")
def selu(ctx: Context, node: NcnnNode) -> Value:
    return ctx.op("Selu", node.input(0), alpha=node.params.real(0, 1.67326324), scale=node.params.real(1, 1.050700987))


@ncnn_layer("GELU")
def gelu(ctx: Context, node: NcnnNode) -> Value:
    return ctx.unary("GELU" if node.params.flag(0) else "GELU_STANDARD", node.input(0))


@ncnn_layer("GLU")
def glu(ctx: Context, node: NcnnNode) -> Value:
    """The first half of an axis times the sigmoid of the second."""
    x = node.input(0)
    axis = ctx.axis(node, x, node.params.integer(0))
    left, right = ctx.emit("Slice", [x], 2, axis=axis, sourceType="TORCH")
    return ctx.binary("MUL", left, ctx.op("Sigmoid", right))


@ncnn_layer("Clip")
def clip(ctx: Context, node: NcnnNode) -> Value:
    return clamp(ctx, node.input(0), node.params.real(0, -_LARGEST), node.params.real(1, _LARGEST))


@ncnn_layer("Shrink")
def shrink(ctx: Context, node: NcnnNode) -> Value:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, 0 between."""
    x, bias, lambd = node.input(0), node.params.real(0), node.params.real(1, 0.5)
    below, above = ctx.binary("LESS", x, -lambd), ctx.binary("GREATER", x, lambd)
    zero = ctx.const_like(0.0, x)
    high = ctx.op("Select", above, ctx.affine(x, 1, -bias), zero)
    return ctx.op("Select", below, ctx.affine(x, 1, bias), high)


@ncnn_layer("Threshold")
def threshold(ctx: Context, node: NcnnNode) -> Value:
    return ctx.op("Threshold", node.input(0), alpha=node.params.real(0))


@ncnn_layer("Dropout")
def dropout(ctx: Context, node: NcnnNode) -> Value:
    return ctx.affine(node.input(0), node.params.real(0, 1.0), 0.0)


@ncnn_layer("Exp")
def exp(ctx: Context, node: NcnnNode) -> Value:
    """``base ^ (shift + scale * x)``; base -1 stands for e."""
    base, scale, shift = node.params.real(0, -1.0), node.params.real(1, 1.0), node.params.real(2)
    x = ctx.affine(node.input(0), scale, shift)
    if base == -1:
        return ctx.unary("EXP", x)
    if not base > 0:
        raise node.unsupported(f"base {base}")
    return ctx.unary("EXP", ctx.binary("MUL", x, math.log(base)))


@ncnn_layer("Log")
def log(ctx: Context, node: NcnnNode) -> Value:
    """The logarithm of ``shift + scale * x``; base -1 stands for e."""
    base, scale, shift = node.params.real(0, -1.0), node.params.real(1, 1.0), node.params.real(2)
    out = ctx.unary("LOG", ctx.affine(node.input(0), scale, shift))
    if base == -1:
        return out
    if not base > 0 or base == 1:
        raise node.unsupported(f"base {base}")
    return ctx.binary("MUL", out, 1 / math.log(base))


@ncnn_layer("Power")
def power(ctx: Context, node: NcnnNode) -> Value:
    """``(shift + scale * x) ^ power``."""
    exponent, scale, shift = node.params.real(0, 1.0), node.params.real(1, 1.0), node.params.real(2)
    x = ctx.affine(node.input(0), scale, shift)
    return x if exponent == 1 else ctx.binary("POW", x, exponent)
