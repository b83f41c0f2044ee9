"""Parts of fp32 numbers on a matrix unit: which are multiplied, how they are put together.

Parts are bf16 (:mod:`MNN.backends.cpu.lang.parts`) or, where the unit multiplies fp16 and numbers are scaled
(:mod:`MNN.backends.cpu.amx.scale`), two fp16: a number rounded, and what is left. These hold 22 bits, so that what is
lost in rounding and with the product of second parts, 2^-22 of a product at most, is of the size of what fp32 loses in
sums. As with bf16, what is not finite is held by the second part alone, and first parts are then the largest number.
"""

from __future__ import annotations

from MNN.backends.cpu.lang.element import narrow, widen
from MNN.backends.cpu.lang.halves import to_bf16
from MNN.backends.cpu.lang.module import I32, Builder, Value
from MNN.backends.cpu.lang.parts import limited
from MNN.ir.dtype import DType

PRODUCTS = {
    1: ((0, 0),),
    2: ((1, 0), (0, 0), (0, 1)),
    3: ((0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0)),
}
"""Which parts of A and B are multiplied, by number of parts; neighbours share an operand where they can."""

ARITHMETIC = {
    (1, False): "tiles bf16",
    (2, False): "tiles 2xbf16",
    (3, False): "tiles 3xbf16",
    (2, True): "tiles 2xfp16",
}
"""What profiles call the products of so many parts (of fp16?), of which each takes as many products of tiles as
:data:`PRODUCTS` has."""
OF_BYTES = "tiles int8"
"""The same of integers of 8 bits."""
_LARGEST_HALF = 65504.0


def pair(b: Builder, even: Value, odd: Value) -> Value:
    """bf16 pairs (even in the lower half of each i32) of two vectors of f32."""
    lanes = even.type.lanes
    order = [i // 2 + i % 2 * lanes for i in range(2 * lanes)]
    return b.bitcast(b.shuffle(to_bf16(b, even, odd), None, order), I32.vec(lanes))


def halves_of(b: Builder, x: Value) -> tuple[Value, Value]:
    """The two fp16 parts (as integers) of a vector of scaled f32."""
    first = narrow(b, DType.F16, limited(b, x, _LARGEST_HALF))
    return first, narrow(b, DType.F16, b.sub(x, widen(b, DType.F16, first)))


def pair_of_halves(b: Builder, even: Value, odd: Value) -> Value:
    """Pairs, as :func:`pair` makes them, of two vectors of 16-bit integers."""
    words = I32.vec(even.type.lanes)
    return b.or_(b.convert("zext", even, words), b.shl(b.convert("zext", odd, words), 16))
