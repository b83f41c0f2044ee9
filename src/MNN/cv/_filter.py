"""Linear filters. Correlation, as in OpenCV: the kernel is not mirrored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array, as_image, size, to_dtype
from MNN.cv._border import pad
from MNN.cv._constants import BORDER_DEFAULT
from MNN.cv.kernels import filters as kernels
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

_STRIP = 1 << 15
"""About how many numbers of a picture are filtered at a time."""
_DEPTHS = {0: np.uint8, 1: np.int8, 2: np.uint16, 3: np.int16, 4: np.int32, 5: np.float32, 6: np.float64}


def getGaussianKernel(ksize: int, sigma: float) -> Var:  # noqa: N802
    """Weights of a Gaussian, float32 of shape (1, ksize); ``sigma <= 0`` chooses it from ``ksize`` (odd)."""
    return _wrap(gaussian(ksize, sigma).astype(np.float32)[None])


def gaussian(ksize: int, sigma: float) -> Array:
    if ksize < 1 or ksize % 2 == 0:
        raise MNNError(f"ksize must be odd and positive; it is {ksize}")
    if sigma <= 0 and ksize <= 9:  # close to the Gaussian of that size, and exact in 8 bits
        rows = {
            1: [1],
            3: [1, 2, 1],
            5: [1, 4, 6, 4, 1],
            7: [2, 7, 14, 18, 14, 7, 2],
            9: [4, 13, 30, 51, 60, 51, 30, 13, 4],
        }
        weights = np.array(rows[ksize], np.float64)
    else:
        sigma = sigma if sigma > 0 else 0.3 * ((ksize - 1) * 0.5 - 1) + 0.8
        weights = np.exp(-((np.arange(ksize) - (ksize - 1) / 2) ** 2) / (2 * sigma * sigma))
    result: Array = weights / weights.sum()
    return result


def GaussianBlur(  # noqa: N802
    src: ArrayLike, ksize: Sequence[int], sigmaX: float, sigmaY: float = 0, borderType: int = BORDER_DEFAULT
) -> Var:
    """The picture blurred by a Gaussian of (width, height) ``ksize``, odd; (0, 0) chooses them from the sigmas."""
    image = as_image(src)
    sigma_y = sigmaY if sigmaY > 0 else sigmaX
    width, height = (int(k) for k in ksize)
    reach = 3 if image.dtype == np.uint8 else 4
    if width <= 0 and sigmaX > 0:
        width = round(sigmaX * reach * 2 + 1) | 1
    if height <= 0 and sigma_y > 0:
        height = round(sigma_y * reach * 2 + 1) | 1
    x, y = gaussian(width, sigmaX), gaussian(height, sigma_y)
    if image.dtype == np.uint8:
        x, y = _in_256ths(x), _in_256ths(y)
    return _wrap(separable(image, x, y, image.dtype, 0, borderType, up=image.dtype == np.uint8))


def _in_256ths(weights: Array) -> Array:
    """A symmetric kernel rounded to 1/256, still summing to 1: each rounding error goes into the next weight."""
    half = len(weights) // 2
    result = np.zeros(len(weights))
    error = 0.0
    for i in range(half):
        wanted = weights[i] * 256 + error
        result[i] = result[-1 - i] = np.rint(wanted)
        error = wanted - result[i]
    result[half] = 256 - result.sum()
    return result / 256


def blur(src: ArrayLike, ksize: Sequence[int], borderType: int = BORDER_DEFAULT) -> Var:
    """The mean over windows of (width, height) ``ksize``."""
    return boxFilter(src, -1, ksize, True, borderType)


def boxFilter(  # noqa: N802
    src: ArrayLike, ddepth: int, ksize: Sequence[int], normalize: bool = True, borderType: int = BORDER_DEFAULT
) -> Var:
    """The sum over windows of (width, height) ``ksize``, or the mean. ``ddepth``: see :func:`filter2D`."""
    image = as_image(src)
    width, height = size(ksize, "ksize")
    scale = 1 / (width * height) if normalize else 1.0
    return _wrap(separable(image, np.ones(width), np.ones(height), depth(ddepth, image), 0, borderType, scale))


def sepFilter2D(  # noqa: N802
    src: ArrayLike, ddepth: int, kx: ArrayLike, ky: ArrayLike, delta: float = 0, borderType: int = BORDER_DEFAULT
) -> Var:
    """Rows filtered by ``kx``, then columns by ``ky``, plus ``delta``. ``ddepth``: see :func:`filter2D`."""
    image = as_image(src)
    x, y = (as_array(k, name).astype(np.float64).ravel() for k, name in ((kx, "kx"), (ky, "ky")))
    return _wrap(separable(image, x, y, depth(ddepth, image), delta, borderType))


def filter2D(  # noqa: N802
    src: ArrayLike, ddepth: int, kernel: ArrayLike, delta: float = 0, borderType: int = BORDER_DEFAULT
) -> Var:
    """Each channel correlated with ``kernel`` (height, width; anchored at its middle), plus ``delta``.

    ``ddepth``: type of the result in OpenCV's numbers (5 = float32), -1 for the picture's own.
    """
    image = as_image(src)
    weights = as_array(kernel, "kernel").astype(np.float64)
    if weights.ndim != 2 or 0 in weights.shape:
        raise ShapeError(f"kernel must have the shape (height, width); it has {weights.shape}")
    return _wrap(correlate(image, weights, depth(ddepth, image), delta, borderType))


def correlate(image: Array, weights: Array, kind: np.dtype[Any], delta: float, border: int) -> Array:
    """Sums of pixels times a kernel (height, width) that is anchored at its middle, plus ``delta``."""
    found = kernels.dense(image, weights, kind, delta, border)
    if found is not None:
        return found
    height, width = weights.shape
    wide = _padded(image, width, height, border)
    total = np.full(image.shape, delta, wide.dtype)
    for i in range(height):
        for j in range(width):
            if weights[i, j]:
                total += weights[i, j] * wide[i : i + image.shape[0], j : j + image.shape[1]]
    return to_dtype(total, kind)


def separable(
    image: Array, x: Array, y: Array, kind: np.dtype[Any], delta: float, border: int, scale: float = 1.0,
    up: bool = False,
) -> Array:  # fmt: skip
    """Rows filtered by ``x``, then columns by ``y``, times ``scale`` plus ``delta``; ``up``: halves are rounded up."""
    if not len(x) or not len(y):
        raise ShapeError("a filter kernel must not be empty")
    found = kernels.separable(image, x, y, kind, delta, border, scale, up)
    if found is not None:
        return found
    wide = _padded(image, len(x), len(y), border)
    total = weighted(wide, x, y, image.shape) * wide.dtype.type(scale)
    total = total + wide.dtype.type(delta) if delta else total
    return to_dtype(np.floor(total + 0.5) if up and kind.kind in "iu" else total, kind)


def weighted(wide: Array, x: Array, y: Array, shape: tuple[int, ...]) -> Array:
    """Sums of ``len(x)`` neighbours along rows, then of ``len(y)`` along columns, of a padded picture."""
    result = np.empty(shape, wide.dtype)
    step = max(_STRIP // max(math.prod(shape[1:]), 1), 1)
    for top in range(0, shape[0], step):  # strips stay in the cache
        height = min(step, shape[0] - top)
        part = wide[top : top + height + len(y) - 1]
        rows = np.multiply(part[:, : shape[1]], wide.dtype.type(x[0]))
        scratch = np.empty_like(rows)
        for j, weight in enumerate(x.tolist()[1:], 1):
            if weight:
                rows += np.multiply(part[:, j : j + shape[1]], wide.dtype.type(weight), out=scratch)
        total = np.multiply(rows[:height], wide.dtype.type(y[0]), out=result[top : top + height])
        for i, weight in enumerate(y.tolist()[1:], 1):
            if weight:
                total += np.multiply(rows[i : i + height], wide.dtype.type(weight), out=scratch[:height])
    return result


def depth(ddepth: int, image: Array) -> np.dtype[Any]:
    if ddepth == -1:
        return image.dtype
    if ddepth not in _DEPTHS:
        raise MNNError(f"ddepth is {ddepth}; it must be -1 or one of {dict(_DEPTHS)}")
    return np.dtype(_DEPTHS[ddepth])


def _padded(image: Array, width: int, height: int, border: int) -> Array:
    left, top = width // 2, height // 2
    padded = pad(image, top, height - 1 - top, left, width - 1 - left, border)
    return padded.astype(np.float64 if math.prod((width, height)) > 1024 or image.dtype.itemsize > 2 else np.float32)
