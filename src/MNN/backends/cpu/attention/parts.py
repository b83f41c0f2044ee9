"""What both kernels of a cache in pages are made of."""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.lang.module import I32, Builder, Value
from MNN.ir.dtype import DType


def across(b: Builder, x: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """The lanes of a vector, their number a power of two, combined to one number."""
    lanes = x.type.lanes
    if lanes == 1:
        return x
    while lanes > 2:
        lanes //= 2
        x = combine(b.shuffle(x, None, range(lanes)), b.shuffle(x, None, range(lanes, 2 * lanes)))
    return combine(b.extract(x, 0), b.extract(x, 1))


def greater(b: Builder, x: Value, y: Value) -> Value:
    """The larger one."""
    return b.select(b.fcmp("ogt", x, y), x, y)


def lanes_of(size: int, most: int) -> int:
    """The most lanes, up to ``most``, of which vectors cover ``size`` numbers without a rest."""
    lanes = most
    while size % lanes:
        lanes //= 2
    return lanes


def absolute(b: Builder, x: Value) -> Value:
    """Without its sign."""
    return b.intrinsic("fabs", x)


_MAGIC = 1.5 * 2.0**23
"""A sum with it has the nearest integer in its last bits."""


def word_codes(b: Builder, x: Value) -> Value:
    """The nearest integers to f32 numbers of less than 2^21, in the lower 16 bits of i32 ones; any for others. (A
    conversion of NaN would have no meaning.)"""
    return b.bitcast(b.add(x, _MAGIC), I32.vec(x.type.lanes))


def largest_f16(b: Builder, dtype: DType, x: Value) -> Value:
    """``x``, within the range of f16 where that is its type."""
    if dtype is not DType.F16:
        return x
    most = b.const(x.type, 65504.0)
    x = b.select(b.fcmp("ogt", x, most), most, x)
    return b.select(b.fcmp("olt", x, -65504.0), b.const(x.type, -65504.0), x)


__all__ = ["absolute", "across", "greater", "lanes_of", "largest_f16", "word_codes"]
