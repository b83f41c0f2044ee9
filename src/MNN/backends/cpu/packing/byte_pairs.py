"""Constant weights of 8 bits for processors that sum pairs of products of bytes in 16 bits, which saturate (AVX2).

Such a sum is exact for any u8 where the positive weights of the pair are at most 128 together, and the negative ones as
much. So panels of weights are taken apart by groups of four neighbours along the sum: groups whose pairs *fit* in all
columns of a panel stay bytes, and the others are widened to 16 bits, where no sum of two products saturates. Both take
one multiplication for 16 products; bytes take half the loads and sums.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.products.dot8 import DOT4, FEW_ROWS, in_halves
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.schema.files import release

COUNTS = 8
"""Words behind the starts of a panel's sums: how many groups fit, how many do not, and none."""
_LARGEST = 128
_MOST_WIDE = 0.45
"""Share of groups that do not fit from which on all are better widened beforehand."""
_VECTORS = 2
"""Vectors of a panel for which that is counted."""


def sums_byte_pairs(target: Target) -> bool:
    """Whether the target has sums of two products of bytes, and nothing better."""
    return in_halves(target) and target.can(can.PAIRS_BYTES)


def shift_of(a: DType) -> int:
    """What is added to values of A so that they are unsigned."""
    return 128 if a is DType.I8 else 0


def fitting(matrix: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Which groups of four of each column of B ``[K, N]`` fit: ``[K / 4, N]``."""
    pairs = matrix.reshape(-1, 2, matrix.shape[1]).astype(np.int16)
    fits = (pairs.clip(0, None).sum(1) <= _LARGEST) & (pairs.clip(None, 0).sum(1) >= -_LARGEST)
    return np.asarray(fits.reshape(-1, 2, matrix.shape[1]).all(1))


def _fitting_in_panels(matrix: npt.NDArray[np.int8], nr: int) -> npt.NDArray[np.bool_]:
    """The same of panels of ``nr`` columns: ``[K / 4, ceil(N / nr)]``."""
    fits = fitting(matrix)
    panels = -(-fits.shape[1] // nr)
    wide = np.ones((fits.shape[0], panels * nr), np.bool_)
    wide[:, : fits.shape[1]] = fits
    return np.asarray(wide.reshape(-1, panels, nr).all(-1))


def pack_byte_pairs(matrix: npt.NDArray[np.int8], nr: int, shift: int) -> npt.NDArray[np.int8]:
    """B ``[K, N]``, K a multiple of four, in panels of ``nr`` columns, each as long as the longest in bytes.

    First the i32 starts of ``nr`` sums, for values of A moved by ``shift``; :data:`COUNTS` words; for every group of
    four its first row in B, those that fit first; then ``[nr, 4]`` bytes of each that fits, and of each of the others
    ``[nr, 2]`` words of its even rows; behind all of these the same of odd rows.
    """
    k, n = matrix.shape
    groups, panels = k // DOT4, -(-n // nr)
    wide = np.zeros((k, panels * nr), np.int8)
    wide[:, :n] = matrix
    starts = -shift * wide.sum(0, dtype=np.int32)
    fits = _fitting_in_panels(matrix, nr)
    rows = -(-groups // COUNTS) * COUNTS
    head = nr + COUNTS + rows
    words = np.zeros((panels, head + int((nr * (groups + (~fits).sum(0))).max())), np.int32)
    for p, panel in enumerate(words):
        own = wide[:, p * nr : (p + 1) * nr].reshape(groups, DOT4, nr).transpose(0, 2, 1)
        good, bad = np.flatnonzero(fits[:, p]), np.flatnonzero(~fits[:, p])
        panel[:nr] = starts[p * nr : (p + 1) * nr]
        panel[nr : nr + 2] = good.size, bad.size
        panel[nr + COUNTS : nr + COUNTS + groups] = DOT4 * np.concatenate([good, bad])
        parts = [np.ascontiguousarray(own[good]).view(np.int32).reshape(-1)]
        parts += [np.ascontiguousarray(own[bad][..., i::2], np.int16).view(np.int32).reshape(-1) for i in range(2)]
        body = np.concatenate(parts)
        panel[head : head + body.size] = body
    return words.view(np.int8)


def matrix_of(tensor: Tensor, conv: bool) -> npt.NDArray[np.int8]:
    """Weights of one tap, ``[N, K, 1...]`` of a convolution or ``[..., K, N]``, as a matrix ``[K, N]``."""
    data = tensor.const
    assert data is not None
    return np.asarray(data.reshape(data.shape[0], -1).T if conv else data.reshape(-1, data.shape[-1]))


def taken_in_pairs(e: Emitter, tensor: Tensor, conv: bool, rows: int) -> bool:
    """Whether products of bytes with constant weights of one matrix are taken so, for so many ``rows`` of the left
    side; remembered."""
    data = tensor.const
    if data is None or tensor.dtype is not DType.I8 or rows <= FEW_ROWS or not sums_byte_pairs(e.target):
        return False
    shape = tensor.shape
    if conv:
        one, depth = all(size == 1 for size in shape[2:]), shape[1]
    else:
        one, depth = all(size == 1 for size in shape[:-2]), shape[-2]
    if not one or depth % DOT4 or not data.size:
        return False
    key = (e.origin, "in pairs", id(data))
    found = e.pool.kept_choices.get(key)
    if found is None:
        wide = ~_fitting_in_panels(matrix_of(tensor, conv), _VECTORS * e.target.lanes(DType.I32))
        found = e.pool.kept_choices.setdefault(key, bool(wide.mean() <= _MOST_WIDE))
        release(data)  # packing reads it again, when its turn comes
    return bool(found)


__all__ = ["COUNTS", "fitting", "matrix_of", "pack_byte_pairs", "shift_of", "sums_byte_pairs", "taken_in_pairs"]
