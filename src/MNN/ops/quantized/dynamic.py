"""Quantisation to the range of what is quantised, found while running."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand
from MNN.ops.quantized.quantization import integer_matmul, quantize


def dynamic_quantize(b: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` as u8, and the scale and zero point that make its range (with 0 in it) fit.

    The scale of zeros is 1, as in ONNX Runtime, and so is that of numbers so small that their scale is rounded to 0.
    """
    axes = range(x.rank)
    low = b.clamp(b.reduce("min", x, axes, keepdims=False), None, 0)
    high = b.clamp(b.reduce("max", x, axes, keepdims=False), 0, None)

    def step(s: BodyBuilder, a: int, z: int) -> int:
        width = s("div", s("sub", z, a), s.const(255, s.dtype(a)))
        return s("select", s("eq", width, s.const(0, s.dtype(a))), s.const(1, s.dtype(a)), width)

    scale = b.map(step, low, high)

    def zero_point(s: BodyBuilder, a: int, k: int) -> int:
        number = s("round", s("neg", s("div", a, k)))
        number = s("min", s("max", number, s.const(0, s.dtype(a))), s.const(255, s.dtype(a)))
        return s.cast(number, DType.U8)

    zero = b.map(zero_point, low, scale)
    return quantize(b, x, scale, zero, DType.U8), scale, zero


def dynamic_product(b: Builder, x: Tensor, w: Tensor, scales: Tensor) -> Tensor:
    """``x[M, K]``, quantised, times i8 weights ``w[K, N]`` that stand for themselves times ``scales[N]``, in f32."""
    whole, scale, zero = dynamic_quantize(b, x)
    total = integer_matmul(b, whole, w, zero, None)
    return b.map(lambda s, a, k, c: s("mul", s.cast(a, DType.F32), s("mul", k, c)), total, scale, scales)


@register("DynamicQuantizeLinear")
class DynamicQuantizeLinear(Operator):
    """``x`` to u8 with a scale and zero point that make its range (with 0 in it) fit: outputs y, scale, zero point."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return dynamic_quantize(b, operand(b, inputs, 0))
