"""Resizing by :mod:`MNN.backends.cpu.image.resize`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from MNN.backends.cpu.image.resize import HalveSpec, PickSpec, ResizeSpec
from MNN.cv._constants import INTER_AREA, INTER_LINEAR, INTER_NEAREST, INTER_NEAREST_EXACT
from MNN.cv.kernels.run import KEPT, TYPES, Array, Call, address, bands, call_of, target, thread_count, worthwhile
from MNN.cv.kernels.taps import Taps, taps
from MNN.ir.dtype import DType

_UNROLLED = (2, 3, 4, 5)
"""Numbers of taps that kernels are made for."""
_CHANNELS = 4
_NEAR = 3
"""Vectors beyond which loads one by one are as fast."""


def resized(image: Array, size: tuple[int, int], factors: tuple[float, float], interpolation: int) -> Array | None:
    """A picture (h, w, channels) at the size (width, height); None where numpy is to do it."""
    if image.dtype not in TYPES or image.shape[2] > _CHANNELS:
        return None
    if not (_halves(image.shape, size, factors, interpolation) or worthwhile(max(image.size, size[0] * size[1]))):
        return None  # halved pictures are rounded alike at all sizes
    return resampled(_resize(image.shape, image.dtype, size, factors, interpolation, thread_count()), image, size)


def resampled(call: Call, image: Array, size: tuple[int, int]) -> Array:
    """What ``call`` (of :func:`resampling`, say) makes of a picture (h, w, channels), at the size (width, height)."""
    image = np.ascontiguousarray(image)
    out = np.empty((size[1], size[0], image.shape[2]), image.dtype)
    call(image, out)
    return out


@functools.lru_cache(maxsize=KEPT)
def _resize(
    shape: tuple[int, int, int], dtype: np.dtype[Any], size: tuple[int, int], factors: tuple[float, float],
    interpolation: int, _threads: int,
) -> Call:  # fmt: skip
    source_height, source_width, channels = shape
    width, height = size
    if _halves(shape, size, factors, interpolation):
        return _halving(shape, dtype, size, interpolation)
    shrinks = factors[0] <= 1 and factors[1] <= 1
    rows = taps(source_height, height, factors[1], interpolation, shrinks)
    columns = taps(source_width, width, factors[0], interpolation, shrinks)
    if interpolation not in (INTER_NEAREST, INTER_NEAREST_EXACT):
        return resampling(shape, dtype, size, rows, columns)
    pixel = channels * dtype.itemsize
    tables = {"y_places": rows.first.astype(np.int32), "x_places": (columns.first * pixel).astype(np.int32)}
    band = bands(height, height * width * channels)
    args = {"width": width, "height": height, "band": band, "src_row": source_width * pixel, "out_row": width * pixel}
    args |= {name: address(table) for name, table in tables.items()}
    return call_of(PickSpec.of(pixel), args, ("src", "out"), -(-height // band), tables)


def _halves(
    shape: tuple[int, ...], size: tuple[int, int], factors: tuple[float, float], interpolation: int
) -> bool:  # fmt: skip
    """Whether each pixel of the result is the mean of four."""
    exact = factors == (0.5, 0.5) and shape[:2] == (2 * size[1], 2 * size[0])
    return exact and interpolation in (INTER_LINEAR, INTER_AREA)


def _halving(
    shape: tuple[int, int, int], dtype: np.dtype[Any], size: tuple[int, int], interpolation: int
) -> Call:  # fmt: skip
    """Halves go up where OpenCV (4.11, 5.0) sums them in whole numbers: not of two channels, and of 16 bits by area
    alone."""
    (_, source_width, channels), (width, height) = shape, size
    up = channels != 2 and (dtype == np.uint8 or interpolation == INTER_AREA)
    band = bands(height, height * width * channels)
    args = {"width": width, "height": height, "band": band, "src_row": source_width * channels,
            "out_row": width * channels}  # fmt: skip
    return call_of(HalveSpec.of(TYPES[dtype], channels, up), args, ("src", "out"), -(-height // band), None)


def resampling(
    shape: tuple[int, int, int], dtype: np.dtype[Any], size: tuple[int, int], rows: Taps, columns: Taps
) -> Call:
    """Sums of rows, then of columns, of a picture of the type and of ``shape`` (h, w, channels), at the size (width,
    height). The call takes the addresses of the picture and of the result."""
    source_height, source_width, channels = shape
    width, height = size
    band = bands(height, height * width * channels)
    count = columns.weights.shape[1]
    vectors = _vectors(columns.first, target().lanes(DType.F32)) if channels == 1 else 0
    spec = ResizeSpec.of(TYPES[dtype], TYPES[dtype], channels, count if count in _UNROLLED else 0, vectors)
    before = max(-int(columns.first.min()), 0)
    behind = max(int(columns.first.max()) + count - source_width, 0)
    tables = {
        "y_places": rows.places(source_height).astype(np.int32),
        "y_weights": np.ascontiguousarray(rows.weights),
        "x_places": ((columns.first + before) * channels).astype(np.int32),
        "x_weights": np.ascontiguousarray(columns.weights.T),
    }
    args = {
        "src_row": source_width * channels, "src_width": source_width, "out_row": width * channels, "width": width,
        "height": height, "band": band, "y_taps": rows.weights.shape[1], "x_taps": count, "before": before,
        "behind": behind, **spec.places(target(), source_width, width, before + behind),
    }  # fmt: skip
    args |= {name: address(table) for name, table in tables.items()}
    return call_of(spec, args, ("src", "out"), -(-height // band), tables)


def _vectors(first: Array, lanes: int) -> int:
    """In how many vectors the places of each vector of outputs lie; 0 for more than a few."""
    apart = max((int(np.ptp(first[i : i + lanes])) for i in range(0, len(first), lanes)), default=0)
    return apart // lanes + 1 if apart < _NEAR * lanes else 0
