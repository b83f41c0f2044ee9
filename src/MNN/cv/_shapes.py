"""Areas, hulls and rectangles of points."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array
from MNN.cv.kernels.points import Measure, at_once, hull, measured, places
from MNN.cv.kernels.regions import bounds
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

Rotated = tuple[tuple[float, float], tuple[float, float], float]
"""A turned rectangle: centre, (width, height), and degrees clockwise."""
_HULL, _RECTANGLE, _AREA, _EXTENT = map(int, Measure)
_SINGLES = struct.Struct("5f")
"""Rounds five numbers to f32, in a third of the time that an array takes."""
_FARTHEST = 1e140
"""Squares of sums of such numbers are finite in f64."""


def _points(points: object) -> Array:
    """Points (count, 2) of an array of points in any shape."""
    if type(points) is np.ndarray and points.dtype == np.int32 and points.size > 1 and not points.size % 2:
        return points.reshape(-1, 2)  # what most are, before what takes longer to ask
    array = as_array(points, "points")
    if array.size < 2 or array.size % 2:
        raise ShapeError(f"points must be pairs (x, y); they have the shape {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise MNNError("points must be finite; there is an infinity or a NaN among them")
    if array.dtype.itemsize > 4 and max(abs(float(array.min())), abs(float(array.max()))) > _FARTHEST:
        raise MNNError(f"points must be within {_FARTHEST:g} of 0, so that products of theirs are finite, too")
    return array.reshape(-1, 2)


def contourArea(points: ArrayLike, oriented: bool = False) -> float:  # noqa: N802
    """The area within a polygon; with ``oriented`` negative where it runs anticlockwise (y points down)."""
    found = at_once(points, _AREA)
    area = (measured(_points(points), Measure.AREA) if found is None else found)[0]
    return area if oriented else abs(area)


def boundingRect(points: ArrayLike) -> list[int]:  # noqa: N802
    """The upright rectangle around points, or around a picture's pixels that are not 0: x, y, width, height. Bytes
    (h, w) are a picture also where it has two columns."""
    if (found := at_once(points, _EXTENT)) is not None:
        x, y = math.floor(found[0]), math.floor(found[1])
        return [x, y, math.floor(found[2]) - x + 1, math.floor(found[3]) - y + 1]
    array = as_array(points, "points")
    two = 2 in array.shape[1:] and (array.ndim > 2 or array.dtype not in (np.uint8, np.bool_))
    if array.ndim in (2, 3) and not two:
        left, right, top, bottom = bounds(array.reshape(array.shape[:2]))
        if right < 0:
            return [0, 0, 0, 0]
    else:
        left, top, right, bottom = (math.floor(n) for n in measured(_points(array), Measure.EXTENT)[:4])
    return [left, top, right - left + 1, bottom - top + 1]


def convexHull(points: ArrayLike, clockwise: bool = False, returnPoints: bool = True) -> Var:  # noqa: N802
    """The corners of the smallest convex polygon around points, (count, 1, 2), or their positions (count, 1)."""
    if (found := at_once(points, _HULL, clockwise)) is not None:
        order, given = places(int(found[0])), np.asarray(points)
        if not returnPoints:
            return _wrap(order.reshape(-1, 1).copy())
        return _wrap((given if given.ndim == 3 else given[:, None]).take(order, 0))
    p = _points(points)
    order = hull(p, Measure.HULL, clockwise)[1]
    kind = np.float32 if p.dtype.kind == "f" else np.int32
    return _wrap(p.take(order, 0)[:, None].astype(kind, copy=False) if returnPoints else order[:, None])


def minAreaRect(points: ArrayLike) -> Rotated:  # noqa: N802
    """The smallest rectangle around points at any angle: centre, (width, height), degrees above 0 up to 90.

    One of its sides lies along the convex hull (Freeman and Shapira, 1975)."""
    found = at_once(points, _RECTANGLE)
    order = None
    if found is None:
        found, order = hull(_points(points), Measure.RECTANGLE, False)
    corners, right, down, low, high, left, far, _ = found
    if corners == 1:
        x, y = _points(points)[(places(1) if order is None else order)[0]].tolist()
        return (float(x), float(y)), (0.0, 0.0), 90.0
    along, across = (low + high) / 2, (left + far) / 2
    middle = right * along - down * across, down * along + right * across
    width, height = high - low, far - left
    angle = math.degrees(math.atan2(down, right)) % 180
    if angle > 90 or angle == 0:
        angle, width, height = (angle - 90) % 180, height, width
    try:
        x, y, width, height, angle = _SINGLES.unpack(_SINGLES.pack(*middle, width, height, angle))
    except OverflowError:  # beyond f32, as numpy rounds: infinite
        x, y, width, height, angle = np.array((*middle, width, height, angle), np.float32).tolist()
    return (x, y), (width, height), angle


def boxPoints(box: Any) -> Var:  # noqa: N802
    """The corners (4, 2) of a turned rectangle as :func:`minAreaRect` gives it: bottom left, then clockwise."""
    try:
        (x, y), (width, height), angle = box
        turn = math.radians(float(angle))
        a, b = math.sin(turn) / 2, math.cos(turn) / 2
        x, y, width, height = float(x), float(y), float(width), float(height)
    except (TypeError, ValueError) as error:
        raise MNNError(f"box must be ((x, y), (width, height), degrees), found {box!r}") from error
    first = x - a * height - b * width, y + b * height - a * width
    second = x + a * height - b * width, y - b * height - a * width
    corners = [first, second, (2 * x - first[0], 2 * y - first[1]), (2 * x - second[0], 2 * y - second[1])]
    return _wrap(np.array(corners, np.float32))
