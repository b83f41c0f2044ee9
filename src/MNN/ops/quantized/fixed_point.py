"""Products with factors of 31 bits, as the kernels that define TensorFlow Lite's integers have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand
from MNN.ops.inference import infer, symbolic_shape_check

_POINT = 31


@register("FixedPointProduct")
class FixedPointProduct(Operator):
    """``x * factor * 2^shift`` of i32, rounded twice: inputs ``x``, 31 bits of a factor (``factor * 2^31``, i32) and a
    power of two (i32), which broadcast.

    What is to be multiplied by more than 1 is shifted first, in 32 bits. The product with the factor is rounded, halves
    up; what is to be multiplied by less than 1 is divided then and rounded again, halves away from zero
    (``MultiplyByQuantizedMultiplier`` in LiteRT's ``kernels/internal/common.h``).
    """

    broadcasts = True
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, bits, shift = (b.cast(operand(b, inputs, i), DType.I32) for i in range(3))
        known = None if shift.const is None else np.unique(shift.const)
        if known is not None and known.size == 1:
            power = int(known[0])
            return [b.map(lambda s, a, m: product(s, a, m, power), x, bits)]
        if known is not None and known.size:
            left, down = known.max() > 0, known.min() < 0
            if not (left and down) and (left or known.max() < 0):
                return [b.map(lambda s, a, m, n: _by_operand(s, a, m, n, bool(left)), x, bits, shift)]
        return [b.map(_by_any, x, bits, shift)]


def _high(s: BodyBuilder, x: int, bits: int) -> int:
    """The product in 64 bits, divided by 2^31 and rounded."""
    wide = s("mul", s.cast(x, DType.I64), s.cast(bits, DType.I64))
    rounded = s("add", wide, s.const(1 << (_POINT - 1), DType.I64))
    return s.cast(s("shr", rounded, s.const(_POINT, DType.I64)), DType.I32)


def product(s: BodyBuilder, x: int, bits: int, power: int) -> int:
    """``x * bits / 2^31 * 2^power`` of i32, rounded twice, by one power of two."""
    if power > 0:
        return _high(s, s("shl", x, s.const(power, DType.I32)), bits)
    high = _high(s, x, bits)
    return divided(s, high, s.const(-power, DType.I32), s.const(1 << (-power - 1), DType.I32)) if power else high


def divided(s: BodyBuilder, x: int, down: int, half: int) -> int:
    """``x / 2^down``, halves away from zero, for ``down`` from 1."""
    sign = s("shr", x, s.const(_POINT, DType.I32))
    return s("shr", s("add", s("add", x, half), sign), down)


def _by_operand(s: BodyBuilder, x: int, bits: int, power: int, left: bool) -> int:
    """By powers of two that are all above 0 (``left``) or all below."""
    if left:
        return _high(s, s("shl", x, power), bits)
    down = s("and", s("neg", power), s.const(_POINT, DType.I32))  # which says that it is less than 32
    half = s("shl", s.const(1, DType.I32), s("sub", down, s.const(1, DType.I32)))
    return divided(s, _high(s, x, bits), down, half)


def _by_any(s: BodyBuilder, x: int, bits: int, power: int) -> int:
    none, one = s.const(0, DType.I32), s.const(1, DType.I32)
    high = _high(s, s("shl", x, s("max", power, none)), bits)
    down = s("max", s("neg", power), one)
    half = s("shl", one, s("sub", down, one))
    return s("select", s("ge", power, none), high, divided(s, high, down, half))


@infer.rule(FixedPointProduct)
def _infer(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(DType.I32, infer.broadcast([infer.sizes(infer.operand(node, i)) for i in range(3)]))]


@symbolic_shape_check.rule(FixedPointProduct)
def _fits(node: Node, shapes: list[symbolic_shape_check.Sizes | None]) -> bool:
    return symbolic_shape_check.broadcasts(shapes)


__all__ = ["FixedPointProduct", "divided", "product"]
