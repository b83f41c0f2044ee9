"""Lines, circles and polygons as sets of pixels. Positions are in 1/65536 of a pixel unless said otherwise.

Thin lines are Bresenham's (1965), circles the midpoint algorithm's, polygons are filled line by line with edges stepped
in fixed point, rounded as OpenCV rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from MNN.cv._array import Array
from MNN.cv._constants import LINE_4

FINE = 0
"""A kind of thin lines: between positions within pixels."""
SHIFT = 16
ONE = 1 << SHIFT
HALF = ONE >> 1
Point = tuple[int, int]
_AA = 8
"""Samples per pixel along each axis where edges are smoothed."""


class Canvas:
    """The pixels of a picture that a shape covers, all of them in rows from ``top`` to before ``bottom``."""

    def __init__(self, height: int, width: int) -> None:
        self.mask = np.zeros((height, width), np.bool_)
        self.height, self.width = height, width
        self.top, self.bottom = height, 0

    def _reaches(self, first: int, last: int) -> None:
        self.top, self.bottom = min(self.top, first), max(self.bottom, last + 1)

    def points(self, x: Array, y: Array) -> None:
        """Covers pixels, as far as they are there."""
        inside = (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height)
        if inside.any():
            x, y = x[inside], y[inside]
            self.mask[y, x] = True
            self._reaches(int(y.min()), int(y.max()))

    def row(self, y: int, first: int, last: int) -> None:
        """Covers the pixels of a row from ``first`` to ``last``."""
        if 0 <= y < self.height and last >= 0 and first < self.width and last >= first:
            self.mask[y, max(first, 0) : last + 1] = True
            self._reaches(y, y)

    def thin(self, a: Point, b: Point, kind: int) -> None:
        """A line of whole pixels, neighbours touching at sides (``LINE_4``) or corners too."""
        ends = _clipped(a, b, self.width, self.height)
        if ends is None:
            return
        (x, y), (u, v) = ends
        if u < x:
            x, y, u, v = u, v, x, y
        wide, high, down = u - x, abs(v - y), 1 if v >= y else -1
        steep = high > wide
        major, minor = (high, wide) if steep else (wide, high)
        if kind == LINE_4:
            along, across = _staircase(major, minor)
        else:
            along = np.arange(major + 1)
            across = -((major - 2 * minor * along) // (2 * major)) if major else along
            across = np.maximum(across, 0)
        right, below = (across, along) if steep else (along, across)
        self.points(x + right, y + down * below)

    def fine(self, a: Point, b: Point) -> None:
        """A thin line between positions within pixels."""
        ends = _clipped(a, b, self.width << SHIFT, self.height << SHIFT)
        if ends is None:
            return
        (x, y), (u, v) = ends
        flat = abs(u - x) > abs(v - y)
        if not flat:
            x, y, u, v = y, x, v, u
        if u < x:
            x, y, u, v = u, v, x, y
        step = int((v - y) * ONE / ((u - x) | 1))
        count = np.arange(((u - x) >> SHIFT) + 1)
        along, across = ((x + HALF) >> SHIFT) + count, (y + HALF + step * count) >> SHIFT
        along = np.append(along, (u + HALF) >> SHIFT)
        across = np.append(across, (v + HALF) >> SHIFT)
        self.points(*((along, across) if flat else (across, along)))

    def disc(self, x: int, y: int, radius: int, filled: bool) -> None:
        """A circle about a whole pixel."""
        error, plus, minus, far, near = 0, 1, 2 * radius - 1, radius, 0
        while far >= near:
            for across, down in ((far, near), (near, far)):
                for row in {y - down, y + down}:
                    if filled:
                        self.row(row, x - across, x + across)
                    else:
                        self.points(np.array([x - across, x + across]), np.array([row, row]))
            near += 1
            error += plus
            plus += 2
            if error > 0:
                error -= minus
                far -= 1
                minus -= 2

    def thick(self, a: Point, b: Point, thickness: int, kind: int, ends: int = 3) -> None:
        """A line of so many pixels, with round ends: of ``a`` (1), ``b`` (2) or both (3)."""
        if thickness <= 1:
            if kind == FINE:
                self.fine(a, b)
            else:
                self.thin(_rounded(a), _rounded(b), kind)
            return
        cut = self._cut(a, b, thickness)
        if cut is None:
            return
        a, b = cut
        dx, dy = (a[0] - b[0]) / ONE, (b[1] - a[1]) / ONE
        length = math.hypot(dx, dy)
        if length > 1e-8:
            reach = (thickness * HALF + (thickness & 1) * ONE * 0.5) / length
            x, y = round(dy * reach), round(dx * reach)
            corners = [(a[0] + x, a[1] + y), (a[0] - x, a[1] - y), (b[0] - x, b[1] - y), (b[0] + x, b[1] + y)]
            self.convex(corners, kind, False)
        for end, bit in ((a, 1), (b, 2)):
            if ends & bit:
                self.disc(*_rounded(end), (thickness * HALF + HALF) >> SHIFT, True)

    def _cut(self, a: Point, b: Point, margin: int) -> tuple[Point, Point] | None:
        """A line cut to the picture and ``margin`` pixels around it, None if it is outside: whole pixels are cut to
        whole ones, as OpenCV does, which turns the line a little."""
        unit = 1 if any(n % ONE for n in (*a, *b)) else ONE
        far = margin * (ONE // unit)
        one, other = ((x // unit + far, y // unit + far) for x, y in (a, b))
        cut = _clipped(one, other, self.width * (ONE // unit) + 2 * far, self.height * (ONE // unit) + 2 * far)
        if cut is None:
            return None
        (x, y), (u, v) = cut
        return ((x - far) * unit, (y - far) * unit), ((u - far) * unit, (v - far) * unit)

    def path(self, points: Sequence[Point], closed: bool, thickness: int, kind: int) -> None:
        """Lines from point to point."""
        before = points[-1] if closed else points[0]
        ends = 2 if closed else 3
        for point in points if closed else points[1:]:
            self.thick(before, point, thickness, kind, ends)
            before, ends = point, 2

    def convex(self, points: Sequence[Point], kind: int, whole: bool) -> None:
        """A convex polygon with its edges."""
        for before, point in zip([points[-1], *points[:-1]], points, strict=True):
            if whole:
                self.thin(_rounded(before), _rounded(point), kind)
            else:
                self.fine(before, point)
        rows = [(p[1] + HALF) >> SHIFT for p in points]
        if len(points) < 3:
            return
        top, bottom = min(rows), min(max(rows), self.height - 1)
        first = min(range(len(points)), key=lambda i: points[i][1])
        sides = [_Side(first, step, top) for step in (1, -1)]
        left = len(points)
        for y in range(top, bottom + 1):
            for side in sides:
                if y >= side.end:
                    left = side.advance(points, rows, y, left)
            if left < 0:
                break
            low, high = sorted(s.x for s in sides)
            self.row(y, (low + HALF) >> SHIFT, (high + HALF) >> SHIFT)
            for side in sides:
                side.x += side.step

    def polygons(self, shapes: Sequence[Sequence[Point]], kind: int) -> None:
        """Polygons with their edges; what lies in an even number of them stays free."""
        edges = []
        for points in shapes:
            for (x, y), (u, v) in zip([points[-1], *points[:-1]], points, strict=True):
                y, v = (y + HALF) >> SHIFT, (v + HALF) >> SHIFT
                one, other = ((x + HALF) >> SHIFT, y), ((u + HALF) >> SHIFT, v)
                self.thin(one, other, kind)
                if y != v:
                    upper, lower = ((x, y), (u, v)) if y < v else ((u, v), (x, y))
                    edges.append((upper[1], lower[1], *self._slope(one, other, upper, lower, kind)))
        if len(edges) > 1:
            self._between(sorted(edges, key=lambda e: (e[0], e[2], e[3])))

    def _slope(self, one: Point, other: Point, upper: Point, lower: Point, kind: int) -> tuple[int, int]:
        """Where an edge is in the row of its ``upper`` end, and its step from row to row: as its line is drawn, cut to
        the picture, if one of its ends is not in there. ``one`` and ``other`` are whole pixels, in the given order."""
        if any(not (0 <= x < self.width and 0 <= y < self.height) for x, y in (one, other)):
            (x, y), (u, v), _ = _cut_to(one, other, self.width, self.height)
            if y == v:  # one row is left, whose columns stand for all rows
                y, v = one[1], other[1]
            step = int(((u - x) << SHIFT) / (v - y))
            x, y = (x, y) if one[1] < other[1] else (u, v)
            return (x << SHIFT) + (upper[1] - y) * step, step
        return upper[0] + (HALF if kind == LINE_4 else 0), int((lower[0] - upper[0]) / (lower[1] - upper[1]))

    def _between(self, edges: list[tuple[int, int, int, int]]) -> None:
        """What lies between the first and the second edge of each row, the third and the fourth, and so on. Edges are
        first row, row behind the last, place and step; they are put in order after a row, not before."""
        waiting, live = edges[::-1], list[list[int]]()
        for y in range(edges[0][0], min(max(e[1] for e in edges), self.height)):
            old = [e for e in live if e[0] != y]
            live = []
            while old or (waiting and waiting[-1][0] == y):
                begins = waiting and waiting[-1][0] == y
                if old and not (begins and old[0][1] >= waiting[-1][2]):
                    live.append(old.pop(0))
                else:
                    live.append([*waiting.pop()[1:]])
            for first, second in zip(live[::2], live[1::2], strict=False):
                low, high = sorted((first[1], second[1]))
                self.row(y, (low + ONE - 1) >> SHIFT, high >> SHIFT)
                first[1] += first[2]
                second[1] += second[2]
            live.sort(key=lambda e: e[1])


class _Side:
    """One of the two chains of edges of a convex polygon, stepped from row to row."""

    def __init__(self, index: int, step: int, top: int) -> None:
        self.index, self.turn, self.end, self.x, self.step = index, step, top, 0, 0

    def advance(self, points: Sequence[Point], rows: Sequence[int], y: int, left: int) -> int:
        """The next edge that reaches below row ``y``; ``left`` counts the edges that are left."""
        start = self.index
        following = (start + self.turn) % len(points)
        while True:
            left -= 1
            if left < 0:
                return left
            if rows[following] > y:
                rise = rows[following] - y
                self.end, self.index, self.x = rows[following], following, points[start][0]
                self.step = int(((points[following][0] - self.x) * 2 + rise) / (2 * rise))
                return left
            start, following = following, (following + self.turn) % len(points)


def _staircase(major: int, minor: int) -> tuple[Array, Array]:
    along, across, error, x, y = [0], [0], 0, 0, 0
    for _ in range(major + minor):
        if error < 0:
            y += 1
            error += 2 * major
        else:
            x += 1
            error -= 2 * minor
        along.append(x)
        across.append(y)
    return np.array(along), np.array(across)


def _rounded(point: Point) -> Point:
    return (point[0] + HALF) >> SHIFT, (point[1] + HALF) >> SHIFT


def _clipped(a: Point, b: Point, width: int, height: int) -> tuple[Point, Point] | None:
    """A line cut to a rectangle (Cohen and Sutherland), None if it is outside."""
    one, other, seen = _cut_to(a, b, width, height)
    return (one, other) if seen else None


def _cut_to(a: Point, b: Point, width: int, height: int) -> tuple[Point, Point, bool]:
    """The ends of a line cut to a rectangle, as far as this goes, and whether anything of it is inside."""
    (x, y), (u, v) = a, b
    right, bottom = width - 1, height - 1
    if (x < 0 and u < 0) or (x > right and u > right) or (y < 0 and v < 0) or (y > bottom and v > bottom):
        return a, b, False

    def to_row(x: int, y: int, u: int, v: int) -> Point:
        edge = 0 if y < 0 else bottom
        return (x, y) if 0 <= y <= bottom else (x + int((edge - y) * (u - x) / (v - y)), edge)

    def to_column(x: int, y: int, u: int, v: int) -> Point:
        edge = 0 if x < 0 else right
        return (x, y) if 0 <= x <= right else (edge, y + int((edge - x) * (v - y) / (u - x)))

    x, y = to_row(x, y, u, v)
    u, v = to_row(u, v, x, y)
    if (x < 0 and u < 0) or (x > right and u > right):
        return (x, y), (u, v), False
    x, y = to_column(x, y, u, v)
    u, v = to_column(u, v, x, y)
    return (x, y), (u, v), True


def circle_points(x: int, y: int, radius: int) -> list[Point]:
    """A circle as a polygon of so many corners as OpenCV has for its size; the first is also the last."""
    size = (radius + HALF) >> SHIFT
    step = 90 if size < 3 else 30 if size < 10 else 18 if size < 15 else 5
    points: list[Point] = []
    for angle in range(0, 360 + step, step):
        turn = math.radians(min(angle, 360))
        u, v = (at + radius * float(np.float32(round(f(turn), 7))) for at, f in ((x, math.cos), (y, math.sin)))
        corner = round(u), round(v)
        if not points or points[-1] != corner:
            points.append(corner)
    return points if len(points) > 1 else [(x, y), (x, y)]


def coverage(height: int, width: int, draw: Callable[[Canvas, int], None]) -> Array:
    """How much of each pixel a shape covers, 0 to 1, by samples: ``draw(canvas, scale)`` draws it larger."""
    canvas = Canvas(height * _AA, width * _AA)
    draw(canvas, _AA)
    samples = canvas.mask.reshape(height, _AA, width, _AA)
    share: Array = samples.mean((1, 3), dtype=np.float32)
    return share


__all__ = ["FINE", "HALF", "ONE", "SHIFT", "Canvas", "Point", "circle_points", "coverage"]
