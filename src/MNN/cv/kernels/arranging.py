"""Pixels moved as they are, by :mod:`MNN.backends.cpu.image.arrange` and the engine's transpositions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from MNN.backends.cpu.image.arrange import MOST, MirrorSpec, PlanesSpec, TurnSpec
from MNN.backends.cpu.loops.transpose import TransposeSpec
from MNN.cv.kernels.run import KEPT, Array, Call, bands, call_of, thread_count, worthwhile

_PIXEL = 32
"""Bytes of a pixel that kernels are made for."""
_MOSTLY = frozenset((np.dtype(np.uint8), np.dtype(np.float32)))
"""Element types of most pictures."""
_TRANSPOSED = (1, 2, 4, 8)
"""Bytes of pixels that registers transpose."""


def mirrored(image: Array, upside: bool) -> Array | None:
    """A picture (h, w) or (h, w, channels) with its columns, and ``upside`` down its rows too, in the opposite order.
    None where numpy is to do it."""
    size = _pixel(image)
    if not size:
        return None
    image = np.ascontiguousarray(image)
    out = np.empty(image.shape, image.dtype)
    _mirror(image.shape[0], image.shape[1], size, upside, thread_count())(image, out)
    return out


@functools.lru_cache(maxsize=KEPT)
def _mirror(height: int, width: int, size: int, upside: bool, _threads: int) -> Call:
    band = bands(height, height * width * size)
    row = width * size
    args = {"src_row": -row if upside else row, "width": width, "height": height, "band": band}
    return call_of(MirrorSpec.of(size), args, ({"src": (height - 1) * row if upside else 0}, "out"), -(-height // band))


def turned(image: Array, clockwise: bool) -> Array | None:
    """A picture (h, w) or (h, w, channels) turned by a quarter; None where numpy is to do it."""
    size = _pixel(image)
    if not size:
        return None
    image = np.ascontiguousarray(image)
    height, width = image.shape[:2]
    out = np.empty((width, height, *image.shape[2:]), image.dtype)
    _turn(height, width, size, clockwise, thread_count())(image, out)
    return out


@functools.lru_cache(maxsize=KEPT)
def _turn(height: int, width: int, size: int, clockwise: bool, _threads: int) -> Call:
    band = bands(width, height * width * size)
    band = band if band == width else -(-band // 16) * 16
    row, out_row = (-width, height) if clockwise else (width, -height)
    blocks = -(-width // band)
    # clockwise, from the last row on; else to the last row
    begin, end = ((height - 1) * width * size, 0) if clockwise else (0, (width - 1) * height * size)
    if size in _TRANSPOSED:
        args = {"rows": height, "cols": width, "band": band, "in_row": row, "out_row": out_row}
        return call_of(TransposeSpec.of(size, 0), args, ({"in": begin}, {"out": end}), blocks)
    args = {"src_row": row * size, "out_row": out_row * size, "width": width, "height": height, "band": band}
    return call_of(TurnSpec.of(size), args, ({"src": begin}, {"out": end}), blocks)


def merged(planes: Sequence[Array]) -> Array | None:
    """Pictures (h, w) or (h, w, 1) of one size and type as the channels of one; None where numpy is to do it."""
    first = planes[0]
    if not 2 <= len(planes) <= MOST or not _plain(first) or first.shape[2:] not in ((), (1,)):
        return None
    if any(p.shape != first.shape or p.dtype != first.dtype for p in planes):
        return None
    planes = [np.ascontiguousarray(plane) for plane in planes]
    out = np.empty((*first.shape[:2], len(planes)), first.dtype)
    call = _planes(first.size, first.itemsize, len(planes), False, thread_count())
    call(out, *planes)
    return out


def merged_planes(planes: Sequence[object]) -> Array | None:
    """The same for what most are, dense planes (h, w) of bytes or f32, before what takes longer to ask; of few pixels
    by numpy, where a kernel would not pay."""
    first: Any = planes[0]
    if type(first) is not np.ndarray or (kind := first.dtype) not in _MOSTLY or not 2 <= len(planes) <= MOST:
        return None
    shape = first.shape
    for plane in planes:
        if type(plane) is not np.ndarray or plane.dtype is not kind or plane.shape != shape:
            return None
        if not plane.flags.c_contiguous:
            return None
    if len(shape) != 2 or not first.size:
        return None
    out = np.empty((*shape, len(planes)), kind)
    if not worthwhile(first.size):
        for i, plane in enumerate(planes):
            out[:, :, i] = plane
        return out
    _planes(first.size, first.itemsize, len(planes), False, thread_count())(out, *planes)
    return out


def parted(image: Array) -> list[Array] | None:
    """The channels of a picture (h, w, channels), each (h, w); None where numpy is to do it."""
    channels = image.shape[2]
    if not 2 <= channels <= MOST or not _plain(image):
        return None
    image = np.ascontiguousarray(image)
    found = [np.empty(image.shape[:2], image.dtype) for _ in range(channels)]
    call = _planes(image.size // channels, image.itemsize, channels, True, thread_count())
    call(image, *found)
    return found


@functools.lru_cache(maxsize=KEPT)
def _planes(count: int, size: int, planes: int, split: bool, _threads: int) -> Call:
    band = bands(count, count * planes * size)
    spec = PlanesSpec.of(size, planes, split)
    moving = [name for name in spec.slots() if name.startswith("p")]
    return call_of(spec, {"count": count, "band": band}, moving, -(-count // band))


def _plain(image: Array) -> bool:
    return image.itemsize <= 8 and worthwhile(image.size)


def _pixel(image: Array) -> int:
    """Bytes of a pixel, 0 where numpy is to do it."""
    size = image.itemsize * (image.shape[2] if image.ndim == 3 else 1)
    return size if size <= _PIXEL and worthwhile(image.size) else 0


__all__ = ["merged", "merged_planes", "mirrored", "parted", "turned"]
