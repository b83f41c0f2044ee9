"""Resizing as a weighted sum of a few rows, then of a few columns. Half-pixel centres, as in OpenCV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array, as_planes, size, to_dtype
from MNN.cv._color import convert_color
from MNN.cv._constants import (
    INTER_AREA,
    INTER_CUBIC,
    INTER_LANCZOS4,
    INTER_LINEAR,
    INTER_LINEAR_EXACT,
    INTER_NEAREST,
    INTER_NEAREST_EXACT,
)
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

Taps = tuple[Array, Array]
"""Source positions and weights, int and float32 of shape (outputs, taps)."""


def resize(
    src: ArrayLike,
    dsize: Sequence[int] | None = None,
    fx: float | None = None,
    fy: float | None = None,
    interpolation: int = INTER_LINEAR,
    code: int | None = None,
    mean: Sequence[float] = (),
    norm: Sequence[float] = (),
) -> Var:
    """The picture at the size ``dsize`` = (width, height), or scaled by ``fx`` and ``fy``.

    src (h, w) or (h, w, channels) of any number type; the result (height, width, channels) keeps it unless ``mean`` or
    ``norm`` is given: then it is float32 ``(pixel - mean) * norm``. ``code`` (``COLOR_*``) converts colours in between.
    """
    image = as_planes(src)
    height, width = image.shape[:2]
    if dsize is not None and len(as_array(dsize, "dsize")):
        new_width, new_height = size(dsize)
        fx, fy = new_width / width, new_height / height
    else:
        if not fx or not fy or not 0 < fx < 1e5 or not 0 < fy < 1e5:
            raise MNNError(f"resize needs dsize, or fx and fy above 0; they are {dsize}, {fx}, {fy}")
        new_width, new_height = max(round(width * fx), 1), max(round(height * fy), 1)
    shrinks = fx <= 1 and fy <= 1
    rows = taps(height, new_height, fy, interpolation, shrinks)
    columns = taps(width, new_width, fx, interpolation, shrinks)
    result = apply(image, rows, columns)
    return _wrap(finish(result, code, mean, norm))


def finish(image: Array, code: int | None, mean: Sequence[float], norm: Sequence[float]) -> Array:
    """The colour conversion and normalisation that resizing and warping offer on the way."""
    if code is not None and code >= 0:
        image = convert_color(image, code)
    if len(mean) or len(norm):
        channels = image.shape[2]
        for name, values in (("mean", mean), ("norm", norm)):
            if len(values) not in (0, 1, channels):
                raise ShapeError(f"{name} has {len(values)} values; the picture has {channels} channels")
        image = image.astype(np.float32)
        if len(mean):
            image = image - np.asarray(mean, np.float32)
        if len(norm):
            image = image * np.asarray(norm, np.float32)
    return image


def apply(image: Array, rows: Taps, columns: Taps) -> Array:
    """Weighted sums of rows, then of columns; rounded to the picture's type at the end."""
    kind = image.dtype
    wide = np.dtype(np.float64) if kind.itemsize > 2 and kind != np.float32 else np.dtype(np.float32)
    result = _weigh(_weigh(image, rows, 0, wide), columns, 1, wide)
    if kind == np.bool_:
        return result >= 0.5
    return to_dtype(result, kind)


def _weigh(image: Array, way: Taps, axis: int, wide: np.dtype[Any]) -> Array:
    positions, weights = way
    if positions.shape[1] == 1 and (weights == 1).all():
        return image.take(positions[:, 0], axis)  # type stays: nothing to round
    shape = [1] * image.ndim
    shape[axis] = len(positions)
    total: Array | None = None
    for i in range(positions.shape[1]):
        part = image.take(positions[:, i], axis).astype(wide)
        part *= weights[:, i].astype(wide).reshape(shape)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    return total


def taps(source: int, wanted: int, factor: float, interpolation: int, shrinks: bool) -> Taps:
    """Which source positions make each output, and with what weights; ``factor`` is output over source size."""
    places = np.arange(wanted)
    scale = 1 / factor  # not source / wanted: the last bit decides ties, and OpenCV has this one
    if interpolation == INTER_NEAREST:
        return _clamped(np.floor(places * scale).astype(np.int64)[:, None], np.ones((wanted, 1)), source)
    if interpolation == INTER_NEAREST_EXACT:
        return _clamped((2 * places[:, None] + 1) * source // (2 * wanted), np.ones((wanted, 1)), source)
    centers = (places + 0.5) * scale - 0.5
    if interpolation == INTER_AREA and shrinks:
        return _area(source, wanted, scale)
    base = np.floor(centers).astype(np.int64)
    fraction = centers - base
    if interpolation == INTER_AREA:  # enlarging: pixels stay flat, only their borders are blended
        base = np.floor(places * scale).astype(np.int64)
        fraction = ((places + 1) - (base + 1) * factor).astype(np.float32)  # where 0.99999999 is 1, as in OpenCV
        fraction = np.where(fraction <= 0, 0.0, fraction - np.floor(fraction))
        interpolation = INTER_LINEAR
    if interpolation in (INTER_LINEAR, INTER_LINEAR_EXACT):
        return _clamped(base[:, None] + np.arange(2), np.stack([1 - fraction, fraction], 1), source)
    if interpolation == INTER_CUBIC:
        return _clamped(base[:, None] + np.arange(-1, 3), cubic(fraction), source)
    if interpolation == INTER_LANCZOS4:
        return _clamped(base[:, None] + np.arange(-3, 5), lanczos4(fraction), source)
    raise MNNError(f"the interpolation {interpolation} is unknown; use INTER_NEAREST, _LINEAR, _CUBIC, _AREA, ...")


def cubic(fraction: Array, a: float = -0.75) -> Array:
    """Weights of the 4 neighbours: Keys' cubic convolution (1981), with OpenCV's ``a``."""
    distance = np.abs(fraction[..., None] - np.arange(-1, 3))
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def lanczos4(fraction: Array) -> Array:
    """Weights of the 8 neighbours: sinc windowed by a sinc of four times the width, made to sum to 1."""
    distance = fraction[..., None] - np.arange(-3, 5)
    weights = np.where(np.abs(distance) < 4, np.sinc(distance) * np.sinc(distance / 4), 0.0)
    result: Array = weights / weights.sum(-1, keepdims=True)
    return result


def _area(source: int, wanted: int, scale: float) -> Taps:
    """Every output is the mean of the source interval that it covers."""
    start = np.arange(wanted) * scale
    end = np.minimum(start + scale, source)
    first = np.floor(start + 1e-9).astype(np.int64)
    count = int(np.max(np.ceil(end - 1e-9).astype(np.int64) - first))
    positions = first[:, None] + np.arange(max(count, 1))
    covered = np.minimum(positions + 1, end[:, None]) - np.maximum(positions, start[:, None])
    weights = np.where(covered > 1e-9, covered, 0.0)
    return _clamped(positions, weights / weights.sum(1, keepdims=True), source)


def _clamped(positions: Array, weights: Array, source: int) -> Taps:
    return np.clip(positions, 0, source - 1), weights.astype(np.float32)
