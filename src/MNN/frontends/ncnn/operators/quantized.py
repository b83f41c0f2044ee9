"""Layers between floats and integers."""

from __future__ import annotations

import numpy as np

from MNN.frontends.ncnn.context import Context, inverted
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_TYPES = {1: "DT_FLOAT", 2: "DT_HALF", 3: "DT_INT8", 4: "DT_BFLOAT16"}


def rounded(ctx: Context, x: Value, scale: float) -> Value:
    """``x`` as what its 8-bit integers stand for (``x * scale``, rounded); ``x`` may be these integers already."""
    integers = x if x.dtype is DType.I8 else requantized(ctx, x, scale)
    out = ctx.op("DequantizeLinear", integers, ctx.const(_inverse(scale)), ctx.const(np.int8(0)))
    out.dtype = DType.F32
    return out


def _inverse(scale: float) -> np.ndarray:
    return np.asarray(1 / scale if scale else 0, np.float32)


def requantized(ctx: Context, x: Value, scale: float) -> Value:
    """8-bit integers of floats."""
    zero = ctx.const(np.int8(0))
    out = ctx.op("QuantizeLinear", x, ctx.const(_inverse(scale)), zero)
    out.dtype = DType.I8
    return out


def _quantize_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    return {"scale": r.plain(p.integer(0, 1))}


@ncnn_layer("Quantize", weights=_quantize_weights)
def quantize(ctx: Context, node: NcnnNode) -> Value:
    """``x * scale`` rounded to 8 bits; one scale, or one along the first of ncnn's axes."""
    scale = node.weights("scale")
    if scale.size == 1:
        return requantized(ctx, node.input(0), float(scale[0]))
    out = ctx.op(
        "QuantizeLinear", node.input(0), ctx.const(inverted(scale)), ctx.const(np.zeros(scale.size, np.int8)), axis=1
    )
    out.dtype = DType.I8
    return out


def _dequantize_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    found = {"scale": r.plain(p.integer(0, 1))}
    return found | ({"bias": r.plain(p.integer(1))} if p.integer(1) else {})


@ncnn_layer("Dequantize", weights=_dequantize_weights)
def dequantize(ctx: Context, node: NcnnNode) -> Value:
    """``x * scale + bias`` of integers."""
    x = ctx.op("Cast", node.input(0), dstT="DT_FLOAT")
    x.dtype = DType.F32
    return _scaled(ctx, x, node, "scale")


def _scaled(ctx: Context, x: Value, node: NcnnNode, name: str) -> Value:
    out = ctx.binary("MUL", x, ctx.along(x, node.weights(name)))
    if not node.has_weight("bias"):
        return out
    return ctx.binary("ADD", out, ctx.along(out, node.weights("bias")))


def _requantize_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    found = {"scale_in": r.plain(p.integer(0, 1)), "scale_out": r.plain(p.integer(1, 1))}
    return found | ({"bias": r.plain(p.integer(2))} if p.integer(2) else {})


@ncnn_layer("Requantize", weights=_requantize_weights)
def requantize(ctx: Context, node: NcnnNode) -> Value:
    """Sums of products to 8 bits: ``round(activation(x * scale_in + bias) * scale_out)``."""
    x = ctx.op("Cast", node.input(0), dstT="DT_FLOAT")
    x.dtype = DType.F32
    out = ctx.activation(node, _scaled(ctx, x, node, "scale_in"), node.params.integer(3), node.params.floats(4))
    out = ctx.binary("MUL", out, ctx.along(out, node.weights("scale_out")))
    return requantized(ctx, out, 1.0)


@ncnn_layer("Cast")
def cast(ctx: Context, node: NcnnNode) -> Value:
    """Half precision is rounded to and kept as floats, as every layer takes floats."""
    x, wanted = node.input(0), node.params.integer(1)
    if node.params.integer(0) == wanted or wanted not in _TYPES:
        return x
    if wanted == 3:
        raise node.unsupported("a cast to 8 bits without a scale", "use Quantize")
    if wanted == 1:
        return ctx.floats(x)
    narrow = ctx.op("Cast", x, dstT=_TYPES[wanted])
    narrow.dtype = DType.F16 if wanted == 2 else DType.BF16
    out = ctx.op("Cast", narrow, dstT="DT_FLOAT")
    out.dtype = DType.F32
    return out
