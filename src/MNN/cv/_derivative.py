"""Derivatives of pictures by Sobel's, Scharr's and Laplace's kernels, and image pyramids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_image, as_planes, size, to_dtype
from MNN.cv._border import pad
from MNN.cv._constants import BORDER_DEFAULT, BORDER_REFLECT_101
from MNN.cv._filter import correlate, depth, separable
from MNN.cv.kernels import pyramids as kernels
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

_SCHARR = -1


def derivative_kernel(order: int, ksize: int, normalize: bool = False) -> Array:
    """Weights of the derivative of an order: differences of a binomial smoothing (Sobel), or Scharr's."""
    if ksize == _SCHARR:
        if order not in (0, 1):
            raise MNNError(f"Scharr's kernels are for orders 0 and 1, found {order}")
        smooth = np.array([3.0, 10.0, 3.0]) / (32.0 if normalize else 1.0)
        return np.array([-1.0, 0.0, 1.0]) if order else smooth
    if ksize == 1 and order > 0:
        ksize = 3
    if ksize % 2 == 0 or not 1 <= ksize <= 31 or not 0 <= order < ksize:
        raise MNNError(f"a derivative of order {order} needs an odd ksize above it, up to 31; found {ksize}")
    weights = np.ones(1)
    for _ in range(ksize - order - 1):
        weights = np.convolve(weights, [1.0, 1.0])
    for _ in range(order):
        weights = np.convolve(weights, [-1.0, 1.0])
    return weights / float(1 << (ksize - order - 1)) if normalize else weights


def getDerivKernels(dx: int, dy: int, ksize: int, normalize: bool = False) -> tuple[Var, Var]:  # noqa: N802
    """The row and column kernels (1, k) of :func:`Sobel`, or with ksize -1 of :func:`Scharr`; float32."""
    if dx < 0 or dy < 0 or dx + dy == 0:
        raise MNNError(f"dx and dy must not be negative, nor both 0; they are {dx} and {dy}")
    found = (derivative_kernel(order, ksize, normalize).astype(np.float32)[None] for order in (dx, dy))
    x, y = (_wrap(k) for k in found)
    return x, y


