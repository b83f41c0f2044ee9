"""What lies outside of a picture."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array, as_image, to_dtype
from MNN.cv._constants import BORDER_CONSTANT, BORDER_REFLECT, BORDER_REFLECT_101
from MNN.cv.kernels.framing import framed
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

EDGE = -101
"""The edge goes on: a border of functions that have no choice of it, none that a caller may ask for."""


def inside(places: Array, length: int, border: int) -> Array:
    """Positions brought into ``0 <= p < length`` by reflection; with ``BORDER_CONSTANT``, -1 where outside."""
    if border == BORDER_CONSTANT:
        return np.where((places >= 0) & (places < length), places, -1)
    if border == BORDER_REFLECT_101:  # dcb|abcd|cba
        period = max(2 * (length - 1), 1)
        folded = np.abs(places) % period
        result: Array = np.where(folded < length, folded, period - folded) if length > 1 else np.zeros_like(places)
        return result
    if border == BORDER_REFLECT:  # cba|abcd|dcb
        folded = places % (2 * length)
        return np.where(folded < length, folded, 2 * length - 1 - folded)
    if border == EDGE:
        return np.clip(places, 0, length - 1)
    raise MNNError(f"the border {border} is unknown; use BORDER_CONSTANT, BORDER_REFLECT or BORDER_REFLECT_101")


@functools.cache
def _placing(border: int) -> Callable[[Array, int], Array]:
    """What brings positions inside, one object for each border."""
    return functools.partial(inside, border=border)


def pad(image: Array, top: int, bottom: int, left: int, right: int, border: int, value: object = 0) -> Array:
    """The picture with a border around it; ``value`` (one number or one per channel) for ``BORDER_CONSTANT``."""
    height, width = image.shape[:2]
    outside = fill(value, image) if border == BORDER_CONSTANT else None
    if (found := framed(image, (top, bottom, left, right), _placing(border), outside)) is not None:
        return found
    result = np.empty((top + height + bottom, left + width + right, *image.shape[2:]), image.dtype)
    middle = result[top : top + height]
    middle[:, left : left + width] = image
    for axis, length, before, behind, part in ((1, width, left, right, middle), (0, height, top, bottom, result)):
        target = np.swapaxes(part, 0, axis)
        source = target[before : before + length]
        for start, count in ((-before, before), (length, behind)):
            if count:
                strip = source[inside(np.arange(start, start + count), length, border)] if outside is None else outside
                target[before + start : before + start + count] = strip
    return result


def fill(value: object, image: Array) -> Array:
    """A border value in the picture's type, rounded and within its bounds: one number per channel (fewer are filled up
    with 0) or one for all. It must not be written to."""
    channels = image.shape[2] if image.ndim == 3 else None
    if type(value) is int or type(value) is float:
        return _filled((value,), image.dtype, channels)
    if type(value) is not tuple:
        value = tuple(np.atleast_1d(as_array(value, "a border value")).ravel().tolist())
    return _filled(value, image.dtype, channels)


@functools.lru_cache(maxsize=256)
def _filled(value: tuple[Any, ...], dtype: np.dtype[Any], channels: int | None) -> Array:
    values = as_array(value, "a border value").astype(np.float64).ravel()
    if values.size > 1:
        count = channels or 1
        if values.size > max(count, 4):
            raise ShapeError(f"a border value has {values.size} numbers; the picture has {count} channels")
        values = np.concatenate([values, np.zeros(count)])[:count]
    if dtype.kind in "iu":
        values = np.nan_to_num(values)
    found = to_dtype(values, dtype)
    found.flags.writeable = False
    return found if channels is not None else found[0]


def copyMakeBorder(  # noqa: N802
    src: ArrayLike, top: int, bottom: int, left: int, right: int, borderType: int, value: float | Sequence[float] = 0
) -> Var:
    """The picture with ``top``, ``bottom``, ``left`` and ``right`` pixels of border added."""
    if min(top, bottom, left, right) < 0:
        raise MNNError(f"border widths must not be negative; they are {(top, bottom, left, right)}")
    return _wrap(pad(as_image(src), top, bottom, left, right, borderType, value))
