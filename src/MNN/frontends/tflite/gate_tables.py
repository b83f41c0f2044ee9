"""The sigmoid and the hyperbolic tangent of 16-bit numbers as fixed-point kernels compute them, for all of these.

A number's quarters and halves choose factors of ``exp``, a polynomial of fourth degree gives the rest, and Newton's
steps divide (``exp_on_negative_values``, ``logistic`` and ``tanh`` in gemmlowp's ``fixedpoint/fixedpoint.h``, which
LiteRT's integer LSTM takes).
"""

from __future__ import annotations

from functools import cache

import numpy as np

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
_EXPONENTIALS = {
    -2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242,
}  # fmt: skip
"""``exp(-2^n)`` in 31 bits."""
_MOST_WHOLE = 5
"""Numbers of more bits before the point than this are taken for minus infinity from -32 on."""


def _over(x: np.ndarray, bits: int) -> np.ndarray:
    """``x / 2^bits``, halves away from zero."""
    made: np.ndarray = (x + (1 << (bits - 1)) - (x < 0)) >> bits
    return made


def _constant(number: int) -> int:
    """31 bits of a number in 15."""
    return (number + (1 << 15) - (number < 0)) >> 16


def _times(x: np.ndarray, y: np.ndarray | int) -> np.ndarray:
    """``x * y / 2^15``, rounded and saturated."""
    made: np.ndarray = np.minimum((x * y + (1 << 14)) >> 15, _HIGH)
    return made


def _left(x: np.ndarray, bits: int) -> np.ndarray:
    made: np.ndarray = np.clip(x << bits, _LOW, _HIGH)
    return made


def _exp(x: np.ndarray, whole: int) -> np.ndarray:
    """``exp`` of what is not positive, with ``whole`` bits before the point."""
    fraction = 15 - whole
    quarter = 1 << (fraction - 2)
    within = (x & (quarter - 1)) - quarter
    near = _left(within, whole) + (1 << 12)  # around -1/8
    second = _times(near, near)
    third, fourth = _times(second, near), _times(second, second)
    rest = _over(_times(_over(fourth, 2) + third, _constant(715827883)) + second, 1)
    middle = _constant(1895147668)
    found = np.minimum(middle + _times(near + rest, middle), _HIGH)
    left = within - x
    for exponent, factor in _EXPONENTIALS.items():
        if whole > exponent:
            found = np.where(left & (1 << (fraction + exponent)), _times(found, _constant(factor)), found)
    if whole > _MOST_WHOLE:
        found = np.where(x < -(32 << fraction), 0, found)
    return np.where(x == 0, _HIGH, found)


def _reciprocal(x: np.ndarray) -> np.ndarray:
    """``2 / (1 + x)`` for ``x`` from 0 to 1, with 13 bits behind the point."""
    half = (x + _HIGH + 1) >> 1
    found: np.ndarray = _constant(1515870810) + _times(half, _constant(-1010580540))
    for _ in range(3):
        found = found + _left(_times(found, (1 << 13) - _times(half, found)), 2)
    return found


def _all() -> np.ndarray:
    return np.arange(_LOW, _HIGH + 1, dtype=np.int64)


@cache
def sigmoids() -> np.ndarray:
    """``sigmoid(x / 2^12)`` times 2^15, for ``x`` from -2^15: int16[65536]."""
    x = _all()
    positive = _left(_reciprocal(_exp(-np.abs(x), 3)), 1)
    return np.where(x == 0, 1 << 14, np.where(x > 0, positive, _HIGH - positive)).astype(np.int16)


@cache
def tangents(whole: int) -> np.ndarray:
    """``tanh(x / 2^(15 - whole))`` times 2^15, for ``x`` from -2^15: int16[65536]."""
    x = _all()
    size = _left(_reciprocal(_exp(-np.abs(x), whole + 1)) - (1 << 13), 2)
    return np.where(x == 0, 0, np.where(x > 0, size, -size)).astype(np.int16)
