"""Winograd's method on bytes, exactly: F(2, 3) and F(4, 3) along each side with window 3, products of 16-bit integers.

Points are whole numbers, and so are both transforms (:func:`~.points.whole_filtering`): that of weights is multiplied
by what its fractions have in common, 2 or 24 along each side. In 16 bits fit the transform of the inputs (F(4, 3): at
most fifty bytes of each sign) and that of weights of 8 bits (at most 144 of them).

Sums of products and the transform of the outputs may wrap around in 32 bits. What they give is the result times a
factor, whose odd part has an inverse among numbers of 32 bits and whose power of two is shifted out: exactly the result
where that has as many bits less than 32 (:func:`fits`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.winograd.points import Filtering, whole_filtering

_WINDOW = 3
_OUTPUTS = (2, 4)
LARGER = 4
"""Outputs of a tile along a side that gain where pairs of numbers take as long as four bytes."""
_LARGEST_BYTE, _LARGEST_SIGNED = 255, 128
_BITS = 32
_LARGEST = 32767


def sizes(rh: int, rw: int) -> Iterator[tuple[int, int]]:
    """Outputs of the tiles that there are for a window."""
    if {rh, rw} <= {1, _WINDOW} and rh * rw > 1:
        for m in _OUTPUTS:
            yield tuple(m if r == _WINDOW else 1 for r in (rh, rw))  # type: ignore[misc]


def factor_of(mh: int, mw: int, rh: int, rw: int) -> int:
    """What results are multiplied by; 0 where there is nothing to gain."""
    if (mh, mw) not in sizes(rh, rw):
        return 0
    return math.prod(whole_filtering(m, r)[1] for m, r in ((mh, rh), (mw, rw)))


def to_take_back(factor: int) -> tuple[int, int]:
    """What to multiply by, of 32 bits, and how far to shift then, to divide by a factor."""
    shift = (factor & -factor).bit_length() - 1
    inverse = pow(factor >> shift, -1, 1 << _BITS)
    return inverse - (1 << _BITS if inverse >> (_BITS - 1) else 0), shift


def fits(w: npt.NDArray[np.generic], mh: int, mw: int) -> bool:
    """Whether the numbers of weights ``[N, C, rh, rw]`` are small enough for an exact result with any bytes."""
    rh, rw = w.shape[2:]
    factor = factor_of(mh, mw, rh, rw)
    if not factor or not w.size:
        return False
    whole = w.astype(np.int64).reshape(w.shape[0], -1)
    largest = int(np.abs(whole).max()) * math.prod(
        _largest_sum(whole_filtering(*side)[0]) for side in ((mh, rh), (mw, rw))
    )
    above, below = (int((sign * whole).clip(0).sum(-1).max()) for sign in (1, -1))
    sums = max(_LARGEST_BYTE * max(above, below), _LARGEST_SIGNED * int(np.abs(whole).sum(-1).max()))
    return largest <= _LARGEST and sums < 1 << (_BITS - 1 - to_take_back(factor)[1])


def _largest_sum(f: Filtering) -> int:
    return int(max(sum(map(abs, row)) for row in f.g))


def pack_transformed(w: npt.NDArray[np.generic], nr: int, mh: int, mw: int) -> npt.NDArray[np.int16]:
    """``U[position][panel][C / 2][nr][2]`` of weights ``[N, C, rh, rw]``: zeros past the last column, and where C is
    odd past the last channel."""
    n, c, rh, rw = w.shape
    u = w.astype(np.float32)  # whole numbers of 16 bits are exact there, and such products are fast
    for axis, m, r in ((2, mh, rh), (3, mw, rw)):
        g = np.array([[int(x) for x in row] for row in whole_filtering(m, r)[0].g], np.float32)
        u = np.moveaxis(np.tensordot(u, g, axes=([axis], [1])), -1, axis)
    panels, pairs = -(-n // nr), -(-c // 2)
    wide = np.zeros((panels * nr, 2 * pairs, u.shape[2] * u.shape[3]), np.int16)
    wide[:n, :c] = u.reshape(n, c, -1)
    packed = wide.reshape(panels, nr, pairs, 2, -1).transpose(4, 0, 2, 1, 3)
    return np.ascontiguousarray(packed)


__all__ = ["LARGER", "factor_of", "fits", "pack_transformed", "sizes", "to_take_back"]
