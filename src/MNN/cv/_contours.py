"""Borders of regions by following them (Suzuki and Abe, 1985)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from MNN.backends.cpu.image.borders import COUNT, FIRST, HOLE, PARENT
from MNN.cv._array import Array, _wrap, as_image
from MNN.cv._constants import (
    CHAIN_APPROX_NONE,
    CHAIN_APPROX_SIMPLE,
    RETR_CCOMP,
    RETR_EXTERNAL,
    RETR_LIST,
    RETR_TREE,
)
from MNN.cv.kernels import regions as kernels
from MNN.errors import ShapeError, UnsupportedError
from MNN.expr.var import Var

_AROUND = ((1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1))
"""Steps (x, y) to the eight neighbours, anticlockwise from the right."""


class _Border:
    """A border: its points, whether it surrounds a hole, and the border around it (None for the picture's)."""

    __slots__ = ("hole", "parent", "points")

    def __init__(self, hole: bool, parent: _Border | None) -> None:
        self.hole, self.parent = hole, parent
        self.points: list[tuple[int, int]] = []


def findContours(  # noqa: N802
    image: ArrayLike, mode: int, method: int, offset: Sequence[int] = (0, 0)
) -> tuple[list[Var], Var | None]:
    """The borders of the regions that are not 0, each as points (count, 1, 2) of x and y, and their hierarchy.

    The hierarchy (1, count, 4) holds next, previous, first child and parent, -1 for none; None without borders.

    ``mode``: outermost borders (``RETR_EXTERNAL``), all in a list, in two levels (``RETR_CCOMP``) or as a tree.
    ``method``: all points, or the ends of straight runs (``CHAIN_APPROX_SIMPLE``)."""
    picture = as_image(image, "image")
    if picture.ndim == 3 and picture.shape[2] != 1:
        raise ShapeError(f"findContours() takes a picture of one channel, found shape {picture.shape}")
    if mode not in (RETR_EXTERNAL, RETR_LIST, RETR_CCOMP, RETR_TREE):
        raise UnsupportedError(f"findContours(): mode {mode} is not supported; use RETR_EXTERNAL, _LIST, _CCOMP, _TREE")
    if method not in (CHAIN_APPROX_NONE, CHAIN_APPROX_SIMPLE):
        raise UnsupportedError(f"findContours(): method {method} is not supported; use CHAIN_APPROX_NONE or _SIMPLE")
    plane = picture.reshape(picture.shape[:2])
    found = kernels.followed(plane, method == CHAIN_APPROX_SIMPLE)
    table, points = _in_numpy(plane != 0, method) if found is None else found
    if len(points) and any(moved := [int(n) for n in offset]):
        points = points + np.array(moved, np.int32)
    order, parents = _order(table, mode)
    ends = table[order, FIRST] + table[order, COUNT]
    shaped = points[:, None]
    given = [_wrap(shaped[i:j]) for i, j in zip(table[order, FIRST].tolist(), ends.tolist(), strict=True)]
    return given, _wrap(_hierarchy(parents)) if len(order) else None


def _in_numpy(filled: Array, method: int) -> tuple[Array, Array]:
    """As :func:`MNN.cv.kernels.regions.followed`."""
    borders = _borders(filled)
    place = {id(border): i for i, border in enumerate(borders)}
    points = [_points(border.points, method) for border in borders]
    counts = [len(p) for p in points]
    parents = [-1 if b.parent is None else place[id(b.parent)] for b in borders]
    first = np.cumsum([0, *counts])[:-1]
    table = np.array([[b.hole for b in borders], parents, first, counts], np.int32).T
    return table, np.concatenate([np.empty((0, 2), np.int32), *points])


def _borders(filled: Array) -> list[_Border]:
    """All borders in the order in which a scan by rows meets them."""
    height, width = filled.shape
    stride = width + 2
    padded = np.zeros((height + 2, stride), np.bool_)
    padded[1:-1, 1:-1] = filled
    marks = padded.astype(np.int32).ravel().tolist()
    steps = [x + y * stride for x, y in _AROUND]
    starts = np.flatnonzero(padded.ravel())
    flat = padded.ravel()
    edges = starts[~flat[starts - 1] | ~flat[starts + 1]].tolist()
    found: list[_Border] = []
    row, last = -1, 0
    for at in edges:
        if at // stride != row:
            row, last = at // stride, 0
        outer = marks[at] == 1 and not flat[at - 1]
        hole = not outer and marks[at] >= 1 and not flat[at + 1]
        if outer or hole:
            last = abs(marks[at]) if hole and abs(marks[at]) > 1 else last
            border = _Border(hole, _around(hole, found, last))
            found.append(border)
            _follow(border, marks, steps, at, 4 if outer else 0, len(found) + 1, stride)
        if abs(marks[at]) > 1:
            last = abs(marks[at])
    return found


def _around(hole: bool, found: list[_Border], last: int) -> _Border | None:
    """The border that directly surrounds a new one, from the last one met in its row (2 is the first border)."""
    if last < 2:
        return None
    before = found[last - 2]
    return before.parent if before.hole == hole else before


def _follow(
    border: _Border, marks: list[int], steps: list[int], start: int, back: int, number: int, stride: int
) -> None:
    """Walks around a border from ``start``, whose neighbour in the direction ``back`` lies outside of it; marks pixels
    with its number, negative where its right side is open."""
    first = next((d for k in range(1, 9) if marks[start + steps[d := (back - k) % 8]] != 0), None)
    points = border.points
    if first is None:
        marks[start] = -number
        points.append((start % stride - 1, start // stride - 1))
        return
    end = start + steps[first]
    at, come = start, first
    while True:
        points.append((at % stride - 1, at // stride - 1))
        open_right = False
        for k in range(1, 9):
            direction = (come + k) % 8
            if marks[at + steps[direction]] != 0:
                break
            open_right = open_right or direction == 0
        if open_right:
            marks[at] = -number
        elif marks[at] == 1:
            marks[at] = number
        following = at + steps[direction]
        if following == start and at == end:
            return
        at, come = following, (direction + 4) % 8


def _points(points: list[tuple[int, int]], method: int) -> Array:
    array = np.array(points, np.int32)
    if method == CHAIN_APPROX_NONE or len(array) < 2:
        return array
    ahead = np.roll(array, -1, 0) - array
    turns = (ahead != np.roll(ahead, 1, 0)).any(1)
    return np.asarray(array[turns])


def _order(table: Array, mode: int) -> tuple[Array, Array]:
    """Borders as OpenCV lists them, the last met first; in levels, each followed by what is within. Their numbers, and
    the place in that list of the border around each, -1 for none."""
    count = len(table)
    around, hole = table[:, PARENT].astype(np.int64), table[:, HOLE] != 0
    numbers = np.arange(count)
    if mode == RETR_EXTERNAL:
        numbers = numbers[around < 0]
    if mode in (RETR_EXTERNAL, RETR_LIST):
        return numbers[::-1], np.full(len(numbers), -1)
    if mode == RETR_CCOMP:
        outer = np.where(hole, around, numbers)
        order = np.lexsort((-numbers, hole, -outer))
        around = np.where(hole, around, -1)
    else:
        order = _tree(around)
    place = np.empty(count + 1, np.int64)
    place[order], place[-1] = numbers, -1
    return order, place[around[order]]


def _tree(around: Array) -> Array:
    """Numbers in the order of a walk through a tree that takes the later ones first."""
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(around.tolist()):
        children.setdefault(parent, []).append(number)
    ordered: list[int] = []
    stack = children.get(-1, [])
    while stack:
        number = stack.pop()
        ordered.append(number)
        stack += children.get(number, ())
    return np.array(ordered, np.int64)


def _hierarchy(parents: Array) -> Array:
    """Next, previous, first child and parent (1, count, 4) of each border, from the place of each one's parent."""
    table = np.full((1, len(parents), 4), -1, np.int32)
    table[0, :, 3] = parents
    order = np.argsort(parents, kind="stable")  # children of one parent side by side
    beside = parents[order[1:]] == parents[order[:-1]]
    before, after = order[:-1][beside], order[1:][beside]
    table[0, before, 0], table[0, after, 1] = after, before
    first = order[np.concatenate([[True], ~beside])]
    first = first[parents[first] >= 0]
    table[0, parents[first], 2] = first
    return table
