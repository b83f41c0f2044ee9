"""What both kernels of a cache in pages are made of."""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.lang.module import F32, I8, I32, Builder, Value
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


def numbers(b: Builder, codes: Value) -> Value:
    """Codes in i32 as f32."""
    return b.convert("sitofp", codes, F32.vec(codes.type.lanes))


def code_vectors(b: Builder, pointer: Value, lanes: int, bits: int) -> list[Value]:
    """The numbers that ``lanes`` bytes are codes of: one vector, or two with 4 bits, those of the lower bits first."""
    wide = b.convert("zext", b.load(I8.vec(lanes), pointer), I32.vec(lanes))
    if bits == 8:
        return [numbers(b, wide)]
    return [numbers(b, b.and_(wide, 15)), numbers(b, b.lshr(wide, 4))]


def largest_f16(b: Builder, dtype: DType, x: Value) -> Value:
    """``x``, within the range of f16 where that is its type."""
    if dtype is not DType.F16:
        return x
    most = b.const(x.type, 65504.0)
    x = b.select(b.fcmp("ogt", x, most), most, x)
    return b.select(b.fcmp("olt", x, -65504.0), b.const(x.type, -65504.0), x)


__all__ = ["across", "code_vectors", "greater", "lanes_of", "largest_f16", "numbers"]
