"""Results in 8 bits from several vectors of sums at once: bounds that are those of the type come with the packing.

``saturate(round(q) + zero)`` is a pair of bounds, a conversion, a sum and a narrowing store for every vector of i32.
Instructions that pack two vectors into one saturate on the way; of four vectors they make one of bytes, whose groups of
four are then put in order.

What is left of the bounds is the upper one, for a conversion to i32 gives its least number where there is none. It is
left out, too, where scales are so small that ``q`` has one whatever sums are (:func:`fits`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.backends.cpu.lang.module import I8, I16, I32, Builder, Value
from MNN.backends.cpu.math.rounding import to_nearest
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.intervals import Interval, intervals
from MNN.ir.scalar import Body, Instr

_QUARTERS = 4
_SAFE = 1 << 30
"""Numbers that i32 has."""


@dataclass(frozen=True)
class Saturated:
    """The end of a body, ``saturate(round(min(q, most)) + zero)`` in ``dtype``; ``value`` is the number of ``q``. None
    for ``most``: i32 has all numbers of ``q``. ``bounds``: bytes are brought between numbers then, the last one first
    (an activation in the steps of the result). ``whole``: ``q`` is an i32 already."""

    value: int
    most: float | None
    zero: int
    dtype: DType
    bounds: tuple[tuple[str, int], ...] = ()
    whole: bool = False


def saturated_end(body: Body | None, fits: bool = False) -> Saturated | None:
    """How a body ends, if it gives one number of 8 bits and what packing does is all that bounds it from below;
    ``fits``: i32 has all numbers before the bounds (:func:`fits`)."""
    if body is None or len(body.outputs) != 1:
        return None
    code = body.code
    number, bounds = _limited(code, body.outputs[0])
    last, zero = code[number], 0
    if last.op != "cast" or last.dtype not in (DType.I8, DType.U8):
        return None
    info = np.iinfo(last.dtype.numpy.name)
    inner, limits = _limited(code, last.args[0])
    if {op for op, _ in limits} == {"min", "max"} and code[inner].dtype is DType.I32:
        # Numbers of the type all along: what is bounded after packing, which saturates, is what is bounded before
        if any(not int(info.min) <= limit <= int(info.max) for _, limit in limits):
            return None
        return Saturated(inner, None, 0, last.dtype, (*bounds, *limits), whole=True)
    whole = code[last.args[0]]
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
    # A larger bound is one that the packing does not know; one below is no bound.
    if lower[1] > int(info.min) - zero or abs(zero) > 1 << 14 or abs(upper[1]) > 1 << 14:
        return None
    if fits and upper[1] >= int(info.max) - zero:
        return Saturated(lower[0], None, zero, last.dtype, bounds)
    return Saturated(lower[0], upper[1], zero, last.dtype, bounds)


def fits(body: Body | None, arguments: Mapping[int, Interval]) -> bool:
    """Whether i32 has all numbers that such an end of a body bounds, and none of them is NaN; ``arguments``: between
    which numbers arguments lie, where more is known of them than their type."""
    end = saturated_end(body)
    if end is None or body is None:
        return False
    found = intervals(body.code, arguments)
    low, high = found[end.value]
    finite = all(math.isfinite(x) for i, ends in zip(body.code, found, strict=True) if i.dtype.is_float for x in ends)
    return finite and low >= -_SAFE and high <= _SAFE


def _limited(code: Sequence[Instr], number: int) -> tuple[int, tuple[tuple[str, int], ...]]:
    """What an instruction brings between whole constants, and these, the last one first."""
    limits: list[tuple[str, int]] = []
    while code[number].op in ("min", "max") and code[number].dtype.is_int:
        constants = [i for i in code[number].args if code[i].op == "const"]
        others = [i for i in code[number].args if code[i].op != "const"]
        if len(constants) != 1:
            break
        limits.append((code[number].op, int(code[constants[0]].number())))
        number = others[0]
    return number, tuple(limits)


def _bounded(code: Sequence[Instr], number: int, op: str) -> tuple[int, float] | None:
    """What an instruction bounds by a constant, and this."""
    instr = code[number]
    constants = [i for i in instr.args if code[i].op == "const"]
    others = [i for i in instr.args if code[i].op != "const"]
    if instr.op != op or len(constants) != 1 or len(others) != 1:
        return None
    return others[0], float(code[constants[0]].number())


def packs_bytes(target: Target) -> bool:
    """Whether the target has the instructions for its vectors."""
    needed = (can.PACK_I32, can.PACK_I16_UNSIGNED, can.PACK_I16_SIGNED)
    return all(target.can(c, target.vector_bytes * 8) for c in needed)


def pack_bytes(b: Builder, values: Sequence[Value], end: Saturated) -> Value:
    """The results of one, two or four vectors of ``q``, side by side."""
    lanes = values[0].type.lanes
    bytes_ = b.bitcast(packed_in_lanes(b, values, end), I32.vec(lanes))
    order = [_QUARTERS * part + v for v in range(len(values)) for part in range(lanes // _QUARTERS)]
    return b.bitcast(b.shuffle(bytes_, None, order), I8.vec(lanes * len(values)))


def packed_in_lanes(b: Builder, values: Sequence[Value], end: Saturated) -> Value:
    """The results of one, two or four vectors of ``q`` in groups of four: the first group of each, then the second
    ones."""
    words = [packed_words(b, low, high, end) for low, high in zip(values[::2], values[1::2] or values, strict=True)]
    return packed_of_words(b, words[0], words[-1], end)


def packed_words(b: Builder, low: Value, high: Value, end: Saturated) -> Value:
    """Two vectors of ``q``, or one twice, as whole numbers of 16 bits, in groups of four by turns."""
    values = [low] if low is high else [low, high]
    if end.most is not None:
        most = b.const(low.type, end.most)
        values = [b.select(b.fcmp("olt", v, most), v, most) for v in values]
    whole = values if end.whole else [to_nearest(b, v) for v in values]
    # Sums that saturate take units that products need, plain ones do not (Zen 4). Only what is no number of i32, and so
    # has become the least one, would wrap around with a negative number.
    early = end.zero > 0 or (end.zero < 0 and end.most is None)
    if early:
        whole = [b.add(v, end.zero) for v in whole]
    both = b.perform(can.PACK_I32, I16.vec(2 * low.type.lanes), whole[0], whole[-1])
    late = end.zero and not early
    return b.intrinsic("sadd.sat", both, b.const(both.type, end.zero)) if late else both


def packed_of_words(b: Builder, low: Value, high: Value, end: Saturated) -> Value:
    """The bytes of two vectors of :func:`packed_words`, or of one twice."""
    narrow = can.PACK_I16_UNSIGNED if end.dtype is DType.U8 else can.PACK_I16_SIGNED
    found = b.perform(narrow, I8.vec(2 * low.type.lanes), low, high)
    for op, number in reversed(end.bounds):
        name = ("u" if end.dtype is DType.U8 else "s") + op
        found = b.intrinsic(name, found, b.const(found.type, number if number < 128 else number - 256))
    return found


__all__ = [
    "Saturated",
    "fits",
    "pack_bytes",
    "packed_in_lanes",
    "packed_of_words",
    "packed_words",
    "packs_bytes",
    "saturated_end",
]
