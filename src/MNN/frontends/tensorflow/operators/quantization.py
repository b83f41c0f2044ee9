"""Quantisation: fake quantisation becomes a pair of operators that passes turn into integer arithmetic."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import binary, clamp, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@tf_op("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant(ctx: Context, node: TfNode) -> Value:
    bits, narrow = node.int_attr("num_bits", 8), node.bool_attr("narrow_range", False)
    if not 2 <= bits <= 16:
        raise node.unsupported(f"num_bits {bits}", "use 2 to 16")
    if node.op.endswith("Args"):
        limits: list[np.ndarray | None] = [
            np.asarray(node.float_attr("min", -6.0), np.float32), np.asarray(node.float_attr("max", 6.0), np.float32)
        ]  # fmt: skip
    else:
        limits = [ctx.constant(node.input(i)) for i in (1, 2)]
    if limits[0] is None or limits[1] is None:
        raise node.unsupported("limits that are not constant", "freeze the graph")
    low, high = int(narrow), (1 << bits) - 1
    scale, zero = nudged(limits[0].astype(np.float32), limits[1].astype(np.float32), low, high)
    x = node.input(0)
    if bits == 8 and not narrow:
        rank = ctx.rank(x)
        axis = rank - 1 if rank and scale.ndim else 0
        return _through_bytes(ctx, x, scale, zero, axis)
    least, most = ((v - zero) * scale for v in (np.float32(low), np.float32(high)))
    clipped = ctx.op(
        "BinaryOp", ctx.op("BinaryOp", x, ctx.const(least), opType="MAXIMUM"), ctx.const(most), opType="MINIMUM"
    )
    steps = binary(ctx, "REALDIV", binary(ctx, "SUB", clipped, ctx.const(least)), ctx.const(scale))
    whole = unary(ctx, "FLOOR", binary(ctx, "ADD", steps, 0.5))
    return binary(ctx, "ADD", binary(ctx, "MUL", whole, ctx.const(scale)), ctx.const(least))


def nudged(least: np.ndarray, most: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Scale and zero point so that 0 is met exactly (Jacob et al. 2018, arXiv:1712.05877)."""
    with np.errstate(all="ignore"):
        scale = ((most - least) / np.float32(high - low)).astype(np.float32)
        zero = np.clip(np.floor(np.float32(low) - least / scale + np.float32(0.5)), low, high).astype(np.float32)
    return scale, zero


def _through_bytes(ctx: Context, x: Value, scale: np.ndarray, zero: np.ndarray, axis: int) -> Value:
    scales, zeros = ctx.const(scale), ctx.const(zero.astype(np.uint8))
    q = ctx.op("QuantizeLinear", x, scales, zeros, axis=axis)
    return ctx.op("DequantizeLinear", q, scales, zeros, axis=axis)


_TYPES = {DType.U8: (0, 255), DType.I8: (-128, 127), DType.U16: (0, 65535), DType.I16: (-32768, 32767)}


@tf_op("Dequantize")
def dequantize(ctx: Context, node: TfNode) -> Value:
    """From integers between two limits to floats."""
    node.ignore("narrow_range", "axis")
    mode = node.choice_attr("mode", "MIN_COMBINED", "MIN_COMBINED", "MIN_FIRST", "SCALED")
    x = node.input(0)
    limits = [ctx.constant(node.input(i)) for i in (1, 2)]
    if limits[0] is None or limits[1] is None or limits[0].size != 1 or x.dtype not in _TYPES:
        raise node.unsupported("limits that are not constant, or one per channel,", "freeze the graph")
    low, high = _TYPES[x.dtype]
    least, most = (float(v.reshape(-1)[0]) for v in limits if v is not None)
    y = ctx.op("Cast", x, dstT="DT_FLOAT")
    y.dtype = DType.F32
    if mode == "SCALED":
        narrow = node.bool_attr("narrow_range", False)
        below = low + 1 if narrow else low
        factor = max(least / below if below else 0.0, most / high)
        return binary(ctx, "MUL", y, factor)
    if mode == "MIN_COMBINED" and low < 0:
        y = binary(ctx, "ADD", y, float(high - low + 1) / 2)
    elif mode == "MIN_FIRST":
        y = binary(ctx, "SUB", y, float(low))
    return binary(ctx, "ADD", binary(ctx, "MUL", y, (most - least) / (high - low)), least)


