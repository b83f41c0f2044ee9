"""Integers of one scale as those of another, to the bits of LiteRT's reference kernels.

These multiply by 31 bits of the factor and round, and where the factor is below a half, shift right and round again:
a quarter of all integers is a step from the product itself where the factor is between a quarter and a half. (The
kernels: ``MultiplyByQuantizedMultiplier`` in LiteRT's ``kernels/internal/common.h``, ``QuantizeMultiplier`` in
``quantization_util.cc``.) Everything is computed in 32 bits here: the factor in two parts, below 2^16 and below 2^15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from MNN.frontends.tflite.context import BOUNDS, Context
from MNN.frontends.tflite.file import Quantization
from MNN.frontends.tflite.fixed_point import (
    bound,
    multiplied,
    nearest,
    neighbours,
    parts,
    plus,
    quotients,
    right,
    times,
)
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_RANGES = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767)}
_BOUNDS = {"RELU": (0.0, math.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}


@dataclass(frozen=True)
class Scaled:
    """An operand's integers (int32, less their zero point) that a node is to give in its result's type."""

    x: Value
    scale: np.float32
    result: np.float32
    zero: int
    least: int
    most: int

    def bound(self, real: float) -> int:
        """A real number as a result is stored."""
        return bound(real, self.result, self.zero, (self.least, self.most))


def scaled(ctx: Context, node: TfliteNode) -> Scaled | None:
    """None where the kernels that define the bits do not take the node's tensors: they have one scale each, and 16
    bits no zero point."""
    given, made = node.tensors_in[0], node.tensors_out[0]
    q, result = node.quantization(0), node.result_quantization()
    if given is None or q is None or result is None or given.type not in _RANGES or made.type not in _RANGES:
        return None
    if not all(single(p) for p in (q, result)):
        return None
    zeros = [int(p.zero.reshape(-1)[0]) for p in (q, result)]
    for tensor, zero in zip((given, made), zeros, strict=True):
        low, high = _RANGES[tensor.type]
        if not low <= zero <= high or (high > 255 and zero):
            return None
    x = ctx.cast(node.input(0), DType.I32)
    if zeros[0]:
        x = ctx.binary("SUB", x, ctx.const(np.int32(zeros[0])))
    scales = [np.float32(p.scale.reshape(-1)[0]) for p in (q, result)]
    return Scaled(x, scales[0], scales[1], zeros[1], *_RANGES[made.type])


def single(q: Quantization) -> bool:
    return q.scale.size == q.zero.size == 1 and 0 < float(q.scale.reshape(-1)[0]) < math.inf


def stored(ctx: Context, node: TfliteNode, to: Scaled, x: Value, least: int, most: int) -> Value:
    """int32 without a zero point as integers of the result's type, within bounds."""
    made = plus(ctx, x, to.zero) if to.zero else x
    made = ctx.op("ReLU6", made, minValue=float(least), maxValue=float(most))
    return ctx.cast(made, node.tensors_out[0].dtype or DType.I32)


def rescaled(ctx: Context, node: TfliteNode, to: Scaled, x: Value, factor: float) -> Value | None:
    made = multiplied(ctx, x, factor)
    return None if made is None else stored(ctx, node, to, made, to.least, to.most)


# -- operators ------------------------------------------------------------------------------------------------------


@tflite_op(*_BOUNDS)
def bounded(ctx: Context, node: TfliteNode) -> Value:
    """Between integers of one scale and zero point nothing is multiplied."""
    low, high = _BOUNDS[node.op]
    q, result = node.quantization(0), node.result_quantization()
    to = None if q is None or result is None or q.same(result) else scaled(ctx, node)
    made = None if to is None else multiplied(ctx, to.x, float(to.scale / to.result))
    if to is not None and made is not None:
        return stored(ctx, node, to, made, to.bound(low), to.bound(high))
    if math.isinf(high):
        return ctx.op("ReLU", ctx.real(node, 0))
    return ctx.op("ReLU6", ctx.real(node, 0), minValue=low, maxValue=high)


