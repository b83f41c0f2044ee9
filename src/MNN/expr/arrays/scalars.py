"""Plain numbers of formulas as arrays, which come again."""

from __future__ import annotations

from math import copysign
from typing import Any

import numpy as np

_MOST = 1 << 10
"""Numbers of formulas that are kept as arrays."""
SCALARS: dict[float | int, np.ndarray] = {}
"""Plain numbers as arrays of f32, which generated code looks into."""
_wholes: dict[int, np.ndarray] = {}
_ZERO, _MINUS_ZERO = np.asarray(0.0, np.float32), np.asarray(-0.0, np.float32)
"""Which a dictionary does not tell apart."""


def scalar(number: Any) -> np.ndarray | None:
    """A plain number that meets f32, as an array; None for what is none, and for whole numbers of more than 24 bits."""
    kind = type(number)
    if kind is not float and kind is not int:
        return None
    found = SCALARS.get(number)
    if found is None:
        if not number:
            return _ZERO if kind is int or copysign(1.0, number) > 0 else _MINUS_ZERO
        if kind is int and not -(1 << 24) <= number <= 1 << 24:
            return None
        with np.errstate(all="ignore"):
            found = np.asarray(number, np.float32)
        if len(SCALARS) < _MOST:
            SCALARS[number] = found
    return found


def whole(number: Any) -> np.ndarray | None:
    """A plain whole number that meets int32, as an array; None for what is none of its range."""
    if type(number) is not int:
        return None
    found = _wholes.get(number)
    if found is None:
        if not -(1 << 31) <= number < 1 << 31:
            return None
        found = np.asarray(number, np.int32)
        if len(_wholes) < _MOST:
            _wholes[number] = found
    return found


__all__ = ["SCALARS", "scalar", "whole"]
