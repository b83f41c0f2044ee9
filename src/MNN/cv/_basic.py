"""Turning, splitting, blending and measuring pictures."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array, as_image, as_pictures, as_planes, to_dtype
from MNN.cv._constants import (
    NORM_INF,
    NORM_L1,
    NORM_L2,
    NORM_MINMAX,
    ROTATE_90_CLOCKWISE,
    ROTATE_90_COUNTERCLOCKWISE,
    ROTATE_180,
    THRESH_BINARY,
    THRESH_BINARY_INV,
    THRESH_MASK,
    THRESH_OTSU,
    THRESH_TOZERO,
    THRESH_TOZERO_INV,
    THRESH_TRIANGLE,
    THRESH_TRUNC,
)
from MNN.cv.kernels import arithmetic as kernels
from MNN.cv.kernels import arranging, histograms, regions
from MNN.errors import MNNError, ShapeError
from MNN.expr.types import ElementType, dtype_of
from MNN.expr.var import Var


def flip(src: ArrayLike, flipCode: int) -> Var:
    """The picture upside down (0), mirrored (> 0) or both (< 0)."""
    image = as_image(src)
    if flipCode == 0:
        return _wrap(image[::-1].copy())
    if (found := arranging.mirrored(image, flipCode < 0)) is not None:
        return _wrap(found)
    return _moved(image, lambda pixels: pixels[:, ::-1] if flipCode > 0 else pixels[::-1, ::-1])


def rotate(src: ArrayLike, rotateMode: int) -> Var:
    """The picture turned by ``ROTATE_90_CLOCKWISE``, ``ROTATE_180`` or ``ROTATE_90_COUNTERCLOCKWISE``."""
    turns = {ROTATE_90_CLOCKWISE: 3, ROTATE_180: 2, ROTATE_90_COUNTERCLOCKWISE: 1}.get(rotateMode)
    if turns is None:
        raise MNNError(f"rotateMode is {rotateMode}; it must be one of ROTATE_*")
    image = as_image(src)
    found = arranging.mirrored(image, True) if turns == 2 else arranging.turned(image, turns == 3)
    return _moved(image, lambda pixels: np.rot90(pixels, turns)) if found is None else _wrap(found)


def _moved(image: Array, move: Callable[[Array], Array]) -> Var:
    """A picture (h, w) or (h, w, channels) whose pixels ``move`` orders anew, in (h, w): each is one element for it,
    which numpy copies several times as fast as an axis of a few channels."""
    if image.ndim == 2 or not image.size:
        return _wrap(move(image).copy())
    whole = np.ascontiguousarray(image)
    pixels = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[2])))[:, :, 0]
    moved = move(pixels).copy()
    return _wrap(moved.view(whole.dtype).reshape(*moved.shape, -1))


def split(m: ArrayLike) -> list[Var]:
    """The channels, each (h, w). What has no three axes comes back alone, as OpenCV has it."""
    array = as_array(m, "m")
    if array.ndim != 3:
        return [_wrap(np.array(array))]
    image = as_planes(m, "m")
    if (found := arranging.parted(image)) is not None:
        return [_wrap(channel) for channel in found]
    return [_wrap(image[:, :, i].copy()) for i in range(image.shape[2])]


def merge(mv: Sequence[ArrayLike]) -> Var:
    """One picture of several channels, each (h, w) or (h, w, c). Arrays of another number of axes get one more."""
    if type(mv) in (list, tuple) and mv and (usual := arranging.merged_planes(mv)) is not None:
        return _wrap(usual)
    arrays = [as_array(part, "mv") for part in mv]
    if arrays and arrays[0].ndim not in (2, 3) and (arrays[0].ndim != 4 or len(arrays[0]) != 1):
        return _wrap(_stacked(arrays))
    planes = [as_planes(part, "mv") for part in mv]
    found = arranging.merged(planes) if planes else None
    return _wrap(_join(planes, 2) if found is None else found)


def hconcat(src: Sequence[ArrayLike]) -> Var:
    """Pictures side by side."""
    return _wrap(_join([as_array(part) for part in src], 1))


def vconcat(src: Sequence[ArrayLike]) -> Var:
    """Pictures on top of each other."""
    return _wrap(_join([as_array(part) for part in src], 0))


def copyTo(src: ArrayLike, mask: ArrayLike | None = None, dst: ArrayLike | None = None) -> Var:  # noqa: N802
    """A copy of src where ``mask`` (h, w) is not 0; elsewhere dst, or 0."""
    return _wrap(_masked(as_pictures(src), mask, dst))


def bitwise_and(src1: ArrayLike, src2: ArrayLike, dst: ArrayLike | None = None, mask: ArrayLike | None = None) -> Var:
    """``src1 & src2`` where ``mask`` is not 0; elsewhere dst, or 0. Pictures of integers."""
    return _bitwise(np.bitwise_and, src1, src2, dst, mask)


def bitwise_or(src1: ArrayLike, src2: ArrayLike, dst: ArrayLike | None = None, mask: ArrayLike | None = None) -> Var:
    """``src1 | src2``, else like :func:`bitwise_and`."""
    return _bitwise(np.bitwise_or, src1, src2, dst, mask)


def bitwise_xor(src1: ArrayLike, src2: ArrayLike, dst: ArrayLike | None = None, mask: ArrayLike | None = None) -> Var:
    """``src1 ^ src2``, else like :func:`bitwise_and`."""
    return _bitwise(np.bitwise_xor, src1, src2, dst, mask)


def addWeighted(src1: ArrayLike, alpha: float, src2: ArrayLike, beta: float, gamma: float) -> Var:  # noqa: N802
    """``src1 * alpha + src2 * beta + gamma``, rounded and clamped to src1's type."""
    a, b = as_pictures(src1, "src1"), as_pictures(src2, "src2")
    _same(a, b)
    found = kernels.weighted(a, alpha, b, beta, gamma)
    if found is not None:
        return _wrap(found)
    total = a.astype(np.float64) * alpha + b.astype(np.float64) * beta + gamma
    return _wrap(to_dtype(total, a.dtype))


