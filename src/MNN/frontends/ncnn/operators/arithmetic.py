"""Layers of two and more operands, and multiples along channels."""

from __future__ import annotations

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value

_FROM_TENSOR = -233
_BINARY = (
    "ADD SUB MUL REALDIV MAXIMUM MINIMUM POW RSUB RREALDIV RPOW ATAN2 RATAN2 MOD RMOD LOGADDEXP FLOOR_DIVIDE "
    "RFLOOR_DIVIDE REMAINDER RREMAINDER"
).split()
"""ncnn's operations by number; those that begin with R swap their operands."""


@ncnn_layer("BinaryOp")
def binary_op(ctx: Context, node: NcnnNode) -> Value:
    """Parameters: the operation, whether the second operand is a number, that number."""
    number, x = node.params.integer(0), ctx.floats(node.input(0))
    if not 0 <= number < len(_BINARY):
        raise node.unsupported(f"operation {number}")
    y: Value
    if node.params.flag(1):
        y = ctx.const_like(node.params.real(2), x)
    else:
        x, y = _matched(ctx, node, x, ctx.floats(node.input(1)))
    kind = _BINARY[number]
    if kind.startswith("R") and kind not in ("REALDIV", "REMAINDER"):
        kind, x, y = kind[1:], y, x
    if kind == "LOGADDEXP":
        low, high = ctx.binary("MINIMUM", x, y), ctx.binary("MAXIMUM", x, y)
        return ctx.binary("ADD", high, ctx.unary("LOG1P", ctx.unary("EXP", ctx.binary("SUB", low, high))))
    if kind == "FLOOR_DIVIDE":
        return ctx.unary("FLOOR", ctx.binary("REALDIV", x, y))
    if kind == "REMAINDER":  # of C: the quotient is rounded to the nearest, halves to even
        quotient = ctx.unary("ROUND", ctx.binary("REALDIV", x, y))
        return ctx.binary("SUB", x, ctx.binary("MUL", quotient, y))
    return ctx.binary(kind, x, y)


def _matched(ctx: Context, node: NcnnNode, x: Value, y: Value) -> tuple[Value, Value]:
    """Operands of as many dimensions: the smaller one is set at the first axes of the larger one (numpy sets it at the
    last), a line that does not fit there at the last one."""
    a, b = ctx.dims(node, x), ctx.dims(node, y)
    if a == b:
        return x, y
    if a < b:
        right, left = _matched(ctx, node, y, x)
        return left, right
    missing = a - b
    first = ctx.extent(x, 1) if b == 1 else None
    line = ctx.extent(y, 1) if b == 1 else None
    last = b == 1 and line is not None and line != 1 and first is not None and first != line
    if last:
        return x, ctx.op("Unsqueeze", y, squeezeDims=list(range(1, 1 + missing)))
    return x, ctx.op("Unsqueeze", y, squeezeDims=list(range(1 + b, 1 + b + missing)))


@ncnn_layer("Eltwise")
def eltwise(ctx: Context, node: NcnnNode) -> Value:
    """Product, sum (of multiples), maximum of operands of one shape."""
    kind = {0: "MUL", 1: "ADD", 2: "MAXIMUM"}.get(node.params.integer(0))
    if kind is None:
        raise node.unsupported(f"operation {node.params.integer(0)}")
    parts = [node.input(i) for i in range(max(len(node.inputs), 2))]
    factors = node.params.floats(1)
    if kind == "ADD" and factors:
        if len(factors) < len(parts):
            raise node.malformed(f"{len(factors)} coefficients for {len(parts)} operands")
        parts = [ctx.affine(p, f, 0) for p, f in zip(parts, factors, strict=False)]
    out = parts[0]
    for part in parts[1:]:
        out = ctx.binary(kind, out, part)
    return out


def _scale_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    if p.integer(0) == _FROM_TENSOR:
        return {}
    found = {"scale": r.plain(p.integer(0))}
    return found | ({"bias": r.plain(p.integer(0))} if p.flag(1) else {})


@ncnn_layer("Scale", weights=_scale_weights)
def scale(ctx: Context, node: NcnnNode) -> Value:
    """Multiples along the first of ncnn's axes, plus a bias; the factors may be a second operand."""
    x = node.input(0)
    if node.params.integer(0) == _FROM_TENSOR:
        if node.params.flag(1):
            raise node.unsupported("a bias beside factors that are an operand")
        flat = ctx.reshape(node.input(1), [-1, *[1] * (ctx.dims(node, x) - 1)])
        return ctx.binary("MUL", x, flat)
    count = node.params.integer(0)
    bias = ctx.const(node.weight("bias", [count])) if node.has_weight("bias") else None
    return ctx.op("Scale", x, ctx.const(node.weight("scale", [count])), bias, channels=count)


def _bias_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    return {"bias": r.plain(p.integer(0))}


@ncnn_layer("Bias", weights=_bias_weights)
def bias(ctx: Context, node: NcnnNode) -> Value:
    """One number a channel, of images; lines and matrices are one channel."""
    x, numbers = node.input(0), node.weight("bias", [node.params.integer(0)])
    return ctx.binary("ADD", x, ctx.along(x, numbers if ctx.dims(node, x) > 2 else numbers[:1]))
