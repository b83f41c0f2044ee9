"""From floats to integers: saturating conversions that stay in vectors, and when rounding gives the integer at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.backends.cpu.lang.element import compute_type
from MNN.backends.cpu.lang.module import F32, I32, Builder, Value
from MNN.ir.dtype import DType
from MNN.ir.scalar import Instr

_EVERYTHING = (-math.inf, math.inf)
Interval = tuple[float, float]


def saturating(b: Builder, x: Value, to: DType) -> Value:
    """A float truncated and saturated to the integers of ``to``; NaN gives 0.

    LLVM's own conversion of that meaning takes vectors apart on x86: there the value is bounded first.
    """
    t = compute_type(to, x.type.lanes)
    if x.type.lanes == 1 or "neon" in b.module.features:
        name = "fptosi" if to.is_signed else "fptoui"
        return b.call(t, f"llvm.{name}.sat.{t.suffix}.{x.type.suffix}", x)
    info = np.iinfo(to.numpy.name)
    low, high = int(info.min), int(info.max)
    most = float(high) if int(float(high)) == high else math.nan
    if x.type.element is F32 and to.size > 2:
        most = float(np.nextafter(np.float32(high + 1), np.float32(0)))
    elif most != most:
        most = math.nextafter(float(high + 1), 0.0)
    if low:
        y = b.select(b.fcmp("ord", x, x), x, 0.0)
        y = b.select(b.fcmp("ogt", y, float(low)), y, float(low))
    else:
        y = b.select(b.fcmp("ogt", x, 0.0), x, 0.0)  # NaN too is not greater
    y = b.select(b.fcmp("olt", y, most), y, most)
    wide = t if to.size >= 4 else I32.vec(x.type.lanes)
    whole = b.convert("fptosi" if to.is_signed or to.size < 4 else "fptoui", y, wide)
    if most < high:
        whole = b.select(b.fcmp("ogt", x, most), high, whole)
    return b.convert("trunc", whole, t)


def to_nearest(b: Builder, x: Value) -> Value:
    """An f32 within an i32's range as i32, rounded half to even; any number for NaN."""
    t = I32.vec(x.type.lanes)
    return b.call(t, f"llvm.lrint.{t.suffix}.{x.type.suffix}", x)


def intervals(code: Sequence[Instr]) -> list[Interval]:
    """Bounds of every result of a scalar program that hold whenever it is a number (not NaN)."""
    found: list[Interval] = []
    for instr in code:
        found.append(_interval(instr, [found[a] for a in instr.args]))
    return found


def _interval(instr: Instr, args: Sequence[Interval]) -> Interval:
    own = _of_type(instr.dtype)
    if instr.op == "const":
        number = float(instr.number())
        return (number, number) if number == number else own
    if instr.op == "cast":
        low, high = args[0]
        if instr.dtype.is_int:  # truncation goes to zero, as does NaN
            low, high = min(_floor(low), 0.0), max(-_floor(-high), 0.0)
            return (low, high) if _holds(instr.dtype, (low, high)) else own
        return (low, high) if own[0] <= low and high <= own[1] else own
    if instr.op in ("min", "max"):
        pick = min if instr.op == "min" else max
        return pick(args[0][0], args[1][0]), pick(args[0][1], args[1][1])
    if instr.op in ("add", "sub"):
        low, high = args[1] if instr.op == "add" else (-args[1][1], -args[1][0])
        found = args[0][0] + low, args[0][1] + high
        return found if instr.dtype.is_float or _holds(instr.dtype, found) else own
    if instr.op == "neg" and instr.dtype.is_float:
        return -args[0][1], -args[0][0]
    if instr.op in ("round", "floor", "ceil", "trunc"):
        return _floor(args[0][0]), -_floor(-args[0][1])
    return own


def _holds(dtype: DType, interval: Interval) -> bool:
    """Whether an integer type has all numbers of an interval: then nothing wraps."""
    if not dtype.is_int:
        return False
    info = np.iinfo(dtype.numpy.name)
    return int(info.min) <= interval[0] and interval[1] <= int(info.max)


def _floor(x: float) -> float:
    return float(math.floor(x)) if math.isfinite(x) else x


def _of_type(dtype: DType) -> Interval:
    """The numbers of a small integer type."""
    if dtype is DType.BOOL:
        return 0.0, 1.0
    if not dtype.is_int or dtype.size > 2 or dtype.is_narrow:
        return _EVERYTHING
    info = np.iinfo(dtype.numpy.name)
    return float(info.min), float(info.max)


__all__ = ["intervals", "saturating", "to_nearest"]
