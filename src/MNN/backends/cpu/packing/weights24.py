"""Weights of 24 bits for products of one row, which take as long as their weights come from memory.

A column's numbers are integers of 24 bits times a scale of its own, which is a quarter less to read than f32. What
rounding to these adds to a sum's error stays below what the sum's own rounding has, or the weights are left as they are
(:func:`fits`): sums of K products in f32 are wrong by about ``2^-24 sqrt(K) / 3`` of their size, and rounding weights
to 24 bits by ``2^-23 * 0.29`` times the ratio of the column's largest to its root mean square.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.lang.module import F32, I8, I32, Builder, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can

BYTES = 3
"""Of a weight."""
SCALE_BYTES = 4
"""Of a column's scale, before its weights."""
SPARE = 64
"""Bytes behind the last panel that are read."""
LEAST = 1 << 17
"""Bytes of f32 weights below which they are rarely far away."""
_THIRD_LEVEL = 32 << 20
"""Bytes of weights that a third-level cache holds from one run to the next."""
_PART = 16
"""Bytes of the parts of a vector within which AVX2 puts bytes in place."""
_WIDTHS = (4, 6, 5)
_LARGEST = (1 << 23) - 1
_UNEVEN = 0.5
"""The largest of a column may be this much, times the square root of their number, of the root mean square."""


def has_weights24(target: Target) -> bool:
    """Whether bytes are put in place by one or two instructions, so that arithmetic stays hidden behind the reading."""
    return target.can(can.MOVE_BYTES)


def pays(target: Target, nbytes: int) -> bool:
    """Whether a model with so many bytes of f32 weights reads them from so far away that arithmetic stays hidden.

    Near ones are read as they are: a second-level cache gives them faster than they can be decoded. Where a full vector
    takes two passes (Zen 4: 4.3 weights a cycle), so does a third-level one.
    """
    return nbytes > (_THIRD_LEVEL if target.split_vectors else target.l2_bytes)


def fits(matrix: npt.NDArray[np.float32]) -> bool:
    """Whether rounding ``[K, N]`` to 24 bits is no more than the rounding of sums; False for infinities and NaN."""
    k = matrix.shape[0]
    largest = np.maximum(matrix.max(axis=0), -matrix.min(axis=0))
    mean = np.sqrt(np.einsum("kn,kn->n", matrix, matrix) / k)
    small = largest > 2.0**-50
    fine = (largest <= _UNEVEN * np.sqrt(k) * mean) & small & (largest < 2.0**50)
    return bool(np.all(fine | (largest == 0)))


def weights24_tile(n: int, lanes: int) -> tuple[int, int]:
    """The register tile for one row of ``n`` columns: enough vectors to sum at once, the fewest for padding."""
    vectors = -(-n // lanes)
    return 1, min(_WIDTHS, key=lambda nv: -(-vectors // nv) * nv)


def panel_bytes(k: int, nr: int) -> int:
    """Scales of ``nr`` columns, then their weights row by row."""
    return nr * (SCALE_BYTES + BYTES * k)


def nbytes(k: int, n: int, nr: int) -> int:
    return -(-n // nr) * panel_bytes(k, nr) + SPARE


def pack_weights24(matrix: npt.NDArray[np.float32], nr: int, out: npt.NDArray[np.uint8]) -> None:
    """Fills ``out`` with panels of ``nr`` columns of ``[K, N]``. No number but zero becomes zero."""
    k, n = matrix.shape
    panels, size = -(-n // nr), panel_bytes(k, nr)
    scales = np.zeros(panels * nr, np.float32)
    scales[:n] = np.maximum(matrix.max(axis=0), -matrix.min(axis=0)) / np.float32(_LARGEST)
    for panel in range(panels):
        part = out[panel * size : (panel + 1) * size]
        columns = slice(panel * nr, min((panel + 1) * nr, n))
        by, numbers = scales[panel * nr : (panel + 1) * nr], matrix[:, columns]
        part[: SCALE_BYTES * nr].view(np.float32)[:] = by / 256  # they are decoded as the upper bytes of 32 bits
        exact = numbers.astype(np.float64) / np.where(by > 0, by, 1)[: numbers.shape[1]]
        whole = np.clip(np.rint(exact), -_LARGEST, _LARGEST)
        whole = np.where((whole == 0) & (numbers != 0), np.sign(numbers), whole).astype("<i4")
        wide = np.zeros((k, nr), "<i4")
        wide[:, : numbers.shape[1]] = whole
        part[SCALE_BYTES * nr :].reshape(k, nr, BYTES)[:] = wide.view(np.uint8).reshape(k, nr, 4)[..., :BYTES]


def load_weights24(b: Builder, pointer: Value, scale: Value) -> Value:
    """A vector of weights, times their columns' scales."""
    lanes = scale.type.lanes
    if lanes * 4 == SPARE:
        raw, starts = b.load(I8.vec(SPARE), pointer), [BYTES * i for i in range(lanes)]
    else:  # each half from where its weights begin
        half, count = I8.vec(_PART), _PART // 4
        lower, upper = (b.load(half, b.gep(pointer, I8, at)) for at in (0, BYTES * count))
        raw = b.shuffle(lower, upper, list(range(2 * _PART)))
        starts = [_PART * (i // count) + BYTES * (i % count) for i in range(lanes)]
    order = [starts[i // 4] + i % 4 - 1 if i % 4 else raw.type.lanes for i in range(4 * lanes)]
    whole = b.bitcast(b.shuffle(raw, b.const(raw.type, 0), order), I32.vec(lanes))
    return b.mul(b.convert("sitofp", whole, F32.vec(lanes)), scale)


__all__ = [
    "LEAST",
    "fits",
    "has_weights24",
    "load_weights24",
    "nbytes",
    "pack_weights24",
    "panel_bytes",
    "pays",
    "weights24_tile",
]
