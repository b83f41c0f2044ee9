"""Quantised tensors of TorchScript: integers with the scale and zero point that they stand for."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.frontends.torch.builder import TorchBuilder
from MNN.ir.graph import Value


@dataclass(eq=False)
class QuantizedTensor:
    """``value``: i8, u8 or i32. ``scale`` and ``zero``: of all, or one for each place along ``axis``."""

    value: Value
    scale: Value
    zero: Value
    axis: int | None = None

    def real(self, ctx: TorchBuilder) -> Value:
        """The floats that it stands for."""
        return ctx.op("DequantizeLinear", self.value, self.scale, self.zero, axis=0 if self.axis is None else self.axis)


@dataclass(eq=False)
class PackedWeights:
    """What ``conv2d_prepack`` and ``linear_prepack`` make: weights, biases, and strides, pads and so on by name."""

    weight: QuantizedTensor
    bias: Value | None
    geometry: dict[str, list[int]]


def quantize(ctx: TorchBuilder, x: Value, scale: Value, zero: Value, axis: int | None = None) -> QuantizedTensor:
    """``zero`` has the type of the result."""
    value = ctx.op("QuantizeLinear", x, scale, zero, axis=0 if axis is None else axis)
    return QuantizedTensor(value, scale, zero, axis)