@tflite_op("ABS")
def absolute(ctx: Context, node: TfliteNode) -> Value:
    to = scaled(ctx, node)
    # 2^15 itself would be too large for 16 bits: it is multiplied as what lies just below, and ends where that does
    size = None if to is None else ctx.unary("ABS", to.x)
    if to is not None and size is not None and to.most > 255:
        size = ctx.binary("MINIMUM", size, ctx.const(np.int32(32767)))
    found = None if to is None or size is None else rescaled(ctx, node, to, size, float(to.scale / to.result))
    return ctx.unary("ABS", ctx.real(node, 0)) if found is None else found


@tflite_op("LEAKY_RELU")
def leaky_relu(ctx: Context, node: TfliteNode) -> Value:
    """``x < 0 ? alpha * x : x``, each part by a factor of its own."""
    alpha, to = np.float32(node.option("alpha", 0.0)), scaled(ctx, node)
    if to is not None:
        kept = multiplied(ctx, to.x, float(to.scale / to.result))
        sloped = multiplied(ctx, to.x, float(to.scale * alpha / to.result))
        if kept is not None and sloped is not None:
            negative = ctx.binary("LESS", to.x, ctx.const(np.int32(0)))
            return stored(ctx, node, to, ctx.op("Select", negative, sloped, kept), to.least, to.most)
    return ctx.op("ReLU", ctx.real(node, 0), slope=float(alpha))


@tflite_op("PRELU")
def prelu(ctx: Context, node: TfliteNode) -> Value:
    """``x < 0 ? slope * x : x``; slopes broadcast. One for every channel is the operator of that name."""
    to, found = scaled(ctx, node), _operand(ctx, node, 1)
    if to is None or found is None or to.most > 255:
        return _float_prelu(ctx, node)
    slope, scale = found
    product = ctx.binary("MUL", to.x, slope)
    kept = multiplied(ctx, to.x, float(to.scale / to.result))
    sloped = multiplied(ctx, product, float(to.scale * scale / to.result), wide=True)
    if kept is None or sloped is None:
        return _float_prelu(ctx, node)
    negative = ctx.binary("LESS", to.x, ctx.const(np.int32(0)))
    return stored(ctx, node, to, ctx.op("Select", negative, sloped, kept), to.least, to.most)


def _float_prelu(ctx: Context, node: TfliteNode) -> Value:
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


@tflite_op("HARD_SWISH")
def hard_swish(ctx: Context, node: TfliteNode) -> Value:
    """``x * min(max(x + 3, 0), 6) / 6``. Of bytes it is a product of 16-bit numbers: ``x`` in steps of the result, and
    the gate, ``x / 3`` between -1 and 1, moved to 0 to 1 (``HardSwish`` in LiteRT's ``reference/hard_swish.h``)."""
    to = scaled(ctx, node)
    found = None if to is None or to.most > 255 else _hard_swish(ctx, node, to)
    return ctx.unary("HARDSWISH", ctx.real(node, 0)) if found is None else found


