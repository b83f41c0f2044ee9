"""Shapes drawn into pictures, in place: a Var or an array gets new pixels.

Coordinates may have ``shift`` fractional bits. ``LINE_AA`` smooths edges by the share of each pixel that is covered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, as_array, as_image, to_dtype
from MNN.cv._constants import LINE_4, LINE_8, LINE_AA
from MNN.cv._raster import SHIFT, Canvas, Point, circle_points, coverage
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

Draw = Callable[[Canvas, int], None]
"""Draws a shape on a canvas that is so many times larger than the picture."""
Colour = float | Sequence[float]


def _paint(img: Any, colour: Colour, kind: int, draw: Draw) -> None:
    if not isinstance(img, (Var, np.ndarray)):
        raise MNNError(f"img is drawn into: it must be a Var or an array, found {type(img).__name__}")
    if kind not in (LINE_4, LINE_8, LINE_AA, 0, 1):
        raise MNNError(f"lineType is {kind}; it must be LINE_4, LINE_8 or LINE_AA")
    image = as_image(img, "img")
    height, width = image.shape[:2]
    channels = image.shape[2] if image.ndim == 3 else 1
    given = np.zeros(max(channels, 4))
    numbers = np.atleast_1d(as_array(colour, "color")).astype(np.float64).ravel()
    if numbers.size > given.size:
        raise ShapeError(f"color has {numbers.size} numbers; the picture has {channels} channels")
    given[: numbers.size] = numbers
    ink = to_dtype(given[:channels], image.dtype)
    flat = image.reshape(height, width, channels)
    if kind == LINE_AA:
        share = coverage(height, width, draw)[:, :, None]
        changed = np.where(share > 0, to_dtype(flat + (ink.astype(np.float32) - flat) * share, image.dtype), flat)
        img[...] = changed.reshape(np.asarray(img).shape)
        return
    canvas = Canvas(height, width)
    draw(canvas, 1)
    rows = slice(canvas.top, canvas.bottom)
    if isinstance(img, np.ndarray) and np.may_share_memory(flat, img):
        _inked(flat[rows], canvas.mask[rows], ink)
        return
    changed = flat.copy()
    _inked(changed[rows], canvas.mask[rows], ink)
    img[...] = changed.reshape(np.asarray(img).shape)


def _inked(pixels: Array, mask: Array, ink: Array) -> None:
    for i, number in enumerate(ink):  # of an index that is a mask, numpy makes places first
        np.copyto(pixels[:, :, i], number, where=mask)


def _point(value: Any, shift: int, what: str) -> Point:
    numbers = as_array(value, what).ravel()
    if numbers.shape != (2,) or not np.isfinite(numbers).all():
        raise MNNError(f"{what} must be two numbers (x first); it is {value!r}")
    if not 0 <= shift <= SHIFT:
        raise MNNError(f"shift is {shift}; it must be from 0 to {SHIFT}")
    x, y = (int(n) << (SHIFT - shift) for n in numbers)
    return x, y


def _scaled(point: Point, scale: int) -> Point:
    """A place on a larger canvas: pixels lie in the middle of theirs there."""
    if scale == 1:
        return point
    middle = (scale - 1) << (SHIFT - 1)
    return point[0] * scale + middle, point[1] * scale + middle


def _width(thickness: int, scale: int) -> int:
    return max(thickness, 1) * scale if scale > 1 else thickness


def line(
    img: ArrayLike, pt1: Sequence[int], pt2: Sequence[int], color: Colour, thickness: int = 1, lineType: int = LINE_8,
    shift: int = 0,
) -> None:  # fmt: skip
    """A line from ``pt1`` to ``pt2`` (x, y), ``thickness`` pixels wide."""
    a, b = _point(pt1, shift, "pt1"), _point(pt2, shift, "pt2")
    if thickness < 1:
        raise MNNError(f"thickness must be above 0; it is {thickness}")
    _paint(img, color, lineType, lambda canvas, s: canvas.thick(
        _scaled(a, s), _scaled(b, s), _width(thickness, s), lineType))  # fmt: skip


def arrowedLine(  # noqa: N802
    img: ArrayLike, pt1: Sequence[int], pt2: Sequence[int], color: Colour, thickness: int = 1, lineType: int = LINE_8,
    shift: int = 0, tipLength: float = 0.1,
) -> None:  # fmt: skip
    """A line with a tip at ``pt2`` whose lines are ``tipLength`` times as long."""
    (x, y), (u, v) = (tuple(int(n) for n in as_array(p, "point").ravel()) for p in (pt1, pt2))
    size, angle = math.hypot(x - u, y - v) * tipLength, math.atan2(y - v, x - u)
    line(img, pt1, pt2, color, thickness, lineType, shift)
    for turn in (math.pi / 4, -math.pi / 4):
        end = round(u + size * math.cos(angle + turn)), round(v + size * math.sin(angle + turn))
        line(img, end, pt2, color, thickness, lineType, shift)


def circle(
    img: ArrayLike, center: Sequence[int], radius: int, color: Colour, thickness: int = 1, lineType: int = LINE_8,
    shift: int = 0,
) -> None:  # fmt: skip
    """A circle, filled if ``thickness`` is negative."""
    x, y = _point(center, shift, "center")
    if radius < 0:
        raise MNNError(f"radius must not be negative; it is {radius}")

    def draw(canvas: Canvas, scale: int) -> None:
        if scale == 1 and thickness <= 1 and lineType == LINE_8 and shift == 0:
            canvas.disc(x >> SHIFT, y >> SHIFT, radius, thickness < 0)
            return
        points = circle_points(*_scaled((x, y), scale), (radius << (SHIFT - shift)) * scale)
        if thickness < 0:
            canvas.convex(points, lineType, False)
        else:
            canvas.path(points, False, _width(thickness, scale), lineType)

    _paint(img, color, lineType, draw)


def rectangle(
    src: ArrayLike, pt1: Sequence[int], pt2: Sequence[int], color: Colour, thickness: int = 1, lineType: int = LINE_8,
    shift: int = 0,
) -> None:  # fmt: skip
    """A rectangle with two opposite corners, filled if ``thickness`` is negative."""
    a, b = _point(pt1, shift, "pt1"), _point(pt2, shift, "pt2")
    corners = [a, (b[0], a[1]), b, (a[0], b[1])]

    def draw(canvas: Canvas, scale: int) -> None:
        points = [_scaled(c, scale) for c in corners]
        if thickness < 0:
            canvas.convex(points, lineType, shift == 0)
        else:
            canvas.path(points, True, _width(thickness, scale), lineType)

    _paint(src, color, lineType, draw)


def _shapes(contours: Any, shift: int, offset: Sequence[int]) -> list[list[Point]]:
    """Contours: each a Var or array of points in any shape, or a flat list x, y, x, y."""
    if isinstance(contours, (Var, np.ndarray)) and as_array(contours).ndim <= 2:
        contours = [contours]
    found = []
    across, down = (int(n) for n in offset)
    for contour in contours:
        numbers = as_array(contour, "a contour").ravel()
        if numbers.size < 2 or numbers.size % 2:
            raise ShapeError(f"a contour is points (x, y), found {numbers.size} numbers")
        pairs = numbers.reshape(-1, 2).tolist()
        found.append([_point((x + across, y + down), shift, "a point") for x, y in pairs])
    return found


def fillPoly(  # noqa: N802
    img: ArrayLike, contours: Any, color: Colour, lineType: int = LINE_8, shift: int = 0,
    offset: Sequence[int] = (0, 0),
) -> None:  # fmt: skip
    """Polygons filled together: what lies in an even number of them stays."""
    shapes = _shapes(contours, shift, offset)
    _paint(img, color, lineType, lambda canvas, s: canvas.polygons(
        [[_scaled(p, s) for p in shape] for shape in shapes], LINE_8 if lineType == LINE_AA else lineType))  # fmt: skip


def drawContours(  # noqa: N802
    img: ArrayLike, contours: Any, contourIdx: int, color: Colour, thickness: int = 1, lineType: int = LINE_8
) -> None:
    """The outline of the contour ``contourIdx`` (all if negative), filled if ``thickness`` is negative."""
    shapes = _shapes(contours, 0, (0, 0))
    if contourIdx >= len(shapes):
        raise MNNError(f"contourIdx is {contourIdx}; there are {len(shapes)} contours")
    chosen = shapes if contourIdx < 0 else [shapes[contourIdx]]

    def draw(canvas: Canvas, scale: int) -> None:
        larger = [[_scaled(p, scale) for p in shape] for shape in chosen]
        if thickness < 0:
            canvas.polygons(larger, LINE_8 if scale > 1 else lineType)
            return
        for shape in larger:
            canvas.path(shape, True, _width(thickness, scale), lineType)

    _paint(img, color, lineType, draw)
