"""Affine and perspective maps of pictures, and the matrices that describe them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array, as_image, as_planes, pair, size, to_dtype
from MNN.cv._border import fill, inside
from MNN.cv._constants import (
    BORDER_CONSTANT,
    BORDER_REFLECT_101,
    INTER_CUBIC,
    INTER_LINEAR,
    INTER_NEAREST,
    WARP_FILL_OUTLIERS,
    WARP_INVERSE_MAP,
)
from MNN.cv._resample import finish
from MNN.cv.kernels import warping as kernels
from MNN.cv.kernels.arithmetic import blended
from MNN.cv.kernels.filters import between
from MNN.cv.kernels.taps import cubic
from MNN.cv.preprocess.matrix import CVMatrix
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

_STRIP = 1 << 14
"""About how many places are sampled at a time."""


def getRotationMatrix2D(center: Sequence[float], angle: float, scale: float) -> CVMatrix:  # noqa: N802
    """The 2 x 3 matrix (float64) that turns about ``center`` by ``angle`` degrees (anticlockwise) and scales."""
    x, y = pair(center, "center")
    a, b = scale * math.cos(math.radians(angle)), scale * math.sin(math.radians(angle))
    return CVMatrix.of(np.array([[a, b, (1 - a) * x - b * y], [-b, a, b * x + (1 - a) * y]]))


def getAffineTransform(src: ArrayLike, dst: ArrayLike) -> CVMatrix:  # noqa: N802
    """The 2 x 3 matrix (float64) that takes three points to three others; points as 6 numbers or (3, 2)."""
    a, b = _points(src, 3, "src"), _points(dst, 3, "dst")
    return CVMatrix.of(_solve(np.hstack([a, np.ones((3, 1))]), b, "src").T)


def getPerspectiveTransform(src: ArrayLike, dst: ArrayLike) -> CVMatrix:  # noqa: N802
    """The 3 x 3 matrix (float64, last element 1) that takes four points to four others; as 8 numbers or (4, 2)."""
    a, b = _points(src, 4, "src"), _points(dst, 4, "dst")
    rows, values = [], []
    for (x, y), (u, v) in zip(a, b, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -x * u, -y * u], [0, 0, 0, x, y, 1, -x * v, -y * v]]
        values += [u, v]
    return CVMatrix.of(np.append(_solve(np.array(rows), np.array(values), "src"), 1.0).reshape(3, 3))


def invertAffineTransform(m: ArrayLike) -> CVMatrix:  # noqa: N802
    """The inverse of a 2 x 3 matrix; all zeros if there is none."""
    matrix = _matrix(m, "m")
    if np.linalg.det(matrix[:2, :2]) == 0:
        return CVMatrix.of(np.zeros((2, 3)))
    return CVMatrix.of(np.linalg.inv(matrix)[:2])


def warpAffine(  # noqa: N802
    src: ArrayLike,
    M: ArrayLike,
    dsize: Sequence[int],
    flag: int = INTER_LINEAR,
    borderMode: int = BORDER_CONSTANT,
    borderValue: float | Sequence[float] = 0,
    code: int | None = None,
    mean: Sequence[float] = (),
    norm: Sequence[float] = (),
) -> Var:
    """The picture under the affine map ``M`` (2 x 3, or 3 x 3 of which two rows count), (height, width, channels) of
    ``dsize`` = (width, height).

    ``flag``: an ``INTER_*``, with ``WARP_INVERSE_MAP`` if ``M`` maps the result to the source. ``code``, ``mean`` and
    ``norm`` as in :func:`MNN.cv.resize`.
    """
    matrix = _matrix(M, "M")
    matrix[2] = 0, 0, 1
    return _wrap(finish(_warp(as_planes(src), matrix, dsize, flag, borderMode, borderValue), code, mean, norm))


def warpPerspective(  # noqa: N802
    src: ArrayLike,
    M: ArrayLike,
    dsize: Sequence[int],
    flag: int = INTER_LINEAR,
    borderMode: int = BORDER_CONSTANT,
    borderValue: float | Sequence[float] = 0,
) -> Var:
    """The picture under the perspective map ``M`` (3 x 3), cut to (width, height); flags as in :func:`warpAffine`."""
    return _wrap(_warp(as_planes(src), _matrix(M, "M"), dsize, flag, borderMode, borderValue))


def remap(
    src: ArrayLike,
    map1: ArrayLike,
    map2: ArrayLike | None,
    interpolation: int,
    borderMode: int = BORDER_CONSTANT,
    borderValue: float | Sequence[float] = 0,
) -> Var:
    """``result[i, j] = src[map2[i, j], map1[i, j]]``; the maps are float of the result's (height, width), or as
    :func:`convertMaps` gives them."""
    x, y = _floating(map1, map2)
    image = as_planes(src)
    if x.dtype == np.float32 and _surely_finite(x) and _surely_finite(y):
        found = kernels.remapped(image, x, y, interpolation, borderMode, fill(borderValue, image))
        if found is not None:
            return _wrap(found)
    return _wrap(sample(image, x.astype(np.float64), y.astype(np.float64), interpolation, borderMode, borderValue))


def _surely_finite(numbers: Array) -> bool:
    """Whether all numbers are finite, by one product, which takes a third of a sum; of some that are huge it says no,
    too."""
    flat = numbers.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(flat @ flat))


def getRectSubPix(image: ArrayLike, patchSize: Sequence[int], center: Sequence[float]) -> Var:  # noqa: N802
    """The rectangle of (width, height) ``patchSize`` about a point between pixels; the picture's edge goes on."""
    picture = as_image(image, "image")
    width, height = size(patchSize, "patchSize")
    x, y = pair(center, "center")
    x, y, planes = x - (width - 1) / 2, y - (height - 1) / 2, as_planes(picture)
    left, top = math.floor(x), math.floor(y)
    place = top, left, (width, height), y - top, x - left
    found = blended(planes, *place)
    found = between(planes, *place) if found is None else found
    if found is None:
        columns = np.clip(np.arange(width) + x, 0, picture.shape[1] - 1)
        rows = np.clip(np.arange(height) + y, 0, picture.shape[0] - 1)
        u, v = np.meshgrid(columns, rows)
        found = sample(planes, u, v, INTER_LINEAR, BORDER_REFLECT_101, 0)
    return _wrap(found if picture.ndim == 3 else found[:, :, 0])


