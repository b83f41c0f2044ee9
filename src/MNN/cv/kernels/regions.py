"""Regions by :mod:`MNN.backends.cpu.image.labels`, their borders by :mod:`MNN.backends.cpu.image.borders`."""

from __future__ import annotations

import numpy as np

from MNN.backends.cpu.image.borders import BORDER, BorderSpec
from MNN.backends.cpu.image.labels import SPARE, STATS, LabelSpec
from MNN.backends.cpu.image.runs import BoundsSpec, MaskedSpec
from MNN.cv.kernels.run import Array, alone, worthwhile

_MOST = 1 << 30
"""Pixels beyond which labels are not of 32 bits."""


def _bytes(filled: Array) -> Array:
    """A picture (h, w) in bytes one behind another, of which 0 is what is not filled."""
    return np.ascontiguousarray(filled if filled.itemsize == 1 else filled != 0)


def labelled(filled: Array, eight: bool) -> tuple[Array, Array, Array] | None:
    """Regions of what is not 0 in a picture (h, w), with eight neighbours or four: the region of each pixel (i32), x,
    y, width, height and area of each (count, 5), and their centres (count, 2). None where numpy is to do it."""
    height, width = filled.shape
    if not worthwhile(filled.size) or filled.size > _MOST:
        return None
    filled = _bytes(filled)
    most = height * ((width + 1) // 2)  # runs, and regions but the background
    labels, stats = np.empty(filled.size + SPARE, np.int32), np.empty((most + 1, STATS), np.int32)
    centres, count = np.empty((most + 1, 2)), np.empty(1, np.int64)
    changes, rows = np.empty(2 * most + 2, np.int32), np.empty(height + 1, np.int64)
    runs = np.empty((2, most + 1), np.int32)
    kernel = alone(LabelSpec.of())
    results = (labels, stats, centres, count)
    memory = (changes, rows, runs, runs[1])
    kernel(filled, width, width, height, eight, *results, *memory)
    found = int(count[0])
    return labels[: filled.size].reshape(height, width), stats[:found].copy(), centres[:found].copy()


def followed(filled: Array, corners: bool) -> tuple[Array, Array] | None:
    """The borders of what is not 0 in a picture (h, w), as they are met by rows: whether each surrounds a hole, the
    number of the border around it (-1: none), its first point and their count (count, 4), and all points (count, 2) of
    x and y, or with ``corners`` those where a border turns. None where numpy is to do it."""
    height, width = filled.shape
    if not worthwhile(filled.size) or filled.size > _MOST:
        return None
    filled = _bytes(filled)
    marks, changes = np.empty((height + 2) * (width + 2), np.int32), np.empty(width + 2, np.int32)
    counts = np.array([filled.size // 8 + 8, filled.size // 2 + 8])
    memory = marks, changes
    kernel = alone(BorderSpec.of())
    while True:
        rooms = tuple(counts.tolist())
        borders, points = np.empty((rooms[0], BORDER), np.int32), np.empty((rooms[1], 2), np.int32)
        places = (borders, rooms[0], points, rooms[1], counts)
        kernel(filled, width, width, height, corners, *places, *memory)
        if counts[0] <= rooms[0] and counts[1] <= rooms[1]:
            return borders[: counts[0]], points[: counts[1]].copy()  # else there was not room enough


def bounds(filled: Array) -> tuple[int, int, int, int]:
    """First and last column, first and last row of what is not 0 in a picture (h, w); the last ones are -1 where
    nothing is."""
    filled = _bytes(filled)
    found = np.empty(4, np.int64)
    kernel = alone(BoundsSpec.of())
    kernel(filled, filled.shape[1], filled.shape[1], filled.shape[0], found)
    left, right, top, bottom = found.tolist()
    return left, right, top, bottom


def masked(image: Array, mask: Array, out: Array) -> bool:
    """Copies pixels of a picture (h, w) or (h, w, channels) to a contiguous one of its shape and type where a mask
    (h, w) is not 0. False where numpy is to do it."""
    height, width = mask.shape
    if not worthwhile(image.size) or image.shape[:2] != mask.shape or image.ndim > 3:
        return False
    mask = np.ascontiguousarray(mask if mask.itemsize == 1 else mask != 0)
    image, changes = np.ascontiguousarray(image), np.empty(width + 2, np.int32)
    kernel = alone(MaskedSpec.of(image.itemsize * (image.shape[2] if image.ndim == 3 else 1)))
    kernel(image, out, mask, width, height, changes)
    return True


__all__ = ["bounds", "followed", "labelled", "masked"]