@tf_op("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def quantize_and_dequantize(ctx: Context, node: TfNode) -> Value:
    """Rounded to as many steps as so many bits have, over limits that are given."""
    signed, given = node.bool_attr("signed_input", True), node.bool_attr("range_given", node.op.endswith("V3"))
    narrow, axis = node.bool_attr("narrow_range", False), node.int_attr("axis", -1)
    mode = node.choice_attr("round_mode", "HALF_TO_EVEN", "HALF_TO_EVEN", "HALF_UP")
    bits = ctx.constant_ints(node.input(3)) if node.op.endswith("V3") else [node.int_attr("num_bits", 8)]
    x, limits = node.input(0), [ctx.constant(node.input(i)) for i in (1, 2)]
    if not given or limits[0] is None or limits[1] is None or not bits or axis != -1 or limits[0].size != 1:
        raise node.unsupported("limits that are taken from the data, or one per channel,", "give constant limits")
    low = -(1 << (bits[0] - 1)) + narrow if signed else int(narrow)
    high = (1 << (bits[0] - 1)) - 1 if signed else (1 << bits[0]) - 1
    least, most = (float(v.reshape(-1)[0]) for v in limits if v is not None)
    below = low / least if low * least > 0 else float("inf")
    above = high / most if high * most > 0 else float("inf")
    factor = min(below, above)
    least, most = (low / factor if below > above else least), (most if below > above else high / factor)
    clipped = ctx.op("ReLU6", x, minValue=least, maxValue=most)
    clipped.dtype = x.dtype
    scaled = binary(ctx, "MUL", clipped, factor)
    whole = unary(ctx, "ROUND", scaled) if mode != "HALF_UP" else unary(ctx, "FLOOR", binary(ctx, "ADD", scaled, 0.5))
    return binary(ctx, "MUL", whole, 1 / factor)


@tf_op("QuantizeV2")
def quantize(ctx: Context, node: TfNode) -> list[Value]:
    """Floats between two limits to integers: those limits, made to have 0 on a step, are results too."""
    node.ignore("axis")
    mode = node.choice_attr("mode", "MIN_COMBINED", "MIN_COMBINED", "MIN_FIRST", "SCALED")
    rounding = node.choice_attr("round_mode", "HALF_AWAY_FROM_ZERO", "HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN")
    narrow, room = node.bool_attr("narrow_range", False), np.float32(node.float_attr("ensure_minimum_range", 0.01))
    to = node.dtype_attr("T")
    limits = [ctx.constant(node.input(i)) for i in (1, 2)]
    if mode != "SCALED" or limits[0] is None or limits[1] is None or limits[0].size != 1 or to not in _TYPES:
        raise node.unsupported(f"mode {mode}, or limits that are not constant,", "use mode SCALED with constant limits")
    low, high = _TYPES[to][0] + narrow, _TYPES[to][1]
    first, last = (np.float32(v.reshape(-1)[0]) for v in limits if v is not None)
    # limits that lie close together are moved apart, by a share of the larger one, of 1 at least
    least = min(np.float32(0), first)
    most = max(np.float32(0), last, least + room * max(np.float32(1), abs(first), abs(last)))
    sides = [np.float32(n) / v for n, v in ((low, least), (high, most)) if n * v > 0]
    factor = min(sides, default=np.finfo(np.float32).max)
    x = clamp(ctx, node.input(0), float(low / factor), float(high / factor))
    scaled = binary(ctx, "MUL", x, float(factor))
    if rounding == "HALF_TO_EVEN":
        whole = unary(ctx, "ROUND", scaled)
    else:
        whole = unary(ctx, "FLOOR", binary(ctx, "ADD", unary(ctx, "ABS", scaled), 0.5))
        whole = binary(ctx, "MUL", whole, unary(ctx, "SIGN", scaled))
    return [ctx.op("Cast", whole, dstT=data_type(to)), *(ctx.const(n / factor, DType.F32) for n in (low, high))]
