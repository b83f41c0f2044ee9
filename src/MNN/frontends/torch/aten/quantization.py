"""Quantisation as PT2E writes it: operators of ``quantized_decomposed``, the form of QDQ."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.dynamic_products import dynamic_bytes
from MNN.frontends.torch.builder import Chosen, TorchBuilder
from MNN.frontends.torch.numbers import Int, Number
from MNN.frontends.torch.registry import apply, aten
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
    own = ctx.chosen.get(scale) if isinstance(scale, Value) else None
    if (
        own is not None
        and (own.x, own.zero, own.dtype) == (x, zero, dtype)
        and (quant_min, quant_max) == _RANGES[dtype]
    ):
        return _in_bytes(ctx, own)
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
    own = ctx.chosen.get(x)
    if own is not None and own.scale is scale and own.zero is zero:
        return ctx.op("DequantizeLinear", *own.held)
    return ctx.op("DequantizeLinear", x, _scale(ctx, scale), _zero(ctx, zero, ctx.type_of(x)))


def _in_bytes(ctx: TorchBuilder, own: Chosen) -> Value:
    """The integers of a tensor that is quantised to its own range."""
    found = own.held[0]
    if own.dtype is DType.I8:
        lower = ctx.op("BinaryOp", ctx.cast(found, DType.I32), ctx.scalar(128, DType.I32), opType="SUB")
        found = ctx.cast(lower, DType.I8)
    ctx.chosen[found] = own
    return found


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
    """Scale and zero point that the tensor's range, with 0 in it, fits. All bytes of f32 are one operator, which also
    quantises: signed ones are unsigned ones less 128."""
    if dtype in (DType.I8, DType.U8) and (quant_min, quant_max) == _RANGES[dtype] and ctx.type_of(x) is DType.F32:
        held = dynamic_bytes(ctx, x, least=eps)
        zero = ctx.cast(held[2], DType.I64)
        zero = zero if not quant_min else ctx.op("BinaryOp", zero, ctx.scalar(128, DType.I64), opType="SUB")
        scale = ctx.cast(held[1], DType.F64)
        ctx.chosen[scale] = Chosen(x, scale, zero, dtype, held)
        return [scale, zero]
    low = ctx.op("BinaryOp", ctx.op("Reduction", x, operation="MINIMUM"), ctx.const_like(0, x), opType="MINIMUM")
    high = ctx.op("BinaryOp", ctx.op("Reduction", x, operation="MAXIMUM"), ctx.const_like(0, x), opType="MAXIMUM")
    span = ctx.op("BinaryOp", high, low, opType="SUB")
    scale = ctx.binary("MAXIMUM", ctx.binary("REALDIV", span, float(quant_max - quant_min)), eps)
    shift = ctx.unary("ROUND", ctx.op("BinaryOp", low, scale, opType="REALDIV"))
    zero = ctx.op("BinaryOp", ctx.const_like(float(quant_min), x), shift, opType="SUB")
    zero = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", zero, float(quant_min)), float(quant_max))
    return [ctx.cast(scale, DType.F64), ctx.cast(zero, DType.I64)]


def _blocked(
    ctx: TorchBuilder, x: Value, block_size: list[int], *numbers: Value | None
) -> tuple[Value, list[int], list[Value | None]]:
    """Axes cut into blocks, the axes within blocks, and numbers of each block shaped to broadcast."""
    sizes: list[Int] = []
    inner: list[int] = []
    for n, block in zip(ctx.sizes(x), block_size, strict=True):
        if block == 1:
            sizes.append(n)
        elif n == block:
            inner.append(len(sizes))
            sizes.append(n)
        else:
            sizes += [ctx.known(n, "the size of an axis in blocks") // block, block]
            inner.append(len(sizes) - 1)
    spread: list[Int] = [1 if i in inner else n for i, n in enumerate(sizes)]
    shaped = [None if v is None or v.shape == (0,) else ctx.reshape(v, spread) for v in numbers]
    return ctx.reshape(x, sizes), inner, shaped


def _limits(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    least, most = _RANGES.get(dtype, (-(1 << 31), (1 << 31) - 1))
    return least if low is None else low, most if high is None else high


@aten("torchao.choose_qparams_affine")
def choose_affine(
    ctx: TorchBuilder, x: Value, mapping_type: str, block_size: list[int], target_dtype: DType,
    quant_min: float | None = None, quant_max: float | None = None, eps: float | None = None,
    scale_dtype: DType | None = None, zero_point_dtype: DType | None = None, keepdim: bool = True,
) -> list[Value]:  # fmt: skip
    """torchao's: scales and zero points of blocks."""
    least, most = _limits(target_dtype, quant_min, quant_max)
    blocks, inner, _ = _blocked(ctx, x, block_size)
    low = ctx.binary("MINIMUM", apply(ctx, "amin", [blocks, inner, keepdim], {}), 0.0)
    high = ctx.binary("MAXIMUM", apply(ctx, "amax", [blocks, inner, keepdim], {}), 0.0)
    if mapping_type == "SYMMETRIC":
        high = ctx.binary("MAXIMUM", ctx.unary("NEG", low), high)
        scale = ctx.binary("REALDIV", high, float(most - least) / 2)
    elif mapping_type == "ASYMMETRIC":
        scale = ctx.binary("REALDIV", ctx.binary("SUB", high, low), float(most - least))
    else:
        scale = ctx.binary(
            "MAXIMUM", ctx.binary("REALDIV", low, float(least)), ctx.binary("REALDIV", high, float(most))
        )
    smallest = float(np.finfo(np.float32).tiny) if eps is None else eps
    scale = ctx.binary("MAXIMUM", scale, smallest)
    if mapping_type == "ASYMMETRIC":
        zero = ctx.binary("SUB", float(least), ctx.unary("ROUND", ctx.binary("REALDIV", low, scale)))
        zero = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", zero, float(least)), float(most))
    else:
        zero = apply(ctx, "full_like", [scale, float(int((most + least + 1) / 2))], {})
    if keepdim:
        count = [1 if n == b else n if b == 1 else ctx.known(n, "a size") // b
                 for n, b in zip(ctx.sizes(x), block_size, strict=True)]  # fmt: skip
        scale, zero = ctx.reshape(scale, count), ctx.reshape(zero, count)
    return [
        scale if scale_dtype is None else ctx.cast(scale, scale_dtype),
        ctx.cast(zero, ctx.type_of(x) if zero_point_dtype is None and mapping_type != "ASYMMETRIC" else
                 zero_point_dtype or DType.I32),
    ]  # fmt: skip


