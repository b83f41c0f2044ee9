"""Bilateral smoothing by :class:`MNN.backends.cpu.image.filtering.bilateral.BilateralSpec`."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from MNN.backends.cpu.image.filtering.bilateral import BilateralSpec
from MNN.cv.kernels.arranging import merged, parted
from MNN.cv.kernels.run import KEPT, TYPES, Array, Call, address, bands, bits, call_of, thread_count, worthwhile


def smoothed(wide: Array, radius: int, factor: float, taps: tuple[tuple[int, int, float], ...]) -> Array | None:
    """The picture (h, w, channels) within a border of ``radius`` pixels, smoothed: ``taps`` hold row, column (0 to
    2 ``radius``) and weight, which e^(``factor`` * difference^2) is multiplied with. None where numpy is to do it."""
    height, width = (n - 2 * radius for n in wide.shape[:2])
    channels = wide.shape[2]
    if wide.dtype not in (np.uint8, np.float32) or channels not in (1, 3) or not worthwhile(height * width * channels):
        return None
    planes = [np.ascontiguousarray(wide)] if channels == 1 else parted(wide)
    if planes is None:
        return None
    out = [np.empty((height, width, 1), wide.dtype) for _ in planes]
    places = [array for pair in zip(planes, out, strict=True) for array in pair]
    _smooth(wide.shape, wide.dtype, radius, factor, taps, thread_count())(*places)
    return out[0] if channels == 1 else merged(out)


@functools.lru_cache(maxsize=KEPT)
def _smooth(
    shape: tuple[int, int, int], dtype: np.dtype[Any], radius: int, factor: float,
    taps: tuple[tuple[int, int, float], ...], _threads: int,
) -> Call:  # fmt: skip
    spec = BilateralSpec.of(TYPES[dtype], shape[2])
    height, width = (n - 2 * radius for n in shape[:2])
    offsets = np.array([row * shape[1] + column for row, column, _ in taps], np.int64)
    weights = np.array([math.log2(weight) if weight > 0 else -math.inf for _, _, weight in taps], np.float32)
    band = bands(height, height * width * len(taps))
    args = {
        "src_row": shape[1], "width": width, "height": height, "band": band, "taps": len(taps),
        "offsets": address(offsets), "weights": address(weights), "centre": radius * shape[1] + radius,
        "factor": bits(factor / math.log(2)),
    }  # fmt: skip
    moving = [name for name in spec.slots() if name[:-1] in ("in", "out")]
    return call_of(spec, args, moving, -(-height // band), (offsets, weights))


__all__ = ["smoothed"]
