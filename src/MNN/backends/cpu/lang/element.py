"""Tensor elements in registers: conversions between what memory holds and what is computed with, and tail accesses.

Booleans are bytes in memory and i1 in registers; f16, bf16 and pairs of bf16 are computed in f32. Where the processor
has no conversion for them it is done with integer operations, never by a library call.
"""

from __future__ import annotations

from dataclasses import dataclass

from MNN.backends.cpu.lang.module import BF16, F16, F32, I1, I8, I16, I32, I64, Builder, Type, Value, memory_type
from MNN.backends.cpu.lang.parts import parts_of
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import PARTED, DType


def compute_type(dtype: DType, lanes: int = 1) -> Type:
    """The type in which values of ``dtype`` are computed."""
    if dtype is DType.BOOL:
        return I1.vec(lanes)
    if dtype in (DType.F16, DType.BF16, DType.BF16X2):
        return F32.vec(lanes)
    return memory_type(dtype, lanes)


def storage_type(dtype: DType, lanes: int = 1) -> Type:
    """The type with which values of ``dtype`` are loaded and stored: 16-bit floats travel as integers. (That of
    ``BF16X2`` only says how far elements are apart.)"""
    if dtype in (DType.F16, DType.BF16):
        return I16.vec(lanes)
    return F32.vec(lanes) if dtype is DType.BF16X2 else memory_type(dtype, lanes)


def _has_half(b: Builder) -> bool:
    return b.can(can.CONVERT_F16)


def widen(b: Builder, dtype: DType, raw: Value) -> Value:
    """From the storage to the compute type."""
    lanes = raw.type.lanes
    if dtype is DType.BOOL:
        return b.icmp("ne", raw, 0)
    if dtype is DType.BF16:
        return b.bitcast(b.shl(b.convert("zext", raw, I32.vec(lanes)), 16), F32.vec(lanes))
    if dtype is not DType.F16:
        return raw
    if _has_half(b):
        return b.convert("fpext", b.bitcast(raw, F16.vec(lanes)), F32.vec(lanes))
    bits = b.convert("zext", raw, I32.vec(lanes))
    magnitude = b.shl(b.and_(bits, 0x7FFF), 13)
    value = b.mul(b.bitcast(magnitude, F32.vec(lanes)), 2.0**112)  # rebias the exponent, subnormals included
    special = b.icmp("uge", magnitude, 0x7C00 << 13)
    out = b.select(special, b.or_(magnitude, 0x7F800000), b.bitcast(value, I32.vec(lanes)))
    return b.bitcast(b.or_(out, b.shl(b.and_(bits, 0x8000), 16)), F32.vec(lanes))


def narrow(b: Builder, dtype: DType, value: Value) -> Value:
    """From the compute to the storage type, rounding to nearest even."""
    lanes = value.type.lanes
    if dtype is DType.BOOL:
        return b.convert("zext", value, I8.vec(lanes))
    if dtype not in (DType.BF16, DType.F16):
        return value
    t16, t32 = I16.vec(lanes), I32.vec(lanes)
    if dtype is DType.F16 and _has_half(b):
        return b.bitcast(b.convert("fptrunc", value, F16.vec(lanes)), t16)
    if dtype is DType.BF16 and b.can(can.TO_BF16, 32 * lanes):  # subnormals may become zeros
        return b.bitcast(b.perform(can.TO_BF16, BF16.vec(lanes), value), t16)
    bits = b.bitcast(value, t32)
    if dtype is DType.BF16:
        rounded = b.add(b.add(bits, 0x7FFF), b.and_(b.lshr(bits, 16), 1))
        quiet = b.or_(bits, 0x400000)
        return b.convert("trunc", b.lshr(b.select(b.fcmp("uno", value, value), quiet, rounded), 16), t16)
    a = b.and_(bits, 0x7FFFFFFF)
    normal = b.lshr(b.add(b.add(a, b.and_(b.lshr(a, 13), 1)), 0xC8000FFF), 13)
    shifted = b.add(b.bitcast(a, F32.vec(lanes)), 0.5)  # 0.5's last place is the smallest subnormal half
    small = b.sub(b.bitcast(shifted, t32), 0x3F000000)
    out = b.select(b.icmp("ult", a, 113 << 23), small, normal)
    out = b.select(b.icmp("uge", a, 0x47800000), 0x7C00, out)
    out = b.select(b.icmp("ugt", a, 0x7F800000), 0x7E00, out)
    return b.convert("trunc", b.or_(out, b.and_(b.lshr(bits, 16), 0x8000)), t16)


@dataclass(frozen=True)
class Tail:
    """The last, partial vector of a row: ``count`` elements (0 <= count <= lanes, i64) and their mask."""

    count: Value
    mask: Value


