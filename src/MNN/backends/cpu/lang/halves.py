"""Two vectors of f32 for one of bf16: neighbours at even places and those at odd ones.

An f32 that begins with the bits of a bf16 is that number. So a vector of 32-bit lanes, each with two neighbouring
bf16, gives its upper halves by a mask and its lower ones by a shift: half the instructions (and loads) of widening
element by element. What is combined lane by lane may stay in this order until it is stored.
"""

from __future__ import annotations

from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.module import BF16, F32, I16, I32, Builder, Value
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType


def to_bf16(b: Builder, low: Value, high: Value) -> Value:
    """Two vectors of f32, rounded to one of twice as many bf16 (as integers), in order."""
    lanes = low.type.lanes
    if b.can(can.TWO_TO_BF16, 32 * lanes):
        return b.bitcast(b.perform(can.TWO_TO_BF16, BF16.vec(2 * lanes), high, low), I16.vec(2 * lanes))
    halves = [element.narrow(b, DType.BF16, x) for x in (low, high)]
    return b.shuffle(halves[0], halves[1], range(2 * lanes))


def load_halves(b: Builder, dtype: DType, pointer: Value, lanes: int) -> list[Value]:
    """``2 * lanes`` neighbouring elements in f32: those at even places, those at odd ones."""
    if dtype is DType.BF16:
        pairs, wide = b.load(I32.vec(lanes), pointer, align=dtype.size), F32.vec(lanes)
        return [b.bitcast(b.shl(pairs, 16), wide), b.bitcast(b.and_(pairs, -0x10000), wide)]
    low = element.load(b, dtype, pointer, lanes)
    high = element.load(b, dtype, b.gep(pointer, element.storage_type(dtype), lanes), lanes)
    return [b.shuffle(low, high, range(first, 2 * lanes, 2)) for first in (0, 1)]


def store_halves(b: Builder, dtype: DType, even: Value, odd: Value, pointer: Value) -> None:
    """The counterpart of :func:`load_halves`; bf16 are rounded to nearest even."""
    lanes = even.type.lanes
    order = [i // 2 + i % 2 * lanes for i in range(2 * lanes)]
    if dtype is DType.BF16:
        b.store(b.shuffle(to_bf16(b, even, odd), None, order), pointer)
        return
    for first in (0, lanes):
        part = b.shuffle(even, odd, order[first : first + lanes])
        element.store(b, dtype, part, b.gep(pointer, element.storage_type(dtype), first))