def _hard_swish(ctx: Context, node: TfliteNode, to: Scaled) -> Value | None:
    """None for scales that the kernels do not take, or that need more than 32 bits."""
    step = to.scale / np.float32(128)
    times, down = _half_factor(float(np.float32(step / to.result)))
    gate_times, left = _half_factor(float(np.float32(step / np.float32(3 / 32768))))
    if not -15 <= down <= 0 or not -15 <= left <= 16:
        return None
    x = _high_half(ctx, to.x, times << 7)
    if left > 0:  # what is beyond 16 bits once it is shifted gives a gate of 0 or 1 as the last number within does
        shift = min(left, 9) + 6  # with nine bits 1 and -1 are beyond already
        end = float(1 << (15 - shift))
        near = to.x if left == 1 else ctx.op("ReLU6", to.x, minValue=-end, maxValue=end)
        gate = plus(ctx, _high_half(ctx, near, gate_times << shift), 1 << 14)
        gate = ctx.op("ReLU6", gate, minValue=0.0, maxValue=32767.0)
    else:
        gate = right(ctx, plus(ctx, nearest(ctx, _high_half(ctx, to.x, gate_times << 7), -left), 1 << 15), 1)
    product = ctx.binary("MUL", x, gate)
    if down:  # toward zero by 15 bits, then rounded by the others
        made = nearest(ctx, product, 15 - down)
    else:
        toward_zero = ctx.binary("BITWISE_AND", right(ctx, product, 31), ctx.const(np.int32(0x7FFF)))
        made = right(ctx, ctx.binary("ADD", product, toward_zero), 15)
    return stored(ctx, node, to, made, to.least, to.most)


def _half_factor(factor: float) -> tuple[int, int]:
    """The upper half of a factor's 31 bits, rounded, and the power of two that it is to be multiplied by."""
    whole, shift = parts(factor)
    return min((whole + (1 << 15)) >> 16, 0x7FFF), shift


def _high_half(ctx: Context, x: Value, number: int) -> Value:
    """``x * number / 2^15``, rounded."""
    return right(ctx, plus(ctx, times(ctx, x, number), 1 << 14), 15)


@tflite_op("SQUARED_DIFFERENCE")
def squared_difference(ctx: Context, node: TfliteNode) -> Value:
    """Of ``int8``: both operands in steps of 2^-6 of the coarser one's, their difference multiplied by itself."""
    given, second = node.tensors_in[0], _operand(ctx, node, 1)
    to = scaled(ctx, node) if given is not None and given.type == "INT8" and second is not None else None
    if to is not None and second is not None:
        y, scale = second
        coarse = 2.0 * float(max(to.scale, scale))
        steps = [multiplied(ctx, times(ctx, v, 128), float(s) / coarse) for v, s in ((to.x, to.scale), (y, scale))]
        whole, shift = parts(coarse * coarse / float(np.float32(1 << 14) * to.result))
        if steps[0] is not None and steps[1] is not None and shift <= 0:
            apart = ctx.binary("SUB", steps[0], steps[1])
            product = ctx.binary(
                "MUL", ctx.cast(ctx.binary("MUL", apart, apart), DType.I64), ctx.const(np.int64(whole))
            )
            halved = ctx.binary("ADD", product, ctx.const(np.int64(1 << 30)))
            high = ctx.cast(ctx.binary("RIGHTSHIFT", halved, ctx.const(np.int64(31))), DType.I32)
            return stored(ctx, node, to, nearest(ctx, high, -shift), to.least, to.most)
    return ctx.binary("SquaredDifference", ctx.real(node, 0), ctx.real(node, 1))


@tflite_op("DIV")
def divide(ctx: Context, node: TfliteNode) -> Value:
    """Of ``uint8`` as LiteRT's reference kernels have it, which multiply by a rounded reciprocal (``reference/div.h``):
    the quotient in floats, where a factor is found with which it gives the byte of every pair, else a table of them.
    What they give for a division by zero is not defined."""
    found = _divided_bytes(ctx, node)
    if found is None:
        found = ctx.activated(node, ctx.binary("REALDIV", ctx.real(node, 0), ctx.real(node, 1)))
    return found


