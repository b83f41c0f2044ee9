"""Winograd's method on bytes, exactly: F(2, 3) along each side with window 3, products of 16-bit integers.

The transform of the inputs adds at most four bytes, that of the weights, times two along each side (its only fraction
is 1/2), at most nine: both fit in 16 bits. Sums of products and the transform of the outputs may wrap around in 32
bits: what they give is 2 or 4 times the result, which fits (:func:`fits`), so that shifting gives it exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.winograd.points import filtering

_WINDOW = 3
_OUTPUTS = 2
_LARGEST_BYTE = 255
_BITS = 31
_LARGEST_WEIGHT = 32767 // 9


def outputs_of(r: int) -> int:
    """Outputs of a tile along a side with windows of ``r``."""
    return _OUTPUTS if r == _WINDOW else 1


def shift_of(rh: int, rw: int) -> int:
    """The power of two that sums are too large by; 0 where there is nothing to gain."""
    return (rh == _WINDOW) + (rw == _WINDOW) if {rh, rw} <= {1, _WINDOW} else 0


def fits(w: npt.NDArray[np.generic]) -> bool:
    """Whether the numbers of weights ``[N, C, rh, rw]`` are small enough for an exact result with any bytes."""
    shift = shift_of(*w.shape[2:])
    if not shift or not w.size:
        return False
    whole = np.abs(w.astype(np.int64))
    sums = whole.reshape(w.shape[0], -1).sum(-1).max()
    return bool(whole.max() <= _LARGEST_WEIGHT and (sums * _LARGEST_BYTE) << shift < 1 << _BITS)


def pack_transformed(w: npt.NDArray[np.generic], nr: int) -> npt.NDArray[np.int16]:
    """``U[position][panel][C / 2][nr][2]`` of weights ``[N, C, rh, rw]``, C even, zeros past the last column."""
    n, c, rh, rw = w.shape
    u = w.astype(np.int32)
    for axis, r in ((2, rh), (3, rw)):
        if r == _WINDOW:
            rows = filtering(_OUTPUTS, r).g
            g = np.array([[int(2 * x) for x in row] for row in rows], np.int32)
            u = np.moveaxis(np.tensordot(u, g, axes=([axis], [1])), -1, axis)
    panels = -(-n // nr)
    wide = np.zeros((panels * nr, c, u.shape[2] * u.shape[3]), np.int16)
    wide[:n] = u.reshape(n, c, -1)
    pairs = wide.reshape(panels, nr, c // 2, 2, -1).transpose(4, 0, 2, 1, 3)
    return np.ascontiguousarray(pairs)


__all__ = ["fits", "outputs_of", "pack_transformed", "shift_of"]
