"""Quantisation to the range of what is quantised, found while running."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand
from MNN.ops.quantized.quantization import integer_matmul, quantize, saturated_around

_LARGE, _SMALLER = 2.0**60, 2.0**-60
"""Scales from which what a reciprocal is short of may be no normal number, and what makes them smaller."""


def dynamic_quantize(
    b: Builder, x: Tensor, per_sample: bool = False, least: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` as u8, and the scale and zero point that make its range (with 0 in it) fit: numbers, or ``per_sample`` one
    for each index of the first axis, in tensors that broadcast with ``x``.

    The scale of zeros is 1, as in ONNX Runtime, and so is that of numbers so small that their scale is rounded to 0.
    With ``least`` scales are not smaller than that, and numbers are multiplied by the reciprocal rather than divided,
    as in PyTorch.
    """
    parts = x.dtype is DType.F32 and not least

    def steps(s: BodyBuilder, low: int, high: int) -> list[int]:
        kind = s.dtype(low)
        none, top = s.const(0, kind), s.const(255, kind)
        low = s("min", low, none)
        width = s("div", s("sub", s("max", high, none), low), top)
        if least:
            scale = s("max", width, s.const(least, kind))
        else:
            scale = s("select", s("eq", width, none), s.const(1, kind), width)
        zero = s("round", s("neg", s("div", low, scale)))
        zero = s.cast(s("min", s("max", zero, none), top), DType.U8)
        factors = _reciprocal(s, scale) if parts else [s("div", s.const(1, kind), scale)] if least else ()
        return [scale, zero, *factors]

    s = BodyBuilder()
    body = s.build(*steps(s, s.arg(x.dtype), s.arg(x.dtype)))
    ends = [b.reduce(op, x, range(int(per_sample), x.rank)) for op in ("min", "max")]
    scale, zero, *factors = b.emit(p.Map(ends, body=body), *((d, ends[0].shape) for d in body.result_dtypes))
    numbers = (scale, zero) if per_sample else (b.reshape(scale, ()), b.reshape(zero, ()))
    if x.dtype is not DType.F32:
        return quantize(b, x, *numbers, DType.U8), *numbers
    if least:
        return b.map(lambda s, a, k, z: saturated_around(s, s("mul", a, k), z, DType.U8), x, *factors, zero), *numbers

    def in_steps(s: BodyBuilder, a: int, near: int, first: int, rest: int, zero: int) -> int:
        a = s("mul", a, near)
        return saturated_around(s, s("fma", a, first, s("mul", a, rest)), zero, DType.U8)

    return b.map(in_steps, x, *factors, zero), *numbers


def _reciprocal(s: BodyBuilder, scale: int) -> list[int]:
    """Three factors in place of a division by ``scale``: a power of two that makes large scales smaller, the
    reciprocal, and what it is short of (Brisebarre, Muller, Raina, "Accelerating correctly rounded floating-point
    division when the divisor is known in advance", 2004). Infinite scales have none: finite numbers are zeros in their
    steps, infinite ones NaN."""
    one, none = s.const(1, DType.F32), s.const(0, DType.F32)
    near = s("select", s("gt", scale, s.const(_LARGE, DType.F32)), s.const(_SMALLER, DType.F32), one)
    nearer = s("mul", scale, near)
    first = s("div", one, nearer)
    rest = s("mul", s("fma", s("neg", first), nearer, one), first)
    return [near, first, s("select", s("eq", first, none), none, rest)]


def dynamic_product(b: Builder, x: Tensor, w: Tensor, scales: Tensor) -> Tensor:
    """``x[M, K]``, quantised, times i8 weights ``w[K, N]`` that stand for themselves times ``scales[N]``, in f32."""
    whole, scale, zero = dynamic_quantize(b, x)
    total = integer_matmul(b, whole, w, zero, None)
    return b.map(lambda s, a, k, c: s("mul", s.cast(a, DType.F32), s("mul", k, c)), total, scale, scales)


@register("DynamicQuantizeLinear")
class DynamicQuantizeLinear(Operator):
    """``x`` to u8 with a scale and zero point that make its range (with 0 in it) fit: outputs y, scale, zero point.
    ``per_sample``: each index of the first axis has its own, which then keep all axes, of size 1 but for the first.
    ``least``: see :func:`dynamic_quantize`."""

    in_mnn = False
    attributes = {"per_sample": False, "least": 0.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, per_sample = operand(b, inputs, 0), self.bool_attr(node, "per_sample")
        if per_sample and not x.rank:
            raise ShapeError(f"{b.where}: one number has no samples")
        return dynamic_quantize(b, x, per_sample, self.float_attr(node, "least"))