def _divided_bytes(ctx: Context, node: TfliteNode) -> Value | None:
    x, y, result = node.quantization(0), node.quantization(1), node.result_quantization()
    kinds = [None if t is None else t.type for t in (*node.tensors_in[:2], node.tensors_out[0])]
    activation = str(node.option("fused_activation_function", "NONE"))
    if kinds != ["UINT8"] * 3 or x is None or y is None or result is None or activation not in ("NONE", *BOUNDS):
        return None
    if not all(single(q) and 0 <= int(q.zero.item()) <= 255 for q in (x, y, result)):
        return None
    scales = [np.float32(q.scale.item()) for q in (x, y, result)]
    zeros = [int(q.zero.item()) for q in (x, y, result)]
    factor = np.float32(scales[0] / (scales[1] * scales[2]))
    whole, shift = parts(float(factor))
    if not np.isfinite(factor) or not -31 <= shift <= 15:
        return None
    low, high = (bound(v, scales[2], zeros[2], (0, 255)) for v in BOUNDS.get(activation, (-math.inf, math.inf)))
    above, below = np.arange(256).reshape(-1, 1) - zeros[0], np.arange(256) - zeros[1]
    wanted = np.clip(quotients(above, below, whole, shift) + zeros[2], low, high)
    counted = np.broadcast_to(below != 0, wanted.shape)
    for near in neighbours(factor, 3):
        found = above.astype(np.float32) * near / np.where(below, below, 1).astype(np.float32)
        found = np.trunc(np.clip(found + np.copysign(np.float32(0.5), found), -512, 511)).astype(np.int64) + zeros[2]
        if (np.clip(found, low, high) == wanted)[counted].all():
            break
    else:
        place = ctx.binary(
            "ADD", times(ctx, ctx.cast(node.input(0), DType.I32), 256), ctx.cast(node.input(1), DType.I32)
        )
        return ctx.op("GatherV2", ctx.const(wanted.astype(np.uint8).reshape(-1)), place, ctx.const(0))
    over, under = (
        ctx.cast(plus(ctx, ctx.cast(node.input(i), DType.I32), -zero), DType.F32) for i, zero in enumerate(zeros[:2])
    )
    quotient = ctx.binary("REALDIV", ctx.binary("MUL", over, ctx.const(np.asarray(near))), under)
    half = ctx.op("Select", ctx.binary("LESS", quotient, ctx.const(np.float32(0))), ctx.const(-0.5), ctx.const(0.5))
    made = ctx.op("ReLU6", ctx.binary("ADD", quotient, half), minValue=-512.0, maxValue=511.0)
    made = plus(ctx, ctx.cast(made, DType.I32), zeros[2])
    return ctx.cast(ctx.op("ReLU6", made, minValue=float(low), maxValue=float(high)), DType.U8)


def _operand(ctx: Context, node: TfliteNode, index: int) -> tuple[Value, np.float32] | None:
    """An operand's bytes (int32, less their zero point) and their scale."""
    q = node.quantization(index)
    if q is None or not single(q) or not -256 < int(q.zero.reshape(-1)[0]) < 256:
        return None
    zero = int(q.zero.reshape(-1)[0])
    x = ctx.cast(node.input(index), DType.I32)
    return plus(ctx, x, -zero) if zero else x, np.float32(q.scale.reshape(-1)[0])


@tflite_op("QUANTIZE", "DEQUANTIZE")
def requantized(ctx: Context, node: TfliteNode) -> Value:
    """Between floats and integers, or from integers of one scale to those of another; weights of 16 bits to 32.

    Those of 16 bits are the product rounded once, at most a step away: concatenations of them, which the whole chain
    of integers becomes a part of, took longer than the network's convolutions save."""
    given = node.tensors_in[0]
    to = scaled(ctx, node) if given is not None and given.type != "INT16" else None
    found = None if to is None else rescaled(ctx, node, to, to.x, float(to.scale) / float(to.result))
    if found is not None:
        return found
    x, result = ctx.real(node, 0), node.tensors_out[0]
    quantized = node.result_quantization() is not None
    if x.dtype is not None and x.dtype.is_float and (quantized or x.dtype is DType.F32):
        return x
    if result.dtype is None or quantized:
        raise node.malformed(f"it makes {result.type} without a scale")
    return ctx.cast(x, result.dtype)
