"""Between which numbers the results of a scalar program lie."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.scalar import Instr

Interval = tuple[float, float]
_EVERYTHING = (-math.inf, math.inf)


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


__all__ = ["Interval", "intervals"]
