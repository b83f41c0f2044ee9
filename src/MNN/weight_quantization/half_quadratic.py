"""Half-quadratic quantisation: where the integers begin, chosen so that few weights are far off.

Badri and Shaji, "Half-Quadratic Quantization of Large Machine Learning Models" (2023). The error is measured by the
p-norm with p below 1, which bears a few outliers for many weights that are near; auxiliary errors turn its minimum
into two steps with closed forms, which take turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
_NORM = 0.7
_ROUNDS = 20
_BETA, _GROWTH = 10.0, 1.01
"""Of the paper: how strongly auxiliary errors are held to the true ones, and by what that grows each round."""


def refined_minimum(rows: Array, least: Array, scale: Array, bits: int) -> Array:
    """The value of the lowest integer of each row, float32 ``[rows]``, for weights ``rows`` ``[rows, cols]``.

    Begins at ``least`` with steps of ``scale`` (both ``[rows]``), which stays; of all rounds each row keeps the best.
    """
    data = np.asarray(rows, np.float64)
    step = np.where(scale > 0, scale, 1.0).astype(np.float64)[:, None]
    most = (1 << bits) - 1
    zero = -np.asarray(least, np.float64)[:, None] / step
    best, lowest, beta = zero, np.full_like(zero, np.inf), _BETA
    for _ in range(_ROUNDS + 1):
        levels = np.clip(np.rint(data / step + zero), 0, most)
        error = data - (levels - zero) * step
        found = (np.abs(error) ** _NORM).mean(axis=1, keepdims=True)
        best, lowest = np.where(found < lowest, zero, best), np.minimum(found, lowest)
        zero = (levels - (data - _shrunk(error, beta)) / step).mean(axis=1, keepdims=True)
        beta *= _GROWTH
    refined: Array = (-best * step)[:, 0].astype(np.float32)
    return np.where(scale > 0, refined, least).astype(np.float32)


def _shrunk(error: Array, beta: float) -> Array:
    """What minimises ``|e|^p + beta/2 (e - error)^2``, by the approximation of the paper."""
    size = np.abs(error)
    with np.errstate(divide="ignore"):
        less = np.where(size > 0, size ** (_NORM - 1), np.inf) / beta
    kept: Array = np.sign(error) * np.maximum(size - less, 0)
    return kept
