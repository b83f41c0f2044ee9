"""Areas, hulls and rectangles of points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

Rotated = tuple[tuple[float, float], tuple[float, float], float]
"""A turned rectangle: centre, (width, height), and degrees clockwise."""


def _points(points: object) -> Array:
    """Points (count, 2) of an array of points in any shape."""
    array = as_array(points, "points")
    if array.size < 2 or array.size % 2:
        raise ShapeError(f"points must be pairs (x, y); they have the shape {array.shape}")
    return array.reshape(-1, 2)


def contourArea(points: ArrayLike, oriented: bool = False) -> float:  # noqa: N802
    """The area within a polygon; with ``oriented`` negative where it runs anticlockwise (y points down)."""
    p = _points(points).astype(np.float64)
    x, y = p[:, 0], p[:, 1]
    area = float((np.roll(x, 1) * y - x * np.roll(y, 1)).sum() / 2)
    return area if oriented else abs(area)


def boundingRect(points: ArrayLike) -> list[int]:  # noqa: N802
    """The upright rectangle around points, or around a picture's pixels that are not 0: x, y, width, height."""
    array = as_array(points, "points")
    if (array.ndim == 2 and array.shape[1] != 2) or (array.ndim == 3 and 2 not in array.shape[1:]):
        y, x = np.nonzero(array.reshape(array.shape[:2]))
        p = np.stack([x, y], 1)
        if not len(p):
            return [0, 0, 0, 0]
    else:
        p = _points(array)
    low, high = np.floor(p.min(0)).astype(np.int64), np.floor(p.max(0)).astype(np.int64)
    return [*low.tolist(), *(high - low + 1).tolist()]


def convexHull(points: ArrayLike, clockwise: bool = False, returnPoints: bool = True) -> Var:  # noqa: N802
    """The corners of the smallest convex polygon around points, (count, 1, 2), or their positions (count, 1)."""
    p = _points(points)
    order = hull(p)
    if clockwise:  # from the leftmost corner on, else from the rightmost one
        order = np.concatenate([order[:1], order[:0:-1]])
    elif len(order):
        order = np.roll(order, -int(np.lexsort((p[order, 1], p[order, 0]))[-1]))
    order = _in_order(order)
    kind = np.float32 if p.dtype.kind == "f" else np.int32
    return _wrap(p[order][:, None].astype(kind) if returnPoints else order[:, None].astype(np.int32))


def _in_order(order: Array) -> Array:
    """Positions turned round so that they rise or fall, where that can be."""
    for start in (int(np.argmin(order)), int(np.argmax(order))):
        turned = np.roll(order, -start)
        steps = np.diff(turned)
        if len(order) > 2 and ((steps > 0).all() or (steps < 0).all()):
            return turned
    return order


def hull(p: Array) -> Array:
    """Positions of a convex hull's corners (Andrew's monotone chain, 1979), seen anticlockwise with y pointing up."""
    order = np.lexsort((p[:, 1], p[:, 0]))
    kept: Array = order[np.concatenate([[True], (np.diff(p[order], axis=0) != 0).any(1)])]
    values = p.astype(np.float64)
    if len(kept) < 3:
        return kept

    def chain(indices: Array) -> list[int]:
        found: list[int] = []
        for i in indices.tolist():
            while len(found) > 1:
                a, b, c = values[found[-2]], values[found[-1]], values[i]
                if (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) > 0:
                    break
                found.pop()
            found.append(i)
        return found

    lower, upper = chain(kept), chain(kept[::-1])
    return np.array(lower[:-1] + upper[:-1], np.int64)


def minAreaRect(points: ArrayLike) -> Rotated:  # noqa: N802
    """The smallest rectangle around points at any angle: centre, (width, height), degrees above 0 up to 90.

    One of its sides lies along the convex hull (Freeman and Shapira, 1975)."""
    p = _points(points).astype(np.float64)
    corners = p[hull(p)]
    if len(corners) == 1:
        x, y = corners[0].tolist()
        return (x, y), (0.0, 0.0), 90.0
    sides = np.roll(corners, -1, 0) - corners
    along = sides / np.linalg.norm(sides, axis=1, keepdims=True)
    across = np.stack([-along[:, 1], along[:, 0]], 1)
    u, v = corners @ along.T, corners @ across.T
    extents = np.stack([np.ptp(u, 0), np.ptp(v, 0)], 1)
    best = int(np.argmin(extents[:, 0] * extents[:, 1]))
    middle = along[best] * (u[:, best].max() + u[:, best].min()) / 2 + across[best] * (
        v[:, best].max() + v[:, best].min()
    ) / 2  # fmt: skip
    width, height = extents[best].tolist()
    angle = math.degrees(math.atan2(along[best][1], along[best][0])) % 180
    if angle > 90 or angle == 0:
        angle, width, height = (angle - 90) % 180, height, width
    single = [float(np.float32(n)) for n in (*middle, width, height, angle)]
    return (single[0], single[1]), (single[2], single[3]), single[4]


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
