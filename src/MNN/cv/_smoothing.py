"""Filters that are not linear or not of fixed weights: bilateral smoothing, thresholds by neighbourhoods, blending."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array, as_image, as_planes, size, to_dtype
from MNN.cv._border import EDGE, pad
from MNN.cv._constants import (
    ADAPTIVE_THRESH_GAUSSIAN_C,
    ADAPTIVE_THRESH_MEAN_C,
    BORDER_DEFAULT,
    THRESH_BINARY,
    THRESH_BINARY_INV,
)
from MNN.cv._filter import depth, gaussian, separable
from MNN.cv.kernels import arithmetic, bilateral
from MNN.cv.kernels import filters as kernels
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

_EXACT = (1 << 24) // 255**2
"""So many squares of bytes have a sum that is an f32."""


def bilateralFilter(  # noqa: N802
    src: ArrayLike, d: int, sigmaColor: float, sigmaSpace: float, borderType: int = BORDER_DEFAULT
) -> Var:
    """Means weighted by distance and by difference of colour (Tomasi and Manduchi, 1998), within a circle of diameter
    ``d`` (chosen from ``sigmaSpace`` if not positive). uint8 or float32 of 1 or 3 channels."""
    image = as_planes(src)
    if image.dtype not in (np.uint8, np.float32) or image.shape[2] not in (1, 3):
        raise ShapeError(f"bilateralFilter() takes uint8 or float32 of 1 or 3 channels, found {image.dtype} "
                         f"{image.shape}")  # fmt: skip
    colour, space = (s if s > 0 else 1.0 for s in (sigmaColor, sigmaSpace))
    radius = max(round(space * 1.5) if d <= 0 else d // 2, 1)
    wide = pad(image, radius, radius, radius, radius, borderType)
    factor = -0.5 / (colour * colour)
    taps = _circle(radius, space)
    result = bilateral.smoothed(wide, radius, factor, taps)
    if result is None:
        result = _smoothed(wide.astype(np.float32), radius, factor, taps, image)
    return _wrap(result if as_image(src).ndim == 3 else result[:, :, 0])


@functools.lru_cache(maxsize=64)
def _circle(radius: int, space: float) -> tuple[tuple[int, int, float], ...]:
    """Rows, columns and weights of what is at most ``radius`` from the middle of a square."""
    each = range(-radius, radius + 1)
    inside = [(y, x) for y in each for x in each if math.hypot(x, y) <= radius]
    return tuple((radius + y, radius + x, math.exp(-0.5 * (x * x + y * y) / (space * space))) for y, x in inside)


def _smoothed(wide: Array, radius: int, factor: float, taps: Sequence[tuple[int, int, float]], image: Array) -> Array:
    height, width = image.shape[:2]
    middle = wide[radius : radius + height, radius : radius + width]
    total, weights = np.zeros_like(middle), np.zeros((height, width, 1), np.float32)
    for y, x, near in taps:
        part = wide[y : y + height, x : x + width]
        apart = np.abs(part - middle).sum(2, keepdims=True)
        weight = np.exp(apart * apart * np.float32(factor)) * np.float32(near)
        total += part * weight
        weights += weight
    return to_dtype(total / weights, image.dtype)


def sqrBoxFilter(  # noqa: N802
    src: ArrayLike, ddepth: int, ksize: Sequence[int], normalize: bool = True, borderType: int = BORDER_DEFAULT
) -> Var:
    """The sum over windows (or the mean) of squares. ``ddepth`` -1 is float32, or float64 of float pictures."""
    image = as_image(src)
    width, height = size(ksize, "ksize")
    x, y = np.ones(width), np.ones(height)
    if normalize:
        x, y = x / width, y / height
    wide = np.float64 if image.dtype.kind == "f" else np.float32
    kind = np.dtype(wide) if ddepth == -1 else depth(ddepth, image)
    if width * height <= _EXACT:
        scale = 1 / (width * height) if normalize else 1.0
        found = kernels.separable(image, np.ones(width), np.ones(height), kind, 0, borderType, scale, squared=True)
        if found is not None:
            return _wrap(found)
    return _wrap(separable(image.astype(np.float64) ** 2, x, y, kind, 0, borderType))


def blendLinear(src1: ArrayLike, src2: ArrayLike, weights1: ArrayLike, weights2: ArrayLike) -> Var:  # noqa: N802
    """``(src1 * weights1 + src2 * weights2) / (weights1 + weights2)``; weights (h, w)."""
    a, b = as_image(src1, "src1"), as_image(src2, "src2")
    w1, w2 = (as_planes(w, name).astype(np.float32) for w, name in ((weights1, "weights1"), (weights2, "weights2")))
    if a.shape != b.shape or w1.shape != w2.shape or w1.shape != (*a.shape[:2], 1):
        raise ShapeError(f"pictures {a.shape}, {b.shape} and weights {w1.shape[:2]}, {w2.shape[:2]} do not fit")
    if a.ndim == 2:
        w1, w2 = w1[:, :, 0], w2[:, :, 0]
    mixed = (a.astype(np.float32) * w1 + b.astype(np.float32) * w2) / (w1 + w2 + np.float32(1e-5))
    return _wrap(to_dtype(mixed, a.dtype))


def adaptiveThreshold(  # noqa: N802
    src: ArrayLike, maxValue: float, adaptiveMethod: int, thresholdType: int, blockSize: int, C: float
) -> Var:
    """``maxValue`` where a uint8 picture of one channel is above the mean of its neighbourhood less ``C`` (or with
    ``THRESH_BINARY_INV`` where it is not), 0 elsewhere. ``adaptiveMethod`` says whether the mean is a Gaussian's."""
    image = as_image(src)
    if image.dtype != np.uint8 or (image.ndim == 3 and image.shape[2] != 1):
        raise ShapeError(f"adaptiveThreshold() takes a uint8 picture of one channel, found {image.dtype} {image.shape}")
    if blockSize < 3 or blockSize % 2 == 0:
        raise MNNError(f"blockSize must be odd and above 1; it is {blockSize}")
    if thresholdType not in (THRESH_BINARY, THRESH_BINARY_INV):
        raise MNNError(f"thresholdType is {thresholdType}; it must be THRESH_BINARY or THRESH_BINARY_INV")
    scale = 1.0
    if adaptiveMethod == ADAPTIVE_THRESH_MEAN_C:
        weights, scale = np.ones(blockSize), 1.0 / blockSize**2
    elif adaptiveMethod == ADAPTIVE_THRESH_GAUSSIAN_C:
        weights = gaussian(blockSize, 0)
    else:
        raise MNNError(f"adaptiveMethod is {adaptiveMethod}; it must be one of ADAPTIVE_THRESH_*")
    mean = separable(image, weights, weights, np.dtype(np.uint8), 0, EDGE, scale)
    inverse = thresholdType == THRESH_BINARY_INV
    offset = math.floor(C) if inverse else math.ceil(C)
    top = int(to_dtype(np.asarray(float(maxValue)), np.dtype(np.uint8)))
    high, low = (0, top) if inverse else (top, 0)
    found = arithmetic.compared(image, mean, -offset, high, low)
    if found is None:
        found = np.where(image.astype(np.int32) - mean > -offset, np.uint8(high), np.uint8(low))
    return _wrap(found)


def getGaborKernel(  # noqa: N802
    ksize: Sequence[int], sigma: float, theta: float, lambd: float, gamma: float, psi: float = math.pi / 2
) -> Var:
    """A Gaussian of deviation ``sigma`` times a wave of length ``lambd``, turned by ``theta`` (radians); float32 of
    (width, height) ``ksize``, sizes below 1 are chosen from sigma."""
    across, along = sigma, sigma / gamma
    c, s = math.cos(theta), math.sin(theta)
    width, height = (int(k) for k in as_array(ksize, "ksize").ravel())
    x_reach = width // 2 if width > 0 else round(max(abs(3 * across * c), abs(3 * along * s)))
    y_reach = height // 2 if height > 0 else round(max(abs(3 * across * s), abs(3 * along * c)))
    y, x = np.mgrid[y_reach : -y_reach - 1 : -1, x_reach : -x_reach - 1 : -1]
    u, v = x * c + y * s, -x * s + y * c
    envelope = np.exp(-0.5 * (u / across) ** 2 - 0.5 * (v / along) ** 2)
    kernel: Array = envelope * np.cos(2 * math.pi / lambd * u + psi)
    return _wrap(kernel.astype(np.float32))
