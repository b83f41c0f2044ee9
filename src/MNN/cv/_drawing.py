"""Shapes drawn into pictures, in place: a Var or an array gets new pixels.

Coordinates may have ``shift`` fractional bits. ``LINE_AA`` smooths edges by the share of each pixel that is covered."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, as_array, as_image, to_dtype
from MNN.cv._constants import LINE_4, LINE_8, LINE_AA
from MNN.cv.kernels.drawing import FINE, SHIFT, Ink, Stroke, Surface, ink, polygons, stroke, strokes, surface
from MNN.cv.kernels.quick import shapes as quick
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var

Colour = float | Sequence[float]
_KINDS: dict[Any, tuple[int, int]] = {
    0: (LINE_8, FINE),
    1: (LINE_4, LINE_4),
    LINE_4: (LINE_4, FINE),
    LINE_8: (LINE_8, LINE_8),
    LINE_AA: (LINE_AA, LINE_AA),
}
"""How pixels of thin lines touch, by the kind of line: of lines between pixels, and between positions within them."""
_DRAWN = frozenset((np.dtype(np.uint8), np.dtype(np.float32)))
_HALF = 1 << (SHIFT - 1)
_FARTHEST = 1 << 31
_THICKEST = (1 << 15) - 1
"""Coordinates and widths of lines that OpenCV has, too."""
_AA = 8
"""Samples per pixel along each axis where edges are smoothed."""
_SAMPLES = 1 << 26
"""Samples that there are at a time."""
_ONES = np.uint64(0x0101010101010101)


class _Shape(NamedTuple):
    """``counts`` (of points) None: one shape of a few points, x, y, x, y and so on. Otherwise ``points`` are an array
    (count, 2). ``what`` None: polygons to be filled. ``scaled``: the points are those of samples of pixels."""

    what: Stroke | None
    kind: int
    thickness: int
    points: Any
    counts: Sequence[int] | None = None
    scaled: bool = False

    def draw(self, to: Surface, colour: Ink) -> None:
        if self.counts is None:
            stroke(to, colour, self.what or Stroke.OPEN, self.kind, self.thickness, self.points)
        elif self.what is None:
            polygons(to, colour, self.kind, self.counts, self.points)
        else:
            strokes(to, colour, self.what, self.kind, self.thickness, self.counts, self.points)


def _paint(img: Any, colour: Colour, shape: _Shape) -> None:
    usual = type(img) is np.ndarray and img.dtype in _DRAWN and shape.kind != LINE_AA
    if usual and img.size and img.flags.writeable:
        extents = img.shape  # as most are, before what takes longer to ask
        if len(extents) in (2, 3) and (target := surface(img)) is not None:
            channels = extents[2] if len(extents) == 3 else 1
            shape.draw(target, _ink(img.dtype, channels, _numbers(colour)))
            quick.drawn(img.dtype, channels, shape.what is None)
            return
    image = img
    if type(img) is not np.ndarray or img.ndim > 3 or img.dtype.kind not in "iuf" or not img.size:
        if not isinstance(img, (Var, np.ndarray)):
            raise MNNError(f"img is drawn into: it must be a Var or an array, found {type(img).__name__}")
        image = as_image(img, "img")
    dtype = image.dtype
    pixel = _ink(dtype, image.shape[2] if image.ndim == 3 else 1, _numbers(colour))
    in_place = isinstance(img, np.ndarray) and (image is img or np.may_share_memory(image, img))
    if in_place and not image.flags.writeable:
        raise MNNError("img is drawn into: it must be an array that may be written to")
    target = surface(image) if in_place and shape.kind != LINE_AA else None
    if target is not None:
        shape.draw(target, pixel)
        return
    drawn = np.array(image, order="C")
    flat = drawn.reshape(*drawn.shape[:2], -1)
    target = surface(drawn)
    if shape.kind == LINE_AA:
        _smooth(flat, pixel, shape)
    elif target is not None:
        shape.draw(target, pixel)
    else:
        mask = np.zeros(drawn.shape[:2], np.uint8)
        _cover(mask, shape)
        np.copyto(flat, pixel.memory[: flat.shape[2]], where=mask[:, :, None] != 0)
    img[...] = drawn.reshape(np.asarray(img).shape)


def _cover(mask: Array, shape: _Shape) -> None:
    """Sets bytes to 1 where a shape is."""
    target = surface(mask)
    assert target is not None
    shape.draw(target, _ink(mask.dtype, 1, (1,)))


def _smooth(flat: Array, pixel: Ink, shape: _Shape) -> None:
    """Mixes a colour into pixels by the share of each that a shape covers, of samples."""
    points = np.asarray(shape.points, np.int64).reshape(-1, 2)
    if not shape.scaled:
        points = points * _AA + ((_AA - 1) << (SHIFT - 1))
    reach = max(shape.thickness, 1) + 2
    low = np.maximum((points.min(0) >> SHIFT) // _AA - reach, 0)
    high = np.minimum((points.max(0) >> SHIFT) // _AA + reach + 1, flat.shape[1::-1])
    if (low >= high).any():
        return
    (left, top), (right, bottom) = low.tolist(), high.tolist()
    wide = shape._replace(counts=shape.counts or (len(points),), thickness=max(shape.thickness, 1) * _AA)
    rows = max(_SAMPLES // ((right - left) * _AA**2), 1)
    for first in range(top, bottom, rows):
        last = min(first + rows, bottom)
        samples = np.zeros(((last - first) * _AA, (right - left) * _AA), np.uint8)
        _cover(samples, wide._replace(points=points - (np.array((left, first)) * _AA << SHIFT)))
        _mix(flat[first:last, left:right], pixel, samples)


def _mix(part: Array, pixel: Ink, samples: Array) -> None:
    rows = samples.reshape(len(part), _AA, -1).sum(1, dtype=np.uint8).view(np.uint64)
    share = ((rows * _ONES) >> np.uint64(56)).astype(np.float32)[:, :, None] / _AA**2
    mixed = part + (pixel.memory[: part.shape[2]].astype(np.float32) - part) * share
    np.copyto(part, to_dtype(mixed, part.dtype), where=share > 0)


def _numbers(colour: Colour) -> tuple[float, ...]:
    if type(colour) is tuple:
        return colour
    if type(colour) is int or type(colour) is float:
        return (colour,)
    return tuple(np.atleast_1d(as_array(colour, "color")).ravel().tolist())


@functools.lru_cache(maxsize=256)
def _ink(dtype: np.dtype[Any], channels: int, colour: tuple[float, ...]) -> Ink:
    numbers = as_array(colour, "color").astype(np.float64).ravel()
    given = np.zeros(max(channels, 4))
    if numbers.size > given.size:
        raise ShapeError(f"color has {numbers.size} numbers; the picture has {channels} channels")
    given[: numbers.size] = numbers
    return ink(to_dtype(given[:channels], dtype))


def _point(value: Any, shift: int, what: str) -> tuple[int, int]:
    if shift == 0 and type(value) is tuple and len(value) == 2:  # as most are
        x, y = value
        if type(x) is type(y) is int and -_FARTHEST <= x < _FARTHEST and -_FARTHEST <= y < _FARTHEST:
            return x << SHIFT, y << SHIFT
    if not 0 <= shift <= SHIFT:
        raise MNNError(f"shift is {shift}; it must be from 0 to {SHIFT}")
    if type(value) is not tuple or len(value) != 2 or type(value[0]) is not int or type(value[1]) is not int:
        numbers = as_array(value, what).ravel()
        if numbers.shape != (2,) or not np.isfinite(numbers).all():
            raise MNNError(f"{what} must be two numbers (x first); it is {value!r}")
        value = int(numbers[0]), int(numbers[1])
    x, y = value
    if not (-_FARTHEST <= x < _FARTHEST and -_FARTHEST <= y < _FARTHEST):
        raise MNNError(f"{what} is {value!r}; coordinates have 32 bits")
    return x << (SHIFT - shift), y << (SHIFT - shift)


def _kind(line_type: Any, within: bool) -> int:
    """How pixels of thin lines touch; ``within``: positions may be within pixels."""
    found = _KINDS.get(line_type) if isinstance(line_type, (int, float, np.number)) else None
    if found is None:
        raise MNNError(f"lineType is {line_type}; it must be LINE_4, LINE_8 or LINE_AA")
    return found[within]


def _width(thickness: int) -> int:
    if thickness > _THICKEST:
        raise MNNError(f"thickness is {thickness}; it must be at most {_THICKEST}")
    return max(int(thickness), -1)  # all below 0 mean one thing


def line(
    img: ArrayLike, pt1: Sequence[int], pt2: Sequence[int], color: Colour, thickness: int = 1, lineType: int = LINE_8,
    shift: int = 0,
) -> None:  # fmt: skip
    """A line from ``pt1`` to ``pt2`` (x, y), ``thickness`` pixels wide."""
    if quick.line(img, pt1, pt2, color, thickness, lineType, shift):
        return
    ends = _point(pt1, shift, "pt1") + _point(pt2, shift, "pt2")
    if thickness < 1:
        raise MNNError(f"thickness must be above 0; it is {thickness}")
    _paint(img, color, _Shape(Stroke.OPEN, _kind(lineType, shift > 0), _width(thickness), ends))


def arrowedLine(  # noqa: N802
    img: ArrayLike, pt1: Sequence[int], pt2: Sequence[int], color: Colour, thickness: int = 1, lineType: int = LINE_8,
    shift: int = 0, tipLength: float = 0.1,
) -> None:  # fmt: skip
    """A line with a tip at ``pt2`` whose lines are ``tipLength`` times as long."""
    a, b = _point(pt1, shift, "pt1"), _point(pt2, shift, "pt2")
    if thickness < 1:
        raise MNNError(f"thickness must be above 0; it is {thickness}")
    (x, y), (u, v) = ((p[0] >> SHIFT - shift, p[1] >> SHIFT - shift) for p in (a, b))
    size, angle = math.hypot(x - u, y - v) * tipLength, math.atan2(y - v, x - u)
    lines, kind = [(a, b)], _kind(lineType, shift > 0)
    for turn in (math.pi / 4, -math.pi / 4):
        end = round(u + size * math.cos(angle + turn)), round(v + size * math.sin(angle + turn))
        lines.append((_point(end, shift, "the tip"), b))
    if kind == LINE_AA:  # whose colours are mixed line by line
        for one, other in lines:
            _paint(img, color, _Shape(Stroke.OPEN, kind, _width(thickness), one + other))
    else:
        _paint(img, color, _Shape(Stroke.OPEN, kind, _width(thickness), np.array(lines).reshape(-1, 2), (2, 2, 2)))


def circle(
    img: ArrayLike, center: Sequence[int], radius: int, color: Colour, thickness: int = 1, lineType: int = LINE_8,
    shift: int = 0,
) -> None:  # fmt: skip
    """A circle, filled if ``thickness`` is negative."""
    if quick.circle(img, center, radius, color, thickness, lineType, shift):
        return
    x, y = _point(center, shift, "center")
    if not 0 <= radius < _FARTHEST:
        raise MNNError(f"radius must not be negative, nor have more than 32 bits; it is {radius}")
    if thickness <= 1 and lineType == LINE_8 and shift == 0:
        what = Stroke.DISC if thickness < 0 else Stroke.CIRCLE
        _paint(img, color, _Shape(what, LINE_8, 1, (x >> SHIFT, y >> SHIFT, int(radius), 0)))
        return
    kind = _kind(lineType, True)
    reach, scaled = int(radius) << (SHIFT - shift), kind == LINE_AA
    if scaled:
        middle = (_AA - 1) << (SHIFT - 1)
        x, y, reach = x * _AA + middle, y * _AA + middle, reach * _AA
    corners = circle_points(x, y, reach)
    what = Stroke.FINE if thickness < 0 else Stroke.OPEN
    _paint(img, color, _Shape(what, kind, _width(thickness), corners, (len(corners),), scaled))


def circle_points(x: int, y: int, radius: int) -> Array:
    """A circle as a polygon (count, 2) of so many corners as OpenCV has for its size; the first is also the last."""
    size = (radius + _HALF) >> SHIFT
    turns = _turns(90 if size < 3 else 30 if size < 10 else 18 if size < 15 else 5)
    corners = np.rint(turns * radius + (x, y)).astype(np.int64)
    apart = corners[1:] != corners[:-1]
    new = apart[:, 0] | apart[:, 1]
    if not new.all():
        corners = np.concatenate([corners[:1], corners[1:][new]])
    return corners if len(corners) > 1 else np.array([(x, y)] * 2, np.int64)


@functools.cache
def _turns(step: int) -> Array:
    """Cosines and sines (count, 2) of 0 to 360 degrees, as exact as OpenCV's table of them."""
    angles = [math.radians(angle) for angle in range(0, 360 + step, step)]
    return np.round([(math.cos(a), math.sin(a)) for a in angles], 7).astype(np.float32).astype(np.float64)


