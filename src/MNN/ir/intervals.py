"""Between which numbers the results of a scalar program lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.scalar import Instr

Interval = tuple[float, float]
_MANTISSA = {DType.F64: 53, DType.F32: 24, DType.F16: 11, DType.BF16: 8}
"""Bits of whole numbers that float types have all of."""
_EVERYTHING = (-math.inf, math.inf)


def intervals(code: Sequence[Instr], arguments: Mapping[int, Interval] | None = None) -> list[Interval]:
    """Bounds of every result of a scalar program that hold whenever it is a number (not NaN). ``arguments``: those of
    arguments, by number, where more is known of them than their type."""
    found: list[Interval] = []
    for instr in code:
        known = (arguments or {}).get(int(instr.value)) if instr.op == "arg" else None
        found.append(known or _interval(instr, [found[a] for a in instr.args]))
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
        if instr.dtype.is_float:
            return _rounded((low, high), instr.dtype)
        return (low, high) if own[0] <= low and high <= own[1] else own
    if instr.op in ("min", "max"):
        pick = min if instr.op == "min" else max
        return pick(args[0][0], args[1][0]), pick(args[0][1], args[1][1])
    if instr.op in ("add", "sub"):
        low, high = args[1] if instr.op == "add" else (-args[1][1], -args[1][0])
        found = args[0][0] + low, args[0][1] + high
        if instr.dtype.is_float:
            return _rounded(found, instr.dtype)
        return found if _holds(instr.dtype, found) else own
    if instr.op in ("mul", "fma") and instr.dtype.is_float:
        low, high = _product(args[0], args[1])
        if instr.op == "fma":
            low, high = low + args[2][0], high + args[2][1]
        step = 2.0 ** -_MANTISSA.get(instr.dtype, 1)
        return low - abs(low) * step, high + abs(high) * step
    if instr.op == "neg" and instr.dtype.is_float:
        return -args[0][1], -args[0][0]
    if instr.op == "round":  # half to even, as Python has it
        low, high = (float(round(x)) if math.isfinite(x) else x for x in args[0])
        return low, high
    if instr.op in ("floor", "ceil", "trunc"):
        return _floor(args[0][0]), -_floor(-args[0][1])
    return own


def _rounded(interval: Interval, dtype: DType) -> Interval:
    """Bounds of numbers that are rounded to a float type: rounded as they are, for rounding keeps their order, or by as
    much as it can be outwards."""
    low, high = interval
    if dtype is DType.F32:
        with np.errstate(over="ignore"):
            return float(np.float32(low)), float(np.float32(high))
    step = 2.0 ** -_MANTISSA.get(dtype, 1)
    exact = [math.isinf(x) or (x.is_integer() and abs(x) * step <= 1) for x in interval]
    return low if exact[0] else low - abs(low) * step, high if exact[1] else high + abs(high) * step


def _product(x: Interval, y: Interval) -> Interval:
    ends = [a * b for a in x for b in y]
    return _EVERYTHING if any(map(math.isnan, ends)) else (min(ends), max(ends))


def _holds(dtype: DType, interval: Interval) -> bool:
    """Whether an integer type has all numbers of an interval: then nothing wraps."""
    if not dtype.is_int:
        return False
    info = np.iinfo(dtype.numpy.name)
    return int(info.min) <= interval[0] and interval[1] <= int(info.max)


def _floor(x: float) -> float:
    return float(math.floor(x)) if math.isfinite(x) else x


def _of_type(dtype: DType) -> Interval:
    """The numbers of an integer type that f64 has all of."""
    if dtype is DType.BOOL:
        return 0.0, 1.0
    if not dtype.is_int or dtype.size > 4 or dtype.is_narrow:
        return _EVERYTHING
    info = np.iinfo(dtype.numpy.name)
    return float(info.min), float(info.max)


__all__ = ["Interval", "intervals"]
