"""Histograms by :mod:`MNN.backends.cpu.image.histogram`."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence

import numpy as np

from MNN.backends.cpu.image.histogram import COPIES, NOWHERE, HistogramSpec, LevelSpec
from MNN.cv.kernels.run import TYPES, Array, address, alone, worthwhile

_KINDS = (np.dtype(np.uint8), np.dtype(np.float32))
_CHANNELS = 4
_SMALL = 1 << 13
"""Bins that are counted several times."""


def spread(size: int, low: float, high: float) -> tuple[float, float]:
    """What a value is multiplied by, and what is added then, for the number of its bin: in this order, as OpenCV does,
    where a value between two bins may be rounded into the lower one."""
    scale = size / (high - low)
    return scale, -low * scale


class Axis:
    """``size`` bins from ``low`` to before ``high``; the next one is ``stride`` places further."""

    def __init__(self, size: int, low: float, high: float, stride: int) -> None:
        scale, shift = spread(size, low, high)
        bits = (int(struct.unpack("q", struct.pack("d", n))[0]) for n in (low, high, scale, shift))
        self.numbers = (*bits, size, stride)
        values = np.arange(256.0)
        places = np.floor(values * scale + shift)
        inside = (values >= low) & (values < high) & (places >= 0) & (places < size)
        self.table = np.where(inside, places * stride, NOWHERE).astype(np.int32)
        self.place = address(self.table)


axis = functools.lru_cache(maxsize=256)(Axis)


def counted(planes: Sequence[Array], sizes: Sequence[int], ends: Sequence[float], mask: Array | None) -> Array | None:
    """How many pixels of planes (h, w) have values in each bin, of the shape ``sizes``: ``ends`` has a low and a high
    one for each plane. None where numpy is to do it."""
    kind, (height, width) = planes[0].dtype, planes[0].shape
    bins = math.prod(sizes)
    if kind not in _KINDS or len(planes) > _CHANNELS or any(p.dtype != kind for p in planes):
        return None
    if not worthwhile(planes[0].size) or planes[0].size >= 1 << 31 or not 0 < bins < NOWHERE:
        return None
    if any(not low < high for low, high in zip(ends[::2], ends[1::2], strict=True)):
        return None
    if len(planes) == 1 and kind == np.uint8:
        table = np.minimum(axis(bins, ends[0], ends[1], 1).table, bins)
        return np.bincount(table, levels(planes[0], mask), bins + 1)[:bins]
    copies = COPIES if bins < _SMALL else 1
    counts = np.zeros((copies, bins + 1), np.int32)
    spread = bins + 1 if copies > 1 else 0
    if mask is not None:
        mask = np.ascontiguousarray(mask if mask.itemsize == 1 else mask != 0)
    slots: list[int | Array] = [width, height, counts, bins, spread, 0 if mask is None else mask, width]
    stride = bins
    for plane, size, low, high in zip(planes, sizes, ends[::2], ends[1::2], strict=True):
        stride //= size
        numbers = axis(size, low, high, stride)
        slots += [plane, *plane.strides]
        slots += [numbers.place] if kind == np.uint8 else numbers.numbers
    kernel = alone(HistogramSpec.of(len(planes), TYPES[kind], mask is not None))
    kernel(*slots)
    total: Array = counts[:, :-1].sum(0, dtype=np.int32)
    return total.reshape(tuple(sizes))


def levels(plane: Array, mask: Array | None) -> Array:
    """How often each byte is in a plane (h, w), where a mask is not 0: int32 of 256."""
    counts = np.zeros((COPIES, 256), np.int32)
    if mask is not None:
        mask = np.ascontiguousarray(mask if mask.itemsize == 1 else mask != 0)
    kernel = alone(LevelSpec.of(mask is not None))
    height, width = plane.shape
    other = (0, 0) if mask is None else (mask, width)
    kernel(width, height, plane, *plane.strides, *other, counts)
    found: Array = counts.sum(0, dtype=np.int32)
    return found


__all__ = ["counted", "levels", "spread"]
