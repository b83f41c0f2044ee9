"""Erosion and dilation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array, as_image, size
from MNN.cv._border import pad
from MNN.cv._constants import BORDER_CONSTANT
from MNN.cv.kernels import filters as kernels
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var


def getStructuringElement(shape: int, ksize: Sequence[int]) -> Var:  # noqa: N802
    """Ones of a rectangle (0), a cross (1) or an ellipse (2) of (width, height) ``ksize``, zeros around; uint8."""
    width, height = size(ksize, "ksize")
    if shape not in (0, 1, 2):
        raise MNNError(f"shape is {shape}; it must be 0 (rectangle), 1 (cross) or 2 (ellipse)")
    if shape == 0 or (width, height) == (1, 1):
        return _wrap(np.ones((height, width), np.uint8))
    element = np.zeros((height, width), np.uint8)
    x, y = width // 2, height // 2
    if shape == 1:
        element[y, :] = element[:, x] = 1
        return _wrap(element)
    for i in range(height):
        if abs(i - y) <= y:
            reach = round(x * math.sqrt((y * y - (i - y) ** 2) / (y * y))) if y else 0
            element[i, max(x - reach, 0) : x + reach + 1] = 1
    return _wrap(element)


def erode(src: ArrayLike, kernel: ArrayLike, iterations: int = 1, borderType: int = BORDER_CONSTANT) -> Var:
    """The smallest value under the kernel's non-zero elements, ``iterations`` times. What lies outside with
    ``BORDER_CONSTANT`` does not count, nor does NaN (of nothing else the smallest is infinity)."""
    return _wrap(_extreme(as_image(src), kernel, iterations, borderType, np.minimum, True))


def dilate(src: ArrayLike, kernel: ArrayLike, iterations: int = 1, borderType: int = BORDER_CONSTANT) -> Var:
    """The largest value under the kernel's non-zero elements, else like :func:`erode`."""
    return _wrap(_extreme(as_image(src), kernel, iterations, borderType, np.maximum, False))


def _extreme(image: Array, kernel: object, times: int, border: int, better: Callable[..., Array], least: bool) -> Array:
    element = as_array(kernel, "kernel") != 0
    element = element if element.size else np.ones((3, 3), np.bool_)
    if element.ndim != 2:
        raise ShapeError(f"kernel must have the shape (height, width); it has {element.shape}")
    if times < 0 or not element.any():
        raise MNNError(f"iterations must not be negative nor the kernel be all zeros; found {times} and {element}")
    info: np.iinfo | np.finfo = np.iinfo(image.dtype) if image.dtype.kind in "iu" else np.finfo(image.dtype)
    outside = info.max if least else info.min  # also of floats, where the kernel sees nothing else
    top, left = element.shape[0] // 2, element.shape[1] // 2
    if element.all() and times > 1:  # one larger rectangle
        top, left = top * times, left * times
        element = np.ones([1 + times * (n - 1) for n in element.shape], np.bool_)
        times = 1
    for _ in range(times):
        found = kernels.extreme(image, element, (top, left), border, float(outside), least)
        if found is not None:
            image = found
            continue
        wide = pad(image, top, element.shape[0] - 1 - top, left, element.shape[1] - 1 - left, border, outside)
        if image.dtype.kind == "f":
            wide = np.where(np.isnan(wide), np.inf if least else -np.inf, wide)
        if element.all():
            image = _running(_running(wide, element.shape[0], 0, better), element.shape[1], 1, better)
        else:
            image = _under(wide, element, image.shape, better)
    return image


def _under(wide: Array, element: Array, shape: tuple[int, ...], better: Callable[..., Array]) -> Array:
    found: Array | None = None
    for i, j in np.argwhere(element).tolist():
        part = wide[i : i + shape[0], j : j + shape[1]]
        found = part.copy() if found is None else better(found, part, out=found)
    assert found is not None
    return found


def _running(values: Array, length: int, axis: int, better: Callable[..., Array]) -> Array:
    """The extreme of every ``length`` neighbours along an axis: windows double until they are long enough."""
    moved = values if axis == 0 else np.swapaxes(values, 0, 1)
    reach = 1
    while reach < length:
        step = min(reach, length - reach)
        moved = better(moved[: len(moved) - step], moved[step:])
        reach += step
    return np.ascontiguousarray(moved if axis == 0 else np.swapaxes(moved, 0, 1))
