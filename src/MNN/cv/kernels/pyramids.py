"""Image pyramids as resampling: every pixel is a weighted sum of a few neighbours (Burt and Adelson, 1983)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from MNN.cv._border import inside
from MNN.cv.kernels.resampling import resampled, resampling
from MNN.cv.kernels.run import KEPT, Array, Call, thread_count, worthwhile
from MNN.cv.kernels.taps import Taps

_CHANNELS = 4
_UP = 1 + 2.0**-18
"""What sums of bytes are multiplied by, for halves to be rounded up: less than what is short of a half by a 256th."""


def pyramid(image: Array, size: tuple[int, int], up: bool, border: int) -> Array | None:
    """A picture (h, w, channels) at the size (width, height), twice as large or half; None where numpy is to do it."""
    if image.dtype not in (np.uint8, np.float32) or image.shape[2] > _CHANNELS:
        return None
    if not worthwhile(max(image.size, size[0] * size[1])):
        return None
    return resampled(_pyramid(image.shape, image.dtype, size, up, border, thread_count()), image, size)


@functools.lru_cache(maxsize=KEPT)
def _pyramid(
    shape: tuple[int, int, int], dtype: np.dtype[Any], size: tuple[int, int], up: bool, border: int, _threads: int
) -> Call:
    (width, height), (source_height, source_width, _) = size, shape
    if up:
        rows, columns = _doubled(source_height, height, True), _doubled(source_width, width, False)
    else:
        rows, columns = _halved(source_height, height, border), _halved(source_width, width, border)
    if dtype == np.uint8:
        columns = Taps(columns.first, columns.weights * np.float32(_UP))
    return resampling(shape, dtype, size, rows, columns)


def _halved(source: int, wanted: int, border: int) -> Taps:
    first = 2 * np.arange(wanted) - 2
    places = inside(first[:, None] + np.arange(5), source, border)
    weights = np.broadcast_to(np.array([1, 4, 6, 4, 1]) / 16, places.shape)
    return _gathered(places, np.where(places < 0, 0, weights), first)


def _doubled(source: int, wanted: int, repeats: bool) -> Taps:
    """Old places see 1 6 1 of their neighbours, new ones 4 4; what is before the first is reflected, what is behind the
    last repeated. ``repeats``: one more than twice as many ends like the last but one of them, else like the last."""
    at = np.arange(wanted)
    at[2 * source :] = 2 * source - (2 if repeats else 1)
    middle = (at // 2)[:, None] + np.array([-1, 0, 1])
    odd = (at % 2 == 1)[:, None]
    places = np.minimum(np.abs(middle), source - 1)
    return _gathered(places, np.where(odd, np.array([0, 4, 4]), np.array([1, 6, 1])) / 8, at // 2 - 1)


def _gathered(places: Array, weights: Array, first: Array) -> Taps:
    """``weights`` of ``places`` as those of neighbours from ``first`` on, or from where places begin before."""
    first = np.minimum(first, places.min(1))
    each = places - first[:, None]
    found = np.zeros((len(places), int(each.max()) + 1))
    np.add.at(found, (np.arange(len(places))[:, None], each), weights)
    return Taps(first, found.astype(np.float32))


__all__ = ["pyramid"]
