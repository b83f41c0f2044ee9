"""Arrays of ``BF16X2`` in tests: float32 arrays that hold the bits of the two parts."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from MNN.backends.base.arena import aligned_bytes

GROUP = 32
ERROR = 2.0**-16
"""What two parts leave of a number, at most."""


def empty(*shape: int) -> np.ndarray:
    """Memory of which every thirty-two begins at a multiple of its size; NaN."""
    found = aligned_bytes(4 * int(np.prod(shape))).view(np.float32).reshape(shape)
    found[...] = np.nan
    return found


def encode(x: np.ndarray) -> np.ndarray:
    """The parts of f32 numbers, the last dimension being whole thirty-twos."""
    x = np.asarray(x, np.float32)
    limit = np.float32(float.fromhex("0x1.fep127"))
    limited = np.where(np.abs(x) < limit, x, np.copysign(limit, x))
    first = (limited.view(np.uint32) & 0xFFFF0000).view(np.float32)
    with np.errstate(invalid="ignore"):
        parts = np.stack([first, x - first], -2).reshape(*x.shape[:-1], 2, -1, GROUP)
    out = empty(*x.shape)
    out.view(np.uint16)[...] = (
        np.moveaxis(parts, -3, -2).astype(ml_dtypes.bfloat16).view(np.uint16).reshape(*x.shape[:-1], -1)
    )
    return out


def decode(bits: np.ndarray) -> np.ndarray:
    """The numbers in f64 whose parts these are."""
    halves = np.ascontiguousarray(bits).view(ml_dtypes.bfloat16).reshape(*bits.shape[:-1], -1, 2, GROUP)
    return halves.astype(np.float64).sum(-2).reshape(bits.shape)
