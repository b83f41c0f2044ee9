"""Activations that have an operator of their own; the others are compositions of unary and binary operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import along, check_channels, operand


@register("ReLU")
class ReLU(Operator):
    """``max(x, 0)``, or ``x < 0 ? slope * x : x``."""

    elementwise = True
    keeps_shape = True
    repeats = True
    attributes = {"slope": 0.0}

    def bounds(self, node: Node) -> tuple[float, float] | None:
        return (0.0, float("inf")) if self.float_attr(node, "slope") == 0 else None

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, slope = operand(b, inputs, 0), self.float_attr(node, "slope")
        if slope == 0:
            return [b.clamp(x, 0, None)]

        def body(s: BodyBuilder, a: int) -> int:
            return s("select", s("le", a, s.const(0, x.dtype)), s("mul", a, s.const(slope, x.dtype)), a)

        return [b.map(body, x)]


@register("ReLU6")
class ReLU6(Operator):
    """``x`` clamped to ``[minValue, maxValue]``, which may be infinite. Its derivative at these is ``slopeAtBounds``:
    1 where a function clamps, 0 for an activation."""

    elementwise = True
    keeps_shape = True
    repeats = True
    attributes = {"minValue": 0.0, "maxValue": 6.0, "slopeAtBounds": 0.0}

    def bounds(self, node: Node) -> tuple[float, float]:
        return self.float_attr(node, "minValue"), self.float_attr(node, "maxValue")

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, (low, high) = operand(b, inputs, 0), self.bounds(node)
        bounds = (None if low == -math.inf else low, None if high == math.inf else high)
        return [b.clamp(x, *bounds, slope_at_bounds=self.float_attr(node, "slopeAtBounds") != 0)]


@register("PReLU")
class PReLU(Operator):
    """``x < 0 ? slope * x : x``; ``slope`` is one number or one per channel (axis 1)."""

    keeps_shape = True
    repeats = True
    attributes = {"slopeCount": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, slope = operand(b, inputs, 0), operand(b, inputs, 1, "slope")
        check_channels(b, slope, x.shape[1] if x.rank > 1 else 1, "the slope")
        per = b.cast(along(b, slope, 1, max(x.rank, 2)), x.dtype)
        per = b.reshape(per, (1,)) if x.rank < 2 else per

        def body(s: BodyBuilder, a: int, k: int) -> int:
            return s("select", s("le", a, s.const(0, x.dtype)), s("mul", a, k), a)

        return [b.map(body, x, per)]


def _elu(s: BodyBuilder, a: int, alpha: float) -> int:
    """At 0 it has the slope from below, as torch has it; so have those of straight lines."""
    zero = s.const(0, s.dtype(a))
    below = s("le", a, zero)
    negative = s("mul", s("expm1", s("select", below, a, zero)), s.const(alpha, s.dtype(a)))
    return s("select", below, negative, a)


@register("ELU")
class ELU(Operator):
    """``x < 0 ? alpha * (exp(x) - 1) : x``."""

    elementwise = True
    keeps_shape = True
    repeats = True
    attributes = {"alpha": 0.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        alpha = self.float_attr(node, "alpha")
        return [b.map(lambda s, a: _elu(s, a, alpha), operand(b, inputs, 0))]


@register("Selu")
class Selu(Operator):
    """``scale * (x < 0 ? alpha * (exp(x) - 1) : x)``."""

    elementwise = True
    keeps_shape = True
    attributes = {"scale": 0.0, "alpha": 0.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        alpha, scale = self.float_attr(node, "alpha"), self.float_attr(node, "scale")
        return [b.map(lambda s, a: s("mul", _elu(s, a, alpha), s.const(scale, x.dtype)), x)]


@register("Sigmoid")
class Sigmoid(Operator):
    """``1 / (1 + exp(-x))``."""

    elementwise = True
    keeps_shape = True
    repeats = True

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        return [b.map(lambda s, a: s("recip", s("add", s("exp", s("neg", a)), s.const(1, x.dtype))), x)]


@register("TanH")
class TanH(Operator):
    """Hyperbolic tangent."""

    elementwise = True
    keeps_shape = True
    repeats = True

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [b.op("tanh", operand(b, inputs, 0))]