def rectangle(
    src: ArrayLike, pt1: Sequence[int], pt2: Sequence[int], color: Colour, thickness: int = 1, lineType: int = LINE_8,
    shift: int = 0,
) -> None:  # fmt: skip
    """A rectangle with two opposite corners, filled if ``thickness`` is negative."""
    if quick.rectangle(src, pt1, pt2, color, thickness, lineType, shift):
        return
    (x, y), (u, v) = _point(pt1, shift, "pt1"), _point(pt2, shift, "pt2")
    what = Stroke.CLOSED if thickness >= 0 else Stroke.WHOLE if shift == 0 else Stroke.FINE
    _paint(src, color, _Shape(what, _kind(lineType, shift > 0), _width(thickness), (x, y, u, y, u, v, x, v)))


def _contours(contours: Any, shift: int, offset: Sequence[int]) -> tuple[list[int], list[Array]]:
    """Contours: each a Var or array of points in any shape, or a flat list x, y, x, y. How many points each has, and
    the points (count, 2)."""
    if not 0 <= shift <= SHIFT:
        raise MNNError(f"shift is {shift}; it must be from 0 to {SHIFT}")
    if isinstance(contours, (Var, np.ndarray)) and as_array(contours).ndim <= 2:
        contours = [contours]
    counts, found = [], []
    moved = _moved(offset)
    for contour in contours:
        numbers = as_array(contour, "a contour")
        if numbers.size < 2 or numbers.size % 2:
            raise ShapeError(f"a contour is points (x, y), found {numbers.size} numbers")
        if numbers.dtype != np.int32 and not ((numbers >= -_FARTHEST) & (numbers < _FARTHEST)).all():
            raise MNNError("a point of a contour is beyond coordinates of 32 bits")
        points = numbers.reshape(-1, 2)
        found.append(points if moved is None else points + moved)
        counts.append(len(points))
    return counts, found


