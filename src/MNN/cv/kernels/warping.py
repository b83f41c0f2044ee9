"""Warping and remapping by :class:`MNN.backends.cpu.image.sample.SampleSpec`."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from MNN.backends.cpu.image.places import Places
from MNN.backends.cpu.image.sample import Border, Interpolation, SampleSpec
from MNN.cv._constants import (
    BORDER_CONSTANT,
    BORDER_REFLECT,
    BORDER_REFLECT_101,
    INTER_CUBIC,
    INTER_LINEAR,
    INTER_NEAREST,
)
from MNN.cv.kernels.run import KEPT, TYPES, Array, Call, bands, call_of, target, thread_count, worthwhile

_BORDERS = {
    BORDER_CONSTANT: Border.CONSTANT,
    BORDER_REFLECT: Border.REFLECT,
    BORDER_REFLECT_101: Border.REFLECT_101,
}
_HOW = {
    INTER_NEAREST: Interpolation.NEAREST,
    INTER_LINEAR: Interpolation.LINEAR,
    INTER_CUBIC: Interpolation.CUBIC,
}
_CHANNELS = 4
_MOST = 1 << 31
"""Numbers of a picture beyond which offsets are not of 32 bits."""


def warped(
    image: Array, matrix: Sequence[float], size: tuple[int, int], interpolation: int, border: int, fill: Array
) -> Array | None:
    """A picture (h, w, channels) where the 3 x 3 ``matrix``, row by row, takes the pixels of the result, whose ``size``
    is (width, height). ``fill`` is the pixel of a constant border, or one number for all of its channels. None where
    numpy is to do it."""
    affine = matrix[6] == matrix[7] == 0 and matrix[8] == 1
    if not _possible(image, size, interpolation, border):
        return None
    numbers = struct.unpack("9q", struct.pack("9d", *matrix))
    where = Places.AFFINE if affine else Places.PERSPECTIVE
    return _run(image, size, (where, interpolation, border), fill, numbers[:6] if affine else numbers)


def remapped(image: Array, x: Array, y: Array, interpolation: int, border: int, fill: Array) -> Array | None:
    """The pixels of a picture at (x, y), both float32 of one size; else as :func:`warped`."""
    size = x.shape[1], x.shape[0]
    if not _possible(image, size, interpolation, border):
        return None
    maps = [np.ascontiguousarray(m) for m in (x, y)]
    return _run(image, size, (Places.MAPS, interpolation, border), fill, maps)


def _possible(image: Array, size: tuple[int, int], interpolation: int, border: int) -> bool:
    known = image.dtype in TYPES and image.shape[2] <= _CHANNELS and interpolation in _HOW and border in _BORDERS
    return known and image.size < _MOST and min(size) > 0 and worthwhile(max(image.size, size[0] * size[1]))


def _run(
    image: Array, size: tuple[int, int], way: tuple[Places, int, int], fill: Array, places: Sequence[int | Array]
) -> Array:
    call = _sample(image.shape, image.dtype, size, way, thread_count())
    image, fill = np.ascontiguousarray(image), fill if fill.size == image.shape[2] else np.repeat(fill, image.shape[2])
    out = np.empty((size[1], size[0], image.shape[2]), image.dtype)
    call(image, fill, out, *places)
    return out


@functools.lru_cache(maxsize=KEPT)
def _sample(
    shape: tuple[int, int, int], dtype: np.dtype[Any], size: tuple[int, int], way: tuple[Places, int, int],
    _threads: int,
) -> Call:  # fmt: skip
    source_height, source_width, channels = shape
    width, height = size
    where, interpolation, border = way
    spec = SampleSpec.of(TYPES[dtype], channels, where, _HOW[interpolation], _BORDERS[border])
    band = bands(height, height * width * channels * 4)
    args = {
        "src_row": source_width * channels, "src_width": source_width, "src_height": source_height,
        "out_row": width * channels, "width": width, "height": height, "band": band, **spec.places(target(), width),
    }  # fmt: skip
    moving = ("src", "fill", "out", *(name for name in spec.slots() if name[0] == "m"))
    return call_of(spec, args, moving, -(-height // band), None)
