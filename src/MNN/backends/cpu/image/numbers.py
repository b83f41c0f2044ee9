"""Pixels in registers: from the type in memory to the type that is computed with, and back."""

from __future__ import annotations

from MNN.backends.cpu.lang.element import compute_type
from MNN.backends.cpu.lang.module import F32, I32, Builder, Value
from MNN.backends.cpu.math.rounding import nearest, to_nearest
from MNN.ir.dtype import DType

RANGES = {DType.U8: (0, 255), DType.I8: (-128, 127), DType.U16: (0, 65535), DType.I16: (-32768, 32767),
          DType.I32: (-(1 << 31), (1 << 31) - 1)}  # fmt: skip
"""The types of whole numbers that pictures are of."""


def widened(b: Builder, x: Value, source: DType, to: DType) -> Value:
    """Pixels of type ``source`` in the type ``to``, which holds all of them."""
    if source is to:
        return x
    lanes = x.type.lanes
    extend = "sext" if source.is_signed else "zext"
    if to is not DType.F32:
        return b.convert(extend, x, compute_type(to, lanes))
    return b.convert("sitofp", b.convert(extend, x, I32.vec(lanes)), F32.vec(lanes))


def rounded(b: Builder, x: Value, to: DType) -> Value:
    """An f32 as a pixel of type ``to``: the nearest one, halves to the even one."""
    if to is DType.F32:
        return x
    if to.size < 4:
        return nearest(b, x, to)
    low, high = (float(n) for n in RANGES[to])
    x = b.select(b.fcmp("ogt", x, low), x, low)  # NaN too becomes the lowest
    x = b.select(b.fcmp("olt", x, high), x, high)
    return b.convert("trunc", to_nearest(b, x), compute_type(to, x.type.lanes))


def limited(b: Builder, x: Value, source: DType, to: DType) -> Value:
    """A whole number of type ``source`` as the nearest one of type ``to``, of no more bits."""
    low, high = RANGES[to]
    own_low, own_high = RANGES[source]
    if source.is_signed:
        x = b.intrinsic("smax", x, b.const(x.type, low)) if low > own_low else x
        x = b.intrinsic("smin", x, b.const(x.type, high)) if high < own_high else x
    elif high < own_high:
        x = b.intrinsic("umin", x, b.const(x.type, high))
    return b.convert("trunc", x, compute_type(to, x.type.lanes))


__all__ = ["RANGES", "limited", "rounded", "widened"]
