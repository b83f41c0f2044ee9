"""Borders of regions by following them (Suzuki and Abe, 1985)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_image
from MNN.cv._constants import (
    CHAIN_APPROX_NONE,
    CHAIN_APPROX_SIMPLE,
    RETR_CCOMP,
    RETR_EXTERNAL,
    RETR_LIST,
    RETR_TREE,
)
from MNN.errors import ShapeError, UnsupportedError
from MNN.expr.var import Var

_AROUND = ((1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1))
"""Steps (x, y) to the eight neighbours, anticlockwise from the right."""


class _Border:
    """A border: its points, whether it surrounds a hole, and the border around it (None for the picture's)."""

    __slots__ = ("children", "hole", "parent", "points")

    def __init__(self, hole: bool, parent: _Border | None) -> None:
        self.hole, self.parent = hole, parent
        self.points: list[tuple[int, int]] = []
        self.children: list[_Border] = []


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
    borders = _borders(picture.reshape(picture.shape[:2]) != 0)
    if mode == RETR_EXTERNAL:
        borders = [b for b in borders if b.parent is None]
    for border in borders:
        if border.parent is not None:
            border.parent.children.append(border)
    ordered = _order(borders, mode)
    shift = np.array([int(n) for n in offset], np.int32)
    found = [_wrap((_points(b.points, method) + shift).astype(np.int32)[:, None]) for b in ordered]
    return found, _wrap(_hierarchy(ordered, mode)) if ordered else None


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


def _order(borders: list[_Border], mode: int) -> list[_Border]:
    """Borders as OpenCV lists them: the last met first; in levels, each followed by what is within."""
    if mode in (RETR_EXTERNAL, RETR_LIST):
        return borders[::-1]
    if mode == RETR_CCOMP:
        return [b for outer in reversed(borders) if not outer.hole for b in (outer, *reversed(outer.children))]
    ordered: list[_Border] = []
    stack = [b for b in borders if b.parent is None]
    while stack:
        border = stack.pop()
        ordered.append(border)
        stack += border.children
    return ordered


def _hierarchy(ordered: list[_Border], mode: int) -> Array:
    """Next, previous, first child and parent of each border."""
    place = {id(b): i for i, b in enumerate(ordered)}
    table = np.full((1, len(ordered), 4), -1, np.int32)
    last: dict[Any, int] = {}
    for i, border in enumerate(ordered):
        flat = mode in (RETR_EXTERNAL, RETR_LIST) or (mode == RETR_CCOMP and not border.hole)
        parent = -1 if flat or border.parent is None else place[id(border.parent)]
        table[0, i, 3] = parent
        if parent in last:
            table[0, i, 1], table[0, last[parent], 0] = last[parent], i
        elif parent >= 0:
            table[0, parent, 2] = i
        last[parent] = i
    return table
