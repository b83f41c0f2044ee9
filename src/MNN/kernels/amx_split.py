"""Parts of fp32 numbers (:mod:`MNN.kernels.parts`) on a bf16 matrix unit: which are multiplied, how they are put
together."""

from __future__ import annotations

from MNN.ir.dtype import DType
from MNN.kernels.element import narrow
from MNN.kernels.lang import BF16, I16, I32, Builder, Value

PRODUCTS = {
    1: ((0, 0),),
    2: ((1, 0), (0, 0), (0, 1)),
    3: ((0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0)),
}
"""Which parts of A and B are multiplied, by number of parts; neighbours share an operand where they can."""

ARITHMETIC = {1: "tiles bf16", 2: "tiles 2xbf16", 3: "tiles 3xbf16"}
"""What profiles call the products of so many parts, of which each takes as many products of tiles as :data:`PRODUCTS`
has."""


def to_bf16(b: Builder, low: Value, high: Value) -> Value:
    """Two vectors of f32, rounded to one of twice as many bf16 (as integers), in order."""
    lanes = low.type.lanes
    if lanes == 16 and "avx512bf16" in b.module.features:
        both = b.call(BF16.vec(32), "llvm.x86.avx512bf16.cvtne2ps2bf16.512", high, low)
        return b.bitcast(both, I16.vec(32))
    halves = [narrow(b, DType.BF16, x) for x in (low, high)]
    return b.shuffle(halves[0], halves[1], range(2 * lanes))


def high_half(b: Builder, x: Value) -> Value:
    """The bf16 nearest to f32 ``x``, in the upper 16 bits of i32."""
    lanes = x.type.lanes
    half = b.convert("zext", narrow(b, DType.BF16, x), I32.vec(lanes))
    return b.shl(half, 16)


def pair(b: Builder, even: Value, odd: Value) -> Value:
    """bf16 pairs (even in the lower half of each i32) of two vectors of f32."""
    return b.or_(high_half(b, odd), b.lshr(high_half(b, even), 16))
