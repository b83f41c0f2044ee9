"""Affine and perspective maps of pictures, and the matrices that describe them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array, as_planes, pair, size, to_dtype
from MNN.cv._border import fill, inside
from MNN.cv._constants import (
    BORDER_CONSTANT,
    INTER_CUBIC,
    INTER_LINEAR,
    INTER_NEAREST,
    WARP_FILL_OUTLIERS,
    WARP_INVERSE_MAP,
)
from MNN.cv._resample import cubic, finish
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var


def getRotationMatrix2D(center: Sequence[float], angle: float, scale: float) -> Var:  # noqa: N802
    """The 2 x 3 matrix (float64) that turns about ``center`` by ``angle`` degrees (anticlockwise) and scales."""
    x, y = pair(center, "center")
    a, b = scale * math.cos(math.radians(angle)), scale * math.sin(math.radians(angle))
    return _wrap(np.array([[a, b, (1 - a) * x - b * y], [-b, a, b * x + (1 - a) * y]]))


def getAffineTransform(src: ArrayLike, dst: ArrayLike) -> Var:  # noqa: N802
    """The 2 x 3 matrix (float64) that takes three points to three others; points as 6 numbers or (3, 2)."""
    a, b = _points(src, 3, "src"), _points(dst, 3, "dst")
    return _wrap(_solve(np.hstack([a, np.ones((3, 1))]), b, "src").T)


def getPerspectiveTransform(src: ArrayLike, dst: ArrayLike) -> Var:  # noqa: N802
    """The 3 x 3 matrix (float64, last element 1) that takes four points to four others; as 8 numbers or (4, 2)."""
    a, b = _points(src, 4, "src"), _points(dst, 4, "dst")
    rows, values = [], []
    for (x, y), (u, v) in zip(a, b, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -x * u, -y * u], [0, 0, 0, x, y, 1, -x * v, -y * v]]
        values += [u, v]
    return _wrap(np.append(_solve(np.array(rows), np.array(values), "src"), 1.0).reshape(3, 3))


def invertAffineTransform(m: ArrayLike) -> Var:  # noqa: N802
    """The inverse of a 2 x 3 matrix; all zeros if there is none."""
    matrix = _matrix(m, "m")
    if np.linalg.det(matrix[:2, :2]) == 0:
        return _wrap(np.zeros((2, 3)))
    return _wrap(np.linalg.inv(matrix)[:2])


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
    map2: ArrayLike,
    interpolation: int,
    borderMode: int = BORDER_CONSTANT,
    borderValue: float | Sequence[float] = 0,
) -> Var:
    """``result[i, j] = src[map2[i, j], map1[i, j]]``; the maps are float of the result's (height, width)."""
    x, y = as_array(map1, "map1").astype(np.float64), as_array(map2, "map2").astype(np.float64)
    if x.ndim != 2 or x.shape != y.shape:
        raise ShapeError(f"map1 and map2 must have the result's height and width; they are {x.shape} and {y.shape}")
    return _wrap(sample(as_planes(src), x, y, interpolation, borderMode, borderValue))


def _warp(image: Array, matrix: Array, dsize: object, flag: int, border: int, value: object) -> Array:
    width, height = size(dsize)
    if not flag & WARP_INVERSE_MAP:
        if np.linalg.det(matrix) == 0:
            raise MNNError(f"M has no inverse, so that the picture would vanish: {matrix.tolist()}")
        matrix = np.linalg.inv(matrix)
    x, y = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    u, v, w = (row[0] * x + row[1] * y + row[2] for row in matrix)
    scale = np.where(w == 0, 0.0, 1 / np.where(w == 0, 1, w))
    return sample(image, u * scale, v * scale, flag & ~(WARP_INVERSE_MAP | WARP_FILL_OUTLIERS), border, value)


def sample(image: Array, x: Array, y: Array, interpolation: int, border: int, value: object) -> Array:
    """Pixels at fractional positions, of the shape of ``x`` and the picture's channels and type."""
    if not np.isfinite(x).all() or not np.isfinite(y).all():
        raise MNNError("a map sends pixels to infinity or to no number")
    x, y = np.clip(x, -1e9, 1e9), np.clip(y, -1e9, 1e9)
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
    result = image[r, c]
    if border == BORDER_CONSTANT:
        result[(r < 0) | (c < 0)] = fill(value, image)
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