def make_tail(b: Builder, count: Value, lanes: int) -> Tail:
    return Tail(count, b.prefix_mask(count, lanes))


def masked_at_once(b: Builder, dtype: DType) -> bool:
    """Whether masked accesses of neighbours of this element type are single instructions."""
    return dtype is not DType.BF16X2 and (b.can(can.MASKED_BYTES) or (dtype.size >= 4 and b.can(can.MASKED_WORDS)))


def load(
    b: Builder, dtype: DType, pointer: Value, lanes: int, stride: Value | None = None, tail: Tail | None = None
) -> Value:
    """``lanes`` elements from ``pointer`` on, ``stride`` elements apart (default 1), in the compute type.

    Only the tail's elements are touched when there is one; the other lanes are then zero.
    """
    if dtype is DType.BF16X2:
        _check_neighbours(lanes, stride)
        first, second = (load(b, DType.BF16, at, lanes, None, tail) for at in _places(b, pointer))
        return b.add(first, second)
    t = storage_type(dtype, lanes)
    if lanes == 1:
        raw = b.load(t, pointer)
    elif tail is None:
        raw = b.load(t, pointer) if stride is None else _load_strided(b, t, pointer, stride)
    elif stride is None and masked_at_once(b, dtype):
        raw = b.load_masked(t, pointer, tail.mask)
    else:
        buffer = b.scratch_buffer(t)
        b.store(b.const(t, 0), buffer, check=False)
        with b.loop(0, tail.count) as each:
            at = each.index if stride is None else each.index * stride
            one = b.load(t.element, b.gep(pointer, t.element, at))
            b.store(one, b.gep(buffer, t.element, each.index), check=False)
        raw = b.load(t, buffer, check=False)
    return widen(b, dtype, raw)


def _check_neighbours(lanes: int, stride: Value | None) -> None:
    if lanes > 1 and stride is not None:
        raise ValueError("vectors of pairs of bf16 are of neighbours")


def _places(b: Builder, pointer: Value) -> tuple[Value, Value]:
    """Where the two parts begin of the elements of ``BF16X2`` whose f32 would be at ``pointer``."""
    within = b.and_(b.convert("ptrtoint", pointer, I64), 4 * PARTED - 1)
    first = b.gep(pointer, I8, b.sub(b.const(I64, 0), b.lshr(within, 1)))
    return first, b.gep(first, I16, PARTED)


def _load_strided(b: Builder, t: Type, pointer: Value, stride: Value) -> Value:
    out = b.poison(t)
    for lane in range(t.lanes):
        out = b.insert(out, b.load(t.element, pointer), lane)
        if lane + 1 < t.lanes:
            pointer = b.gep(pointer, t.element, stride)
    return out


def store(
    b: Builder, dtype: DType, value: Value, pointer: Value, stride: Value | None = None, tail: Tail | None = None
) -> None:
    """Stores a value of the compute type, rounded; the counterpart of :func:`load`."""
    if dtype is DType.BF16X2:
        _check_neighbours(value.type.lanes, stride)
        for part, at in zip(parts_of(b, value, 2), _places(b, pointer), strict=True):
            store(b, DType.BF16, part, at, None, tail)
        return
    raw = narrow(b, dtype, value)
    t = raw.type
    if t.lanes == 1:
        b.store(raw, pointer)
    elif tail is None:
        if stride is None:
            b.store(raw, pointer)
            return
        for lane in range(t.lanes):
            b.store(b.extract(raw, lane), pointer)
            if lane + 1 < t.lanes:
                pointer = b.gep(pointer, t.element, stride)
    elif stride is None and masked_at_once(b, dtype):
        b.store_masked(raw, pointer, tail.mask)
    else:
        buffer = b.scratch_buffer(t)
        b.store(raw, buffer, check=False)
        with b.loop(0, tail.count) as each:
            at = each.index if stride is None else each.index * stride
            one = b.load(t.element, b.gep(buffer, t.element, each.index), check=False)
            b.store(one, b.gep(pointer, t.element, at))


def zero_like(b: Builder, dtype: DType, lanes: int) -> Value:
    return b.const(compute_type(dtype, lanes), 0)


def lanes_for(vector_bytes: int, dtypes: list[DType]) -> int:
    """How many lanes a loop over these element types takes: a full vector of the widest one computed with."""
    widest = max((max(compute_type(d).bits // 8, 1) for d in dtypes), default=4)
    return max(vector_bytes // widest, 1)


__all__ = [
    "Tail", "compute_type", "lanes_for", "load", "make_tail", "narrow", "storage_type", "store",
    "widen", "zero_like",
]  # fmt: skip