def _moved(offset: Any) -> Array | None:
    if type(offset) is tuple and offset == (0, 0):
        return None
    numbers = as_array(offset, "offset").ravel()
    if numbers.shape != (2,) or not ((numbers >= -_FARTHEST) & (numbers < _FARTHEST)).all():
        raise MNNError(f"offset must be two numbers of 32 bits (x first); it is {offset!r}")
    return numbers.astype(np.int64)


def _fixed(points: Sequence[Array], shift: int) -> Array:
    together: Array = points[0] if len(points) == 1 else np.concatenate(points)
    return together.astype(np.int64) << (SHIFT - shift)


def fillPoly(  # noqa: N802
    img: ArrayLike, contours: Any, color: Colour, lineType: int = LINE_8, shift: int = 0,
    offset: Sequence[int] = (0, 0),
) -> None:  # fmt: skip
    """Polygons filled together: what lies in an even number of them stays."""
    unmoved = type(shift) is int and shift == 0 and type(offset) is tuple and offset == (0, 0)
    if unmoved and quick.polygons(img, contours, -1, color, -1, lineType):
        return
    counts, points = _contours(contours, shift, offset)
    kind = _kind(lineType, False)
    if counts:
        _paint(img, color, _Shape(None, kind, 0, _fixed(points, shift), counts))


def drawContours(  # noqa: N802
    img: ArrayLike, contours: Any, contourIdx: int, color: Colour, thickness: int = 1, lineType: int = LINE_8
) -> None:
    """The outline of the contour ``contourIdx`` (all if negative), filled if ``thickness`` is negative."""
    if quick.polygons(img, contours, contourIdx, color, thickness, lineType):
        return
    counts, points = _contours(contours, 0, (0, 0))
    if contourIdx >= len(counts):
        raise MNNError(f"contourIdx is {contourIdx}; there are {len(counts)} contours")
    if contourIdx >= 0:
        counts, points = counts[contourIdx : contourIdx + 1], points[contourIdx : contourIdx + 1]
    kind = _kind(lineType, False)
    if counts:
        what = None if thickness < 0 else Stroke.CLOSED
        _paint(img, color, _Shape(what, kind, _width(thickness), _fixed(points, 0), counts))
