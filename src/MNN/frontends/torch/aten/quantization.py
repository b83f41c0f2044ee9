"""Quantisation as PT2E writes it: operators of ``quantized_decomposed``, the form of QDQ."""

from __future__ import annotations

import numpy as np

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

Given = Value | int | float | Number
_RANGES = {DType.I8: (-128, 127), DType.U8: (0, 255), DType.I16: (-32768, 32767), DType.U16: (0, 65535)}


def _scale(ctx: TorchBuilder, scale: Given) -> Value:
    found = ctx.operand(scale, DType.F32)
    return ctx.op("Reshape", found, ctx.const(np.zeros(0, np.int64))) if found.shape == (1,) else found


def _zero(ctx: TorchBuilder, zero: Given, dtype: DType) -> Value:
    if isinstance(zero, Value):
        known = ctx.constant(zero)
        if known is not None:
            return ctx.const(known.astype(dtype.numpy).reshape(() if known.shape == (1,) else known.shape))
    found = ctx.operand(zero, dtype)
    return ctx.op("Reshape", found, ctx.const(np.zeros(0, np.int64))) if found.shape == (1,) else found


@aten("quantized_decomposed.quantize_per_tensor")
def quantize(
    ctx: TorchBuilder, x: Value, scale: Given, zero: Given, quant_min: int, quant_max: int, dtype: DType, **_: object
) -> Value:
    """Narrower ranges than the type has (as of symmetric weights) are limits of their own."""
    out = ctx.op("QuantizeLinear", x, _scale(ctx, scale), _zero(ctx, zero, dtype))
    return _limited(ctx, out, quant_min, quant_max, dtype)


def _limited(ctx: TorchBuilder, x: Value, low: int, high: int, dtype: DType) -> Value:
    if dtype not in _RANGES:
        raise ctx.unsupported(f"quantising to {dtype.value}", "use int8, uint8, int16 or uint16")
    least, most = _RANGES[dtype]
    if low > least:
        x = ctx.op("BinaryOp", x, ctx.scalar(low, dtype), opType="MAXIMUM")
    if high < most:
        x = ctx.op("BinaryOp", x, ctx.scalar(high, dtype), opType="MINIMUM")
    return x


@aten("quantized_decomposed.dequantize_per_tensor")
def dequantize(
    ctx: TorchBuilder, x: Value, scale: Given, zero: Given, quant_min: int, quant_max: int, dtype: DType, **_: object
) -> Value:
    return ctx.op("DequantizeLinear", x, _scale(ctx, scale), _zero(ctx, zero, ctx.type_of(x)))


@aten("quantized_decomposed.quantize_per_channel")
def quantize_per_channel(
    ctx: TorchBuilder,
    x: Value,
    scales: Value,
    zeros: Value | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Value:
    zero = None if zeros is None else ctx.cast_known(zeros, dtype)
    out = ctx.op("QuantizeLinear", x, ctx.cast_known(scales, DType.F32), zero, axis=axis)
    return _limited(ctx, out, quant_min, quant_max, dtype)


@aten("quantized_decomposed.dequantize_per_channel")
def dequantize_per_channel(
    ctx: TorchBuilder, x: Value, scales: Value, zeros: Value | None, axis: int, quant_min: int, quant_max: int,
    dtype: DType, **_: object,
) -> Value:  # fmt: skip
    zero = None if zeros is None else ctx.cast_known(zeros, ctx.type_of(x))
    return ctx.op("DequantizeLinear", x, ctx.cast_known(scales, DType.F32), zero, axis=axis)


@aten("fake_quantize_per_tensor_affine")
def fake_quantize(ctx: TorchBuilder, x: Value, scale: Given, zero: Given, quant_min: int, quant_max: int) -> Value:
    """Rounded to what a quantised tensor could hold."""
    dtype = DType.I8 if quant_min < 0 else DType.U8
    made = _limited(
        ctx, ctx.op("QuantizeLinear", x, _scale(ctx, scale), _zero(ctx, zero, dtype)), quant_min, quant_max, dtype
    )
    return ctx.op("DequantizeLinear", made, _scale(ctx, scale), _zero(ctx, zero, dtype))


@aten("fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    ctx: TorchBuilder, x: Value, scales: Value, zeros: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    dtype = DType.I8 if quant_min < 0 else DType.U8
    zero, scale = ctx.cast_known(zeros, dtype), ctx.cast_known(scales, DType.F32)
    made = _limited(ctx, ctx.op("QuantizeLinear", x, scale, zero, axis=axis), quant_min, quant_max, dtype)
    return ctx.op("DequantizeLinear", made, scale, zero, axis=axis)


@aten("quantized_decomposed.choose_qparams")
def choose_qparams(
    ctx: TorchBuilder, x: Value, quant_min: int, quant_max: int, eps: float, dtype: DType | None = None
) -> list[Value]:
    """Scale and zero point that the tensor's range, with 0 in it, fits."""
    low = ctx.op("BinaryOp", ctx.op("Reduction", x, operation="MINIMUM"), ctx.const_like(0, x), opType="MINIMUM")
    high = ctx.op("BinaryOp", ctx.op("Reduction", x, operation="MAXIMUM"), ctx.const_like(0, x), opType="MAXIMUM")
    span = ctx.op("BinaryOp", high, low, opType="SUB")
    scale = ctx.binary("MAXIMUM", ctx.binary("REALDIV", span, float(quant_max - quant_min)), eps)
    shift = ctx.unary("ROUND", ctx.op("BinaryOp", low, scale, opType="REALDIV"))
    zero = ctx.op("BinaryOp", ctx.const_like(float(quant_min), x), shift, opType="SUB")
    zero = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", zero, float(quant_min)), float(quant_max))
    return [ctx.cast(scale, DType.F64), ctx.cast(zero, DType.I64)]