def mean(src: ArrayLike, mask: ArrayLike | None = None) -> Var:
    """The mean of each channel where ``mask`` is not 0: float32 of 4 values, 0 for channels that are not there."""
    image = as_planes(src)
    height, width, channels = image.shape
    result = np.zeros(max(4, channels), np.float32)
    count = height * width
    if mask is not None:
        count = int(np.count_nonzero(_mask(mask, image)))
        image = _masked(image, mask, None)
    if count:  # rows first, which are long, then the few channels
        wide = np.uint32 if image.dtype == np.uint8 and height < 1 << 24 else np.float64
        columns = image.reshape(height, -1).sum(0, dtype=wide).reshape(width, channels)
        result[:channels] = columns.sum(0, dtype=np.float64) / count
    return _wrap(result)


def normalize(
    src: ArrayLike,
    dst: ArrayLike | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    norm_type: int | None = None,
    dtype: ElementType | None = None,
    mask: ArrayLike | None = None,
) -> Var:
    """The values scaled so that their norm (``NORM_L2`` by default, ``_L1``, ``_INF``) is ``alpha`` (1), or with
    ``NORM_MINMAX`` so that they span ``alpha`` to ``beta`` (0). Norm and change only where ``mask`` is not 0; elsewhere
    dst, or src. The result has the type ``dtype`` (default src's)."""
    image = as_array(src)
    kind = image.dtype if dtype is None else np.dtype(dtype_of(dtype).numpy)
    where = None if mask is None else _spread(_mask(mask, image), image)
    chosen = image if where is None else image[where]
    one, low, scale, shift = 1.0 if alpha is None else float(alpha), 0.0, 0.0, 0.0
    if norm_type == NORM_MINMAX:
        ends = sorted((one, 0.0 if beta is None else float(beta)))
        shift = ends[0]
        if chosen.size:
            low, high = float(chosen.min()), float(chosen.max())
            scale = (ends[1] - ends[0]) / (high - low) if high > low else 0.0
    else:
        norm = _norm(chosen, NORM_L2 if norm_type is None else norm_type)
        scale = one / norm if norm else 0.0

    def scaled(values: Array) -> Array:
        return to_dtype((values.astype(np.float64) - low) * scale + shift, kind)

    if where is None:
        found = kernels.by_table(image, scaled)
        found = kernels.scaled(image, low, scale, shift, kind) if found is None else found
        return _wrap(scaled(image) if found is None else found)
    return _wrap(np.where(where, scaled(image), to_dtype(image if dst is None else as_array(dst, "dst"), kind)))


def _norm(values: Array, kind: int) -> float:
    if kind == NORM_INF:
        return max(float(values.max()), -float(values.min())) if values.size else 0.0
    if kind not in (NORM_L1, NORM_L2):
        raise MNNError(f"norm_type is {kind}; it must be NORM_INF, NORM_L1, NORM_L2 or NORM_MINMAX")
    wide = values.astype(np.float64).ravel()
    return float(np.abs(wide).sum() if kind == NORM_L1 else math.sqrt(wide @ wide))


def threshold(src: ArrayLike, thresh: float, maxval: float, type: int) -> Var:
    """Each value compared with ``thresh``; ``type`` is one of ``THRESH_*``.

    With ``THRESH_OTSU`` (Otsu, 1979) or ``THRESH_TRIANGLE`` (Zack, Rogers, Latt, 1977) added, the threshold comes from
    the histogram of a uint8 picture of one channel.
    """
    image = as_pictures(src)
    if type & (THRESH_OTSU | THRESH_TRIANGLE):
        if image.dtype != np.uint8 or (image.ndim > 2 and image.shape[-1] != 1):
            raise ShapeError("choosing a threshold needs a uint8 picture of one channel")
        histogram = histograms.levels(image.reshape(1, -1), None).astype(np.int64)
        thresh = _otsu(histogram) if type & THRESH_OTSU else _triangle(histogram)
    if math.isnan(thresh) or math.isnan(maxval):
        raise MNNError(f"thresh and maxval must be numbers; they are {thresh} and {maxval}")
    if image.dtype.kind in "iu" and not math.isinf(thresh):
        thresh = float(math.floor(thresh))
    if type & THRESH_MASK not in _CHOICES:
        raise MNNError(f"type is {type}; it must be one of THRESH_*")
    return _wrap(_compared(image, thresh, maxval, type & THRESH_MASK))


