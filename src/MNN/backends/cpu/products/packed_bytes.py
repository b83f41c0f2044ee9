"""Results in 8 bits from several vectors of sums at once: bounds that are those of the type come with the packing.

``saturate(round(q) + zero)`` is a pair of bounds, a conversion, a sum and a narrowing store for every vector of i32.
Instructions that pack two vectors into one saturate on the way; of four vectors they make one of bytes, whose groups of
four are then put in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.backends.cpu.lang.module import I8, I16, I32, Builder, Value
from MNN.backends.cpu.math.rounding import to_nearest
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, Instr

_BITS = 512
_QUARTERS = 4


@dataclass(frozen=True)
class Saturated:
    """The end of a body, ``saturate(round(min(q, most)) + zero)`` in ``dtype``; ``value`` is the number of ``q``."""

    value: int
    most: float
    zero: int
    dtype: DType


def saturated_end(body: Body | None) -> Saturated | None:
    """How a body ends, if it gives one number of 8 bits and what packing does is all that bounds it from below."""
    if body is None or len(body.outputs) != 1:
        return None
    code = body.code
    last = code[body.outputs[0]]
    if last.op != "cast" or last.dtype not in (DType.I8, DType.U8):
        return None
    whole, zero = code[last.args[0]], 0
    if whole.op == "add" and whole.dtype is DType.I32:
        numbers = [i for i in whole.args if code[i].op == "const"]
        others = [i for i in whole.args if code[i].op != "const"]
        if len(numbers) != 1 or len(others) != 1:
            return None
        zero, whole = int(code[numbers[0]].number()), code[others[0]]
    if whole.op != "cast" or whole.dtype is not DType.I32:
        return None
    rounded = code[whole.args[0]]
    if rounded.op != "round" or rounded.dtype is not DType.F32:
        return None
    upper = _bounded(code, rounded.args[0], "min")
    lower = None if upper is None else _bounded(code, upper[0], "max")
    if upper is None or lower is None:
        return None
    least = -128 if last.dtype is DType.I8 else 0
    # A larger bound is one that the packing does not know; one below is no bound.
    if lower[1] > least - zero or abs(zero) > 1 << 14 or abs(upper[1]) > 1 << 14:
        return None
    return Saturated(lower[0], upper[1], zero, last.dtype)


def _bounded(code: Sequence[Instr], number: int, op: str) -> tuple[int, float] | None:
    """What an instruction bounds by a constant, and this."""
    instr = code[number]
    constants = [i for i in instr.args if code[i].op == "const"]
    others = [i for i in instr.args if code[i].op != "const"]
    if instr.op != op or len(constants) != 1 or len(others) != 1:
        return None
    return others[0], float(code[constants[0]].number())


def packs_bytes(target: Target) -> bool:
    """Whether the target has the instructions."""
    needed = (can.PACK_I32, can.PACK_I16_UNSIGNED, can.PACK_I16_SIGNED)
    return target.vector_bytes * 8 == _BITS and all(target.can(c, _BITS) for c in needed)


def pack_bytes(b: Builder, values: Sequence[Value], end: Saturated) -> Value:
    """The results of two or four vectors of ``q``, side by side."""
    lanes = values[0].type.lanes
    bytes_ = b.bitcast(packed_in_lanes(b, values, end), I32.vec(lanes))
    order = [_QUARTERS * part + v for v in range(len(values)) for part in range(lanes // _QUARTERS)]
    return b.bitcast(b.shuffle(bytes_, None, order), I8.vec(lanes * len(values)))


def packed_in_lanes(b: Builder, values: Sequence[Value], end: Saturated) -> Value:
    """The results of two or four vectors of ``q`` in groups of four: the first group of each, then the second ones."""
    lanes = values[0].type.lanes
    most = b.const(values[0].type, end.most)
    whole = [to_nearest(b, b.select(b.fcmp("olt", v, most), v, most)) for v in values]
    words = []
    for low, high in zip(whole[::2], whole[1::2], strict=True):
        both = b.perform(can.PACK_I32, I16.vec(2 * lanes), low, high)
        words.append(b.intrinsic("sadd.sat", both, b.const(both.type, end.zero)) if end.zero else both)
    narrow = can.PACK_I16_UNSIGNED if end.dtype is DType.U8 else can.PACK_I16_SIGNED
    return b.perform(narrow, I8.vec(4 * lanes), words[0], words[-1])


__all__ = ["Saturated", "pack_bytes", "packed_in_lanes", "packs_bytes", "saturated_end"]