@aten("torchao.quantize_affine")
def quantize_affine(
    ctx: TorchBuilder, x: Value, block_size: list[int], scale: Value, zero_point: Value | None, output_dtype: DType,
    quant_min: float | None = None, quant_max: float | None = None,
) -> Value:  # fmt: skip
    """torchao's: ``round(x / scale) + zero`` within limits, block by block."""
    least, most = _limits(output_dtype, quant_min, quant_max)
    blocks, _, (steps, zero) = _blocked(ctx, x, block_size, scale, zero_point)
    assert steps is not None
    out = ctx.unary("ROUND", ctx.binary("MUL", blocks, ctx.unary("RECIPROCAL", steps)))
    if zero is not None:
        out = ctx.binary("ADD", out, ctx.cast(zero, ctx.type_of(out)))
    out = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", out, float(least)), float(most))
    return ctx.reshape(ctx.cast(out, output_dtype), ctx.sizes(x))


@aten("torchao.dequantize_affine")
def dequantize_affine(
    ctx: TorchBuilder, x: Value, block_size: list[int], scale: Value, zero_point: Value | None, input_dtype: DType,
    quant_min: float | None = None, quant_max: float | None = None, output_dtype: DType = DType.F32,
) -> Value:  # fmt: skip
    """torchao's: ``(x - zero) * scale``, block by block."""
    rows = ctx.rank(x) == 2 and block_size[0] == 1 and block_size[1] == ctx.size(x, 1)
    if rows and x.is_const and output_dtype is DType.F32 and ctx.type_of(x) is DType.I8:
        zero = None if zero_point is None or zero_point.shape == (0,) else ctx.cast_known(zero_point, DType.I8)
        flat = [None if v is None else ctx.reshape(v, [-1]) for v in (scale, zero)]
        assert flat[0] is not None
        return ctx.op("DequantizeLinear", x, ctx.cast_known(flat[0], DType.F32), flat[1], axis=0)
    blocks, _, (steps, zero) = _blocked(ctx, x, block_size, scale, zero_point)
    assert steps is not None
    wide = ctx.cast(blocks, output_dtype)
    if zero is not None:
        wide = ctx.binary("SUB", wide, ctx.cast(zero, output_dtype))
    return ctx.reshape(ctx.binary("MUL", wide, ctx.cast(steps, output_dtype)), ctx.sizes(x))