_CHOICES = {
    THRESH_BINARY: ("top", "zero"),
    THRESH_BINARY_INV: ("zero", "top"),
    THRESH_TRUNC: ("level", "image"),
    THRESH_TOZERO: ("image", "zero"),
    THRESH_TOZERO_INV: ("zero", "image"),
}
"""What a threshold makes of numbers above it, and of others."""


def _compared(image: Array, thresh: float, maxval: float, kind: int) -> Array:
    values = _levels(thresh, maxval, image.dtype)
    high, low = (values[name] for name in _CHOICES[kind])
    found = kernels.selected(image, thresh, high, low)
    if found is not None:
        return found
    with np.errstate(over="ignore"):  # what is beyond f32 is infinite
        high, low = (image if value is None else image.dtype.type(value) for value in (high, low))
        return np.where(image > thresh, high, low)


@functools.lru_cache(maxsize=64)
def _levels(thresh: float, maxval: float, kind: np.dtype[Any]) -> dict[str, Any]:
    """What pictures of a type become; None for what they are."""
    with np.errstate(over="ignore"):
        top, level = (to_dtype(np.asarray(float(n)), kind).item() for n in (maxval, thresh))
    return {"image": None, "top": top, "level": level, "zero": 0}


def _otsu(histogram: Array) -> float:
    """The level that maximises the variance between the two classes."""
    share = histogram / histogram.sum()
    below = np.cumsum(share)
    moment = np.cumsum(share * np.arange(256))
    spread = below * (1 - below)
    valid = spread > 1e-12
    between = np.where(valid, (moment[-1] * below - moment) ** 2 / np.where(valid, spread, 1), 0.0)
    return float(np.argmax(between))


def _triangle(histogram: Array) -> float:
    """The level farthest below the line from the histogram's peak to the end of its longer tail."""
    used = np.flatnonzero(histogram)
    left, right = max(int(used[0]) - 1, 0), min(int(used[-1]) + 1, 255)
    peak = int(np.argmax(histogram))
    mirrored = peak - left < right - peak
    counts = histogram[::-1] if mirrored else histogram
    if mirrored:
        left, peak = 255 - right, 255 - peak
    levels = np.arange(left + 1, peak + 1)
    distance = counts[peak] * levels + (left - peak) * counts[levels]
    best = int(levels[np.argmax(distance)]) if len(levels) and distance.max() > 0 else left
    best -= 1
    return float(255 - best if mirrored else best)


def _bitwise(operation: Callable[[Array, Array], Array], src1: object, src2: object, dst: object, mask: object) -> Var:
    a, b = as_pictures(src1, "src1"), as_pictures(src2, "src2")
    _same(a, b)
    if a.dtype.kind not in "biu" or b.dtype.kind not in "biu":
        raise MNNError(f"bits need integers; src1 and src2 are {a.dtype} and {b.dtype}")
    found = operation(a, b)
    return _wrap(found if mask is None else _masked(found, mask, dst))


def _masked(image: Array, mask: object, dst: object) -> Array:
    if mask is None:
        return np.array(image)
    numbers, other = _mask_numbers(mask, image), None
    if dst is not None:
        other = np.asarray(as_pictures(dst, "dst"), image.dtype)
        _same(image, other)
    if (found := kernels.chosen(image, numbers, other)) is not None:
        return found
    result = np.zeros(image.shape, image.dtype) if other is None else np.array(other, order="C")
    if not regions.masked(image, numbers, result):
        np.copyto(result, image, where=_spread(numbers != 0, image))
    return result


def _mask(mask: object, image: Array) -> Array:
    chosen: Array = _mask_numbers(mask, image) != 0
    return chosen


def _mask_numbers(mask: object, image: Array) -> Array:
    """A mask (h, w) as it is given."""
    array = as_image(mask, "mask")
    array = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    sizes = image.shape[-3:-1] if image.ndim == 4 else image.shape[:2]
    if array.shape != sizes:
        raise ShapeError(f"mask has shape {array.shape}; one for such pictures has {sizes}")
    return array


def _spread(mask: Array, image: Array) -> Array:
    return np.broadcast_to(mask if image.ndim == 2 else mask[:, :, None], image.shape)


def _same(a: Array, b: Array) -> None:
    if a.shape != b.shape:
        raise ShapeError(f"the pictures must have one shape; they have {a.shape} and {b.shape}")


def _stacked(parts: list[Array]) -> Array:
    if len({p.shape for p in parts}) > 1:
        raise ShapeError(f"pictures of the shapes {[p.shape for p in parts]} do not fit together")
    return np.stack(parts, -1)


def _join(parts: list[Array], axis: int) -> Array:
    try:
        return np.concatenate(parts, axis)
    except ValueError as error:
        raise ShapeError(f"pictures of the shapes {[p.shape for p in parts]} do not fit together: {error}") from error