def convertMaps(  # noqa: N802
    map1: ArrayLike, map2: ArrayLike | None, dstmap1type: int, nninterpolation: bool = False
) -> tuple[Var, Var | None]:
    """Maps of :func:`remap` in another form, in OpenCV's numbers: 5 is x and y as floats, 13 both in one array.

    11 is whole pixels (h, w, 2) and a table's index of 32ths (None with ``nninterpolation``)."""
    x, y = _floating(map1, map2)
    if dstmap1type == 5:
        return _wrap(x.astype(np.float32)), _wrap(y.astype(np.float32))
    if dstmap1type == 13:
        return _wrap(np.stack([x, y], 2).astype(np.float32)), None
    if dstmap1type != 11:
        raise MNNError(f"dstmap1type is {dstmap1type}; it must be 5, 11 or 13")
    if nninterpolation:
        return _wrap(np.rint(np.stack([x, y], 2)).astype(np.int16)), None
    u, v = np.rint(x * 32).astype(np.int32), np.rint(y * 32).astype(np.int32)
    return _wrap((np.stack([u, v], 2) >> 5).astype(np.int16)), _wrap(((v & 31) * 32 + (u & 31)).astype(np.uint16))


def _floating(map1: object, map2: object) -> tuple[Array, Array]:
    """Both maps, from any of their forms: float32 that is given as such, else float64."""
    first = as_array(map1, "map1")
    if first.ndim == 3 and first.shape[2] == 2:
        x, y = (first[:, :, i].astype(np.float64, copy=False) for i in range(2))
        if map2 is not None and first.dtype.kind in "iu":
            rest = as_array(map2, "map2").astype(np.int64).reshape(x.shape)
            x, y = x + (rest & 31) / 32, y + (rest >> 5) / 32
        return x, y
    x, y = first, as_array(map2, "map2")
    if x.dtype != np.float32 or y.dtype != np.float32:
        x, y = x.astype(np.float64), y.astype(np.float64)
    if x.ndim != 2 or x.shape != y.shape:
        raise ShapeError(f"map1 and map2 must have the result's height and width; they are {x.shape} and {y.shape}")
    return x, y


def _warp(image: Array, matrix: Array, dsize: object, flag: int, border: int, value: object) -> Array:
    width, height = size(dsize)
    numbers: list[float] = matrix.ravel().tolist()
    if not flag & WARP_INVERSE_MAP:
        inverse = _inverse(numbers)
        if inverse is None:
            raise MNNError(f"M has no inverse, so that the picture would vanish: {matrix.tolist()}")
        numbers = inverse
    how = flag & ~(WARP_INVERSE_MAP | WARP_FILL_OUTLIERS)
    found = kernels.warped(image, numbers, (width, height), how, border, fill(value, image))
    if found is not None:
        return found
    matrix = np.array(numbers).reshape(3, 3)
    x, y = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    u, v, w = (row[0] * x + row[1] * y + row[2] for row in matrix)
    scale = np.where(w == 0, 0.0, 1 / np.where(w == 0, 1, w))
    return sample(image, u * scale, v * scale, how, border, value)