def Sobel(  # noqa: N802
    src: ArrayLike, ddepth: int, dx: int, dy: int, ksize: int = 3, scale: float = 1, delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> Var:  # fmt: skip
    """The derivative of order ``dx`` along rows and ``dy`` along columns, times ``scale``, plus ``delta``."""
    if dx < 0 or dy < 0 or dx + dy == 0:
        raise MNNError(f"dx and dy must not be negative, nor both 0; they are {dx} and {dy}")
    return _wrap(_derived(as_image(src), ddepth, dx, dy, ksize, scale, delta, borderType))


def Scharr(  # noqa: N802
    src: ArrayLike, ddepth: int, dx: int, dy: int, scale: float = 1, delta: float = 0, borderType: int = BORDER_DEFAULT
) -> Var:
    """The first derivative along rows (1, 0) or columns (0, 1) by Scharr's kernel."""
    if (dx, dy) not in ((0, 1), (1, 0)):
        raise MNNError(f"Scharr's derivative is (1, 0) or (0, 1), found {(dx, dy)}")
    return _wrap(_derived(as_image(src), ddepth, dx, dy, _SCHARR, scale, delta, borderType))


def _derived(image: Array, ddepth: int, dx: int, dy: int, ksize: int, scale: float, delta: float, border: int) -> Array:
    x, y = derivative_kernel(dx, ksize), derivative_kernel(dy, ksize)
    return separable(image, x, y * scale, depth(ddepth, image), delta, border)


def Laplacian(  # noqa: N802
    src: ArrayLike, ddepth: int, ksize: int = 1, scale: float = 1, delta: float = 0, borderType: int = BORDER_DEFAULT
) -> Var:
    """The sum of both second derivatives, times ``scale``, plus ``delta``; ``ksize`` 1 looks at four neighbours."""
    image = as_image(src)
    if ksize in (1, 3):
        corner, side, middle = (0.0, 1.0, -4.0) if ksize == 1 else (2.0, 0.0, -8.0)
        kernel = np.array([[corner, side, corner], [side, middle, side], [corner, side, corner]])
    else:
        second, smooth = derivative_kernel(2, ksize), derivative_kernel(0, ksize)
        kernel = np.outer(smooth, second) + np.outer(second, smooth)
    return _wrap(correlate(image, kernel * scale, depth(ddepth, image), delta, borderType))


def spatialGradient(src: ArrayLike, ksize: int = 3, borderType: int = BORDER_DEFAULT) -> tuple[Var, Var]:  # noqa: N802
    """Both first derivatives of a uint8 picture of one channel, as whole numbers."""
    image = as_image(src)
    if image.dtype != np.uint8 or (image.ndim == 3 and image.shape[2] != 1):
        raise ShapeError(f"spatialGradient() takes a uint8 picture of one channel, found {image.dtype} {image.shape}")
    if ksize != 3:
        raise MNNError(f"spatialGradient(): ksize is 3, found {ksize}")
    x, y = (_derived(image, 3, dx, 1 - dx, ksize, 1, 0, borderType) for dx in (1, 0))
    return _wrap(x), _wrap(y)


# -- pyramids ---------------------------------------------------------------------------------------------------------

_BINOMIAL = np.array([1.0, 4.0, 6.0, 4.0, 1.0])


def _shifted(total: Array, kind: np.dtype, bits: int) -> Array:
    """Sums of weights of ``2^bits``: halves of whole numbers go up."""
    if kind.kind == "f":
        return (total / (1 << bits)).astype(kind)
    return to_dtype(np.floor((total + (1 << (bits - 1))) / (1 << bits)), kind)


def pyrDown(  # noqa: N802
    src: ArrayLike, dstsize: Sequence[int] | None = None, borderType: int = BORDER_DEFAULT
) -> Var:
    """The picture smoothed and at half its size, (w + 1) // 2 and (h + 1) // 2 unless ``dstsize`` says otherwise."""
    image = as_image(src)
    height, width = image.shape[:2]
    new_width, new_height = _wanted(dstsize, (width + 1) // 2, (height + 1) // 2)
    if abs(new_width * 2 - width) > 2 or abs(new_height * 2 - height) > 2:
        raise ShapeError(f"pyrDown(): {(new_width, new_height)} is not half of {(width, height)}")
    if (found := kernels.pyramid(as_planes(src), (new_width, new_height), False, borderType)) is not None:
        return _wrap(found.reshape(new_height, new_width, *image.shape[2:]))
    right, bottom = (max(2 * n + 1 - have, 0) for n, have in ((new_width, width), (new_height, height)))
    wide = pad(image, 2, bottom, 2, right, borderType).astype(np.float64 if image.dtype.itemsize > 2 else np.float32)
    rows = sum(w * wide[i : i + 2 * new_height - 1 : 2] for i, w in enumerate(_BINOMIAL.tolist()))
    total = sum(w * np.asarray(rows)[:, i : i + 2 * new_width - 1 : 2] for i, w in enumerate(_BINOMIAL.tolist()))
    return _wrap(_shifted(np.asarray(total), image.dtype, 8))


def pyrUp(  # noqa: N802
    src: ArrayLike, dstsize: Sequence[int] | None = None, borderType: int = BORDER_DEFAULT
) -> Var:
    """The picture at twice its size (one more or less if ``dstsize`` says so), smoothed."""
    image = as_image(src)
    height, width = image.shape[:2]
    new_width, new_height = _wanted(dstsize, 2 * width, 2 * height)
    if abs(new_width - 2 * width) > 1 or abs(new_height - 2 * height) > 1:
        raise ShapeError(f"pyrUp(): {(new_width, new_height)} is not twice {(width, height)}")
    if borderType != BORDER_REFLECT_101:
        raise MNNError("pyrUp() knows BORDER_DEFAULT alone")
    if (found := kernels.pyramid(as_planes(src), (new_width, new_height), True, borderType)) is not None:
        return _wrap(found.reshape(new_height, new_width, *image.shape[2:]))
    wide = image.astype(np.float64 if image.dtype.itemsize > 2 else np.float32)
    total = _doubled(_doubled(wide, 0, new_height), 1, new_width)
    return _wrap(_shifted(total, image.dtype, 6))


def _wanted(dstsize: Sequence[int] | None, width: int, height: int) -> tuple[int, int]:
    if dstsize is None or not len(dstsize) or tuple(dstsize) == (0, 0):
        return width, height
    return size(dstsize, "dstsize")


def _doubled(values: Array, axis: int, wanted: int) -> Array:
    """Twice as many along an axis: old places see 1 6 1 of their neighbours, new ones 4 4."""
    moved = np.moveaxis(values, axis, 0)
    count = len(moved)
    before = moved[np.abs(np.arange(count) - 1) % max(count, 1) if count > 1 else [0]]
    after = moved[np.minimum(np.arange(count) + 1, count - 1)]
    both = np.empty((2 * count, *moved.shape[1:]), moved.dtype)
    both[0::2] = before + 6 * moved + after
    both[1::2] = 4 * (moved + after)
    if wanted > len(both):
        both = np.concatenate([both, both[-2:-1] if axis == 0 else both[-1:]])  # as OpenCV has it
    return np.moveaxis(both[:wanted], 0, axis)
