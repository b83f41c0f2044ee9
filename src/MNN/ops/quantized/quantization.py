"""Affine quantisation: to integers, back, and products of quantised tensors (Jacob et al. 2018, arXiv:1712.05877)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ir.shape import elements, normalize_axis
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import along, operand, optional, wide
from MNN.ops.elementwise.cast import convert
from MNN.ops.elementwise.narrow import limits as narrow_limits
from MNN.ops.inference import infer, symbolic_shape_check
from MNN.ops.linear.matmul import fits_product, infer_matmul

_BYTE_RANGE = 255
_SMALL_FILTER = 25
_SMALLEST_STEP = 1e-20
_EXACT_SUMS = 1 << 16
"""Sums of so many bytes are exact in f32."""


def limits(dtype: DType) -> tuple[int, int]:
    """Smallest and largest number of an integer dtype."""
    info = np.iinfo(dtype.numpy.name)
    return int(info.min), int(info.max)


def spread(b: Builder, t: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """A scale or zero point shaped to broadcast with ``x``: one number, one per index of ``axis``, or one per block."""
    if t.rank <= 1 and not block:
        if elements(t.shape) != 1 and (not x.rank or t.shape[0] != x.shape[axis]):
            raise ShapeError(f"{b.where}: {t.shape[0]} scales for axis {axis} of {list(x.shape)}")
        return along(b, t, axis, x.rank)
    if not block or t.rank != x.rank or t.shape[axis] != -(-x.shape[axis] // block):
        raise ShapeError(f"{b.where}: scales {list(t.shape)} do not fit {list(x.shape)} in blocks of {block}")
    apart = b.reshape(t, (*t.shape[: axis + 1], 1, *t.shape[axis + 1 :]))
    wider = b.expand(apart, (*t.shape[: axis + 1], block, *t.shape[axis + 1 :]))
    whole = b.reshape(wider, (*t.shape[:axis], t.shape[axis] * block, *t.shape[axis + 1 :]))
    return b.slice(
        whole, [0] * x.rank, [n if i == axis else d for i, (n, d) in enumerate(zip(x.shape, whole.shape, strict=True))]
    )


def _one_number(zero: Tensor | None, dtype: DType) -> int | None:
    """The zero point, where it is known to be one number and the dtype is of 8 or 16 bits."""
    if dtype.size > 2:
        return None
    if zero is None:
        return 0
    found = None if zero.const is None else np.unique(zero.const)
    return int(found[0]) if found is not None and found.size == 1 else None


def saturated(s: BodyBuilder, q: int, zero: int, dtype: DType) -> int:
    """``saturate(round_half_even(q) + zero)`` in ``dtype``, bounded first: then rounding gives the integer at once."""
    low, high = limits(dtype)
    kind = s.dtype(q)
    q = s("min", s("max", q, s.const(low - zero, kind)), s.const(high - zero, kind))
    whole = s.cast(s("round", q), DType.I32)
    return s.cast(s("add", whole, s.const(zero, DType.I32)) if zero else whole, dtype)


def _one_step(scale: Tensor) -> float | None:
    """A constant scale, where it is one number whose reciprocal and products with integers are normal numbers."""
    if scale.const is None or scale.const.size != 1 or scale.dtype is not DType.F32:
        return None
    step = float(scale.const.reshape(-1)[0])
    return step if _SMALLEST_STEP < step < 1 / _SMALLEST_STEP else None


def _in_steps(s: BodyBuilder, x: int, step: float, zero: int, dtype: DType) -> int:
    """:func:`saturated` of ``x / step``. The reciprocal comes in two parts, which give the quotient as if it were
    divided (Brisebarre, Muller, Raina, "Accelerating correctly rounded floating-point division when the divisor is
    known in advance", 2004); neither is negative, so that the infinite stays so."""
    if step == 1:
        return saturated(s, x, zero, dtype)
    first = np.float32(1 / step)
    first = first if float(first) <= 1 / step else np.nextafter(first, np.float32(0))
    rest = float(np.float32(1 / step - float(first)))
    times = s.const(float(first), DType.F32)
    q = s("fma", x, times, s("mul", x, s.const(rest, DType.F32))) if rest else s("mul", x, times)
    return saturated(s, q, zero, dtype)


def saturated_around(s: BodyBuilder, q: int, zero: int, dtype: DType) -> int:
    """As :func:`saturated` with a zero point that is an operand, for f32 and results of 8 or 16 bits."""
    low, high = limits(dtype)
    shift = s.cast(zero, DType.F32)
    q = s("max", q, s("sub", s.const(low, DType.F32), shift))
    q = s("min", q, s("sub", s.const(high, DType.F32), shift))
    return s.cast(s("add", s.cast(s("round", q), DType.I32), s.cast(zero, DType.I32)), dtype)


def _quantize_narrow(b: Builder, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DType, saturate: bool) -> Tensor:
    """To a type that nothing is computed with: the quotient (rounded where the type is an integer), then a cast."""
    whole = narrow_limits(dtype)
    zero = None if zero is None else b.cast(zero, DType.F32)

    def body(s: BodyBuilder, a: int, k: int, *z: int) -> int:
        q = s("div", a, k)
        q = q if whole is None else s("round", q)
        q = s("add", q, z[0]) if z else q
        if whole is not None:
            q = s("min", s("max", q, s.const(whole[0], DType.F32)), s.const(whole[1], DType.F32))
        return q

    operands = [b.cast(t, DType.F32) for t in (x, scale)]
    return convert(b, b.map(body, *operands, *(() if zero is None else (zero,))), dtype, saturate)


def quantize(b: Builder, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DType, saturate: bool = True) -> Tensor:
    """``saturate(round_half_even(x / scale) + zero)``; operands broadcast. ``saturate`` concerns 8-bit floats."""
    if dtype.is_narrow:
        return _quantize_narrow(b, x, scale, zero, dtype, saturate)
    low, high = limits(dtype)
    wide_x = b.cast(x, DType.F32) if x.dtype.is_int else wide(b, x)
    known = _one_number(zero, dtype)
    step = _one_step(scale) if wide_x.dtype is DType.F32 else None
    if known is not None and step is not None:
        return b.map(lambda s, a: _in_steps(s, a, step, known, dtype), wide_x)
    if known is not None:
        return b.map(lambda s, a, k: saturated(s, s("div", a, k), known, dtype), wide_x, b.cast(scale, wide_x.dtype))

    def body(s: BodyBuilder, a: int, k: int, *z: int) -> int:
        q = s("div", a, k)
        kind = s.dtype(q)
        if z and dtype.size <= 2 and kind is DType.F32:
            return saturated_around(s, q, z[0], dtype)
        q = s("round", q)
        if z:
            q = s("add", q, s.cast(z[0], kind))
        return s.cast(s("min", s("max", q, s.const(low, kind)), s.const(high, kind)), dtype)

    return b.map(body, wide_x, b.cast(scale, wide_x.dtype), *(() if zero is None else (zero,)))


class _Quantization(Operator):
    in_mnn = False
    attributes = {"axis": 1, "block_size": 0, "dtype": "DT_INVALID", "saturate": True}

    def operands(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> tuple[Tensor, Tensor, Tensor | None]:
        """``x``, and scale and zero point that broadcast with it."""
        x, scale, zero = operand(b, inputs, 0), operand(b, inputs, 1, "scale"), optional(inputs, 2)
        axis, block = self.int_attr(node, "axis"), self.int_attr(node, "block_size")
        if elements(scale.shape) > 1 or block:
            axis = normalize_axis(axis, x.rank, b.where)
        return x, spread(b, scale, x, axis, block), None if zero is None else spread(b, zero, x, axis, block)

    def dtype(self, b: Builder, node: Node, default: DType) -> DType:
        name = self.str_attr(node, "dtype")
        return default if name == "DT_INVALID" else from_data_type(name, b.where)


@register("QuantizeLinear")
class QuantizeLinear(_Quantization):
    """``saturate(round(x / scale) + zero)``, per tensor, per ``axis`` or per block of it."""

    result_zero_point = 2

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, scale, zero = self.operands(b, node, inputs)
        dtype = self.dtype(b, node, DType.U8 if zero is None else zero.dtype)
        return [quantize(b, x, scale, zero, dtype, self.bool_attr(node, "saturate"))]


@register("DequantizeLinear")
class DequantizeLinear(_Quantization):
    """``(x - zero) * scale`` in the scale's dtype."""

    zero_points = {0: 2}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, scale, zero = self.operands(b, node, inputs)
        dtype = self.dtype(b, node, scale.dtype)
        # integers are subtracted as integers; floats of 8 bits in floating point
        middle = DType.I32 if x.dtype.is_int or narrow_limits(x.dtype) else DType.F32
        x = b.cast(x, middle) if x.dtype.is_narrow else x
        zero = b.cast(zero, middle) if zero is not None and zero.dtype.is_narrow else zero

        def body(s: BodyBuilder, a: int, k: int, *z: int) -> int:
            a = s.cast(a, middle)
            if z:
                a = s("sub", a, s.cast(z[0], middle))
            return s.cast(s("mul", s.cast(a, DType.F32), s.cast(k, DType.F32)), dtype)

        return [b.map(body, x, scale, *(() if zero is None else (zero,)))]


def centred(b: Builder, t: Tensor, zero: Tensor | None) -> Tensor:
    """``t - zero`` as integers; constants stay narrow (8 bits where they fit, else 16) for products of bytes."""
    if zero is None or (zero.const is not None and not zero.const.any()):
        return t
    wide_t = b.op("sub", b.cast(t, DType.I32), b.cast(zero, DType.I32))
    if wide_t.const is None or not wide_t.const.size or t.dtype not in (DType.I8, DType.U8):
        return wide_t
    fits = wide_t.const.min() >= -128 and wide_t.const.max() <= 127
    return b.const(wide_t.const, DType.I8 if fits else DType.I16)


def in_bytes(b: Builder, w: Tensor, zero: Tensor | None, x: Tensor, others: Sequence[int]) -> tuple[Tensor, int]:
    """Constant weights minus their zero points, and what was taken off each besides so that they fit in i8.

    Weights of unsigned bytes leave i8's range without their zero points; the number taken off comes back as its product
    with the sums of what the weights are multiplied by. Not worth it for the few weights (``others`` are the extents of
    a sum) of small filters.
    """
    w = centred(b, w, zero)
    if w.const is None or w.dtype is not DType.I16 or x.dtype not in (DType.I8, DType.U8):
        return w, 0
    low, high = int(w.const.min()), int(w.const.max())
    depth = math.prod(others)
    if high - low > _BYTE_RANGE or not _SMALL_FILTER < depth < _EXACT_SUMS:
        return w, 0
    middle = (low + high + 1) // 2
    return b.const((w.const.astype(np.int32) - middle).astype(np.int8), DType.I8), middle


def centred_floats(b: Builder, t: Tensor, zero: Tensor | None) -> Tensor:
    """``t - zero`` in f32: what 16-bit integers are multiplied as where their sums may not fit in 32 bits."""
    whole = t if zero is None or (zero.const is not None and not zero.const.any()) else centred(b, t, zero)
    return b.cast(whole, DType.F32)


def product_operands(b: Builder, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both 8 bits wide (constants 16), or both i32."""
    if x.dtype is DType.I32 or y.dtype is DType.I32:
        return b.cast(x, DType.I32), b.cast(y, DType.I32)
    return x, y


def integer_matmul(b: Builder, x: Tensor, y: Tensor, x_zero: Tensor | None, y_zero: Tensor | None) -> Tensor:
    """``(x - x_zero) @ (y - y_zero)`` in i32. ``x_zero`` may hold one number per row, ``y_zero`` one per column."""
    if y_zero is not None and y_zero.rank == 1 and y.rank > 1 and y_zero.shape[0] > 1:
        y_zero = b.reshape(y_zero, (1, y_zero.shape[0]))
    moved: Tensor | None = None
    taken = 0
    if x.rank > 1 and y.rank > 1 and y.const is None and y.dtype in (DType.I8, DType.U8):
        y, moved = _signed(b, y, y_zero)
    else:
        whole = centred(b, y, y_zero)
        y, taken = in_bytes(b, y, y_zero, x, x.shape[-1:]) if y.rank > 1 and x.rank > 1 else (whole, 0)
    out = b.matmul(*product_operands(b, x, y))
    if taken:
        rows = b.reduce("sum", b.cast(x, DType.I32), [-1])
        out = b.map(lambda s, a, r: s("add", a, s("mul", r, s.const(taken, DType.I32))), out, rows)
        y = whole
    if moved is not None:
        rows = b.reduce("sum", b.cast(x, DType.I32), [-1])
        out = b.map(lambda s, a, r, z: s("sub", a, s("mul", r, z)), out, rows, moved)
    if x_zero is None or (x_zero.const is not None and not x_zero.const.any()):
        return out
    x_zero = b.cast(x_zero, DType.I32)
    if x_zero.rank == 1 and x.rank > 1 and x_zero.shape[0] > 1:
        x_zero = b.reshape(x_zero, (x_zero.shape[0], 1))
    if y.rank == 1:
        sums = b.reduce("sum", b.cast(y, DType.I32), [0], keepdims=False)
        x_zero = b.reshape(x_zero, x_zero.shape[:-1]) if x_zero.rank > 1 else x_zero
    else:
        sums = b.reduce("sum", b.cast(y, DType.I32), [-2], keepdims=x.rank > 1)
    if moved is not None:
        sums = b.op("sub", sums, b.op("mul", moved, b.const(x.shape[-1], DType.I32)))
    if x_zero.const is not None and sums.const is not None:
        return b.op("sub", out, b.op("mul", x_zero, sums))
    return b.map(lambda s, a, z, t: s("sub", a, s("mul", z, t)), out, x_zero, sums)


def _signed(b: Builder, y: Tensor, zero: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Numbers that only running tells as i8, and their zero point (None for zero)."""
    if y.dtype is DType.I8:
        none = zero is None or (zero.const is not None and not zero.const.any())
        return y, None if none or zero is None else b.cast(zero, DType.I32)
    signed = b.map(lambda s, a: s.cast(s("xor", a, s.const(128, DType.U8)), DType.I8), y)
    zero = b.const(0, DType.I32) if zero is None else b.cast(zero, DType.I32)
    return signed, b.op("sub", zero, b.const(128, DType.I32))


def requantize(b: Builder, total: Tensor, factor: Tensor, zero: Tensor) -> Tensor:
    """``saturate(round(total * factor) + zero)`` in ``zero``'s dtype."""
    known = _one_number(zero, zero.dtype)
    if known is not None:
        dtype = zero.dtype
        return b.map(lambda s, a, k: saturated(s, s("mul", s.cast(a, DType.F32), k), known, dtype), total, factor)

    def body(s: BodyBuilder, a: int, k: int, z: int) -> int:
        return saturated_around(s, s("mul", s.cast(a, DType.F32), k), z, zero.dtype)

    return b.map(body, total, factor, zero)


def output_factor(b: Builder, x: Tensor, y: Tensor, out: Tensor) -> Tensor:
    x, y, out = (b.cast(t, DType.F32) for t in (x, y, out))
    return b.map(lambda s, p, q, r: s("div", s("mul", p, q), r), x, y, out)


@register("MatMulInteger")
class MatMulInteger(Operator):
    """``(A - a_zero?) @ (B - b_zero?)`` of 8-bit integers, in i32."""

    in_mnn = False
    zero_points = {0: 2, 1: 3}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, y = operand(b, inputs, 0), operand(b, inputs, 1)
        return [integer_matmul(b, x, y, optional(inputs, 2), optional(inputs, 3))]


@register("QLinearMatMul")
class QLinearMatMul(Operator):
    """Quantised matrix product; inputs ``a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, bias?`` (i32).

    ``a`` may be of 16 bits, as in :class:`~MNN.ops.quantized.convolution.QLinearConv`.
    """

    in_mnn = False
    attributes = {"exact": False}
    zero_points, result_zero_point = {0: 2, 3: 5}, 7

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, xs, xz, y, ys, yz, os, oz = (operand(b, inputs, i) for i in range(8))
        if x.dtype is DType.I16:
            exact = self.bool_attr(node, "exact")
            sides = (x, y) if exact else (centred_floats(b, x, xz), centred_floats(b, y, yz))
            total = b.matmul(*sides)
        else:
            total = integer_matmul(b, x, y, xz, yz)
        bias = optional(inputs, 8)
        total = total if bias is None else b.op("add", total, b.cast(bias, total.dtype))
        if xs.rank == 1 and xs.shape[0] > 1:
            xs = b.reshape(xs, (xs.shape[0], 1))
        return [requantize(b, total, output_factor(b, xs, ys, os), oz)]


@infer.rule(QuantizeLinear)
def _infer_quantize(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    named = node.attrs.get("dtype")
    dtype = from_data_type(str(named)) if named else zero.dtype if zero is not None else DType.U8
    return [(dtype, infer.sizes(infer.operand(node, 0)))]


@infer.rule(DequantizeLinear)
def _infer_dequantize(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(infer.operand(node, 1).dtype, infer.sizes(infer.operand(node, 0)))]


@symbolic_shape_check.rule(QLinearMatMul)
def _fits_quantized_product(node: Node, shapes: list[symbolic_shape_check.Sizes | None]) -> bool:
    return symbolic_shape_check.multiplies(shapes[0], shapes[3])


infer.rule(MatMulInteger)(infer_matmul)
symbolic_shape_check.rule(MatMulInteger)(fits_product)