def _inverse(m: list[float]) -> list[float] | None:
    """The inverse of a 3 x 3 matrix, None if there is none: by cofactors, as OpenCV has it, which take a tenth of what
    numpy does to be called; by numpy where they overflow."""
    a, b, c, d, e, f, g, h, i = m
    cofactors = (
        e * i - f * h, c * h - b * i, b * f - c * e, f * g - d * i, a * i - c * g, c * d - a * f, d * h - e * g,
        b * g - a * h, a * e - b * d,
    )  # fmt: skip
    whole = a * cofactors[0] + b * cofactors[3] + c * cofactors[6]
    if whole:
        found = [n / whole for n in cofactors]  # whole / whole is 1, and an affine map stays one
        if all(map(math.isfinite, found)):
            return found
    matrix = np.array(m).reshape(3, 3)
    return None if np.linalg.det(matrix) == 0 else np.linalg.inv(matrix).ravel().tolist()


def sample(image: Array, x: Array, y: Array, interpolation: int, border: int, value: object) -> Array:
    """Pixels at fractional positions, of the shape of ``x`` and the picture's channels and type."""
    if not np.isfinite(x).all() or not np.isfinite(y).all():
        raise MNNError("a map sends pixels to infinity or to no number")
    x, y = np.clip(x, -1e9, 1e9), np.clip(y, -1e9, 1e9)
    step = max(_STRIP // max(x[0].size, 1), 1) if len(x) else 1
    strips = [
        _sampled(image, x[top : top + step], y[top : top + step], interpolation, border, value)
        for top in range(0, max(len(x), 1), step)
    ]  # they stay in the cache
    return strips[0] if len(strips) == 1 else np.concatenate(strips)


def _sampled(image: Array, x: Array, y: Array, interpolation: int, border: int, value: object) -> Array:
    if interpolation == INTER_NEAREST:
        return _pick(image, np.rint(y).astype(np.int64), np.rint(x).astype(np.int64), border, value)
    left, top = np.floor(x), np.floor(y)
    if interpolation == INTER_LINEAR:
        x_weights = np.stack([left + 1 - x, x - left], -1)
        y_weights = np.stack([top + 1 - y, y - top], -1)
        first = 0
    elif interpolation == INTER_CUBIC:
        x_weights, y_weights, first = cubic(x - left), cubic(y - top), -1
    else:
        raise MNNError(f"warping knows INTER_NEAREST, INTER_LINEAR and INTER_CUBIC, not {interpolation}")
    column, row = left.astype(np.int64) + first, top.astype(np.int64) + first
    total = np.zeros(x.shape + image.shape[2:], np.float32 if image.dtype.itemsize <= 4 else np.float64)
    extra = (1,) * (image.ndim - 2)
    for i in range(y_weights.shape[-1]):
        for j in range(x_weights.shape[-1]):
            weight = (y_weights[..., i] * x_weights[..., j]).astype(total.dtype).reshape(x.shape + extra)
            total += weight * _pick(image, row + i, column + j, border, value)
    return to_dtype(total, image.dtype)


def _pick(image: Array, rows: Array, columns: Array, border: int, value: object) -> Array:
    r, c = inside(rows, image.shape[0], border), inside(columns, image.shape[1], border)
    pixels = image.reshape(-1, *image.shape[2:])
    result: Array = pixels.take(np.maximum(r, 0) * image.shape[1] + np.maximum(c, 0), 0)
    if border == BORDER_CONSTANT:
        outside = (r < 0) | (c < 0)
        if outside.any():
            result[outside] = fill(value, image)
    return result


def _matrix(value: object, what: str) -> Array:
    """3 x 3 float64 of a 2 x 3 or 3 x 3 matrix, or of 6 or 9 numbers."""
    given = as_array(value, what).astype(np.float64).ravel()
    if given.size not in (6, 9) or not np.isfinite(given).all():
        raise ShapeError(f"{what} must be a finite 2 x 3 or 3 x 3 matrix; it has {given.size} numbers")
    return np.concatenate([given, (0.0, 0.0, 1.0)])[:9].reshape(3, 3)


def _points(value: object, count: int, what: str) -> Array:
    points = as_array(value, what).astype(np.float64).ravel()
    # Callers may pass more points than needed, as PyMNN's own examples do.
    if points.size < 2 * count or points.size % 2:
        raise ShapeError(f"{what} must be {count} points (x, y); it has {points.size} numbers")
    return points[: 2 * count].reshape(count, 2)


def _solve(a: Array, b: Array, what: str) -> Array:
    try:
        result: Array = np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        raise MNNError(f"the points of {what} lie on one line or on each other: no such map") from None
    return result
