"""Resizing as a weighted sum of a few rows, then of a few columns. Half-pixel centres, as in OpenCV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array, as_planes, size, to_dtype
from MNN.cv._color import convert_color
from MNN.cv._constants import INTER_LINEAR
from MNN.cv.kernels import resampling as kernels
from MNN.cv.kernels.taps import Taps, taps
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var


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
    result = kernels.resized(image, (new_width, new_height), (fx, fy), interpolation)
    if result is None:
        rows = taps(height, new_height, fy, interpolation, shrinks)
        columns = taps(width, new_width, fx, interpolation, shrinks)
        result = _apply(image, rows, columns)
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


def _apply(image: Array, rows: Taps, columns: Taps) -> Array:
    """Weighted sums of rows, then of columns; rounded to the picture's type at the end."""
    kind = image.dtype
    wide = np.dtype(np.float64) if kind.itemsize > 2 and kind != np.float32 else np.dtype(np.float32)
    result = _weigh(_weigh(image, rows, 0, wide), columns, 1, wide)
    if kind == np.bool_:
        return result >= 0.5
    return to_dtype(result, kind)


def _weigh(image: Array, way: Taps, axis: int, wide: np.dtype[Any]) -> Array:
    positions, weights = way.places(image.shape[axis]), way.weights
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
