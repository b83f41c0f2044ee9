"""An fp32 number as a sum of bf16 numbers, for products of full or nearly full precision on a bf16 matrix unit.

``a = a1 + a2 (+ a3)``, where every part but the last takes 8 bits of what is left. Two parts hold 16 to 17 bits, three
all 24. Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations" (2019), has the idea. With ``parts`` = 1 the number is rounded to the nearest.

No partial products may meet as inf - inf where fp32 has no NaN. So the left side's parts are truncated: they have the
sign of ``a``. The right side's are rounded, which leaves half as much to the later parts, where these are then at most
1, so that their products are finite; numbers from 256 on are truncated too.

What is not finite is held by the last part alone, whose products are with the other side's first part only: a clamp
keeps the parts before it at the largest bf16 (so that nothing is multiplied by zero that was not zero), and the
difference that is left is then the infinity or NaN itself.
"""

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

_LARGEST = float.fromhex("0x1.fep127")
"""The largest bf16."""
MEND = 1.0 + 0.0029
"""With two parts the product a2 * b2 is left out. It is 0 to 2^-7 of a1 * b2, and 0.0029 in the mean over mantissas of
the usual (logarithmic) distribution: b2 is enlarged by as much, which leaves less, with a mean of zero."""
_ROUNDED_BELOW = 0x43800000
"""The bits of 256."""


def parts_of(b: Builder, x: Value, parts: int, right: bool = False) -> list[Value]:
    """The parts of a vector of f32 (of the right side?), as f32 of which the last is yet to be rounded to bf16."""
    found = []
    for _ in range(parts - 1):
        t = x.type
        limited = b.select(b.fcmp("olt", x, _LARGEST), x, _LARGEST)
        limited = b.select(b.fcmp("ogt", limited, -_LARGEST), limited, -_LARGEST)
        bits = b.bitcast(limited, I32.vec(t.lanes))
        if right:
            small = b.icmp("ult", b.and_(bits, 0x7FFFFFFF), _ROUNDED_BELOW)
            bits = b.select(small, b.add(bits, 0x8000), bits)
        bits = b.and_(bits, -0x10000)
        found.append(b.bitcast(bits, t))
        x = b.sub(x, found[-1])
    if right and parts == 2:
        x = b.mul(x, MEND)
    return [*found, x]


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
