# ruff: noqa: N802 - the names are PyMNN's
"""Matrices of three rows that map points of a plane."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from MNN.errors import MNNError

Array = NDArray[Any]


class CVMatrix:
    """A 3 x 3 matrix that maps points (x, y, 1), the identity at first; in :class:`CVImageProcess` from pixels of the
    result to the source. ``pre`` multiplies on the right (done first), ``post`` on the left.

    numpy sees an array: 3 x 3, or 2 x 3 of those that ``cv.getAffineTransform`` and its like give."""

    def __init__(self) -> None:
        self._array: Array = np.eye(3)
        self._rows = 3

    @classmethod
    def of(cls, array: ArrayLike) -> CVMatrix:
        """A matrix of 2 x 3 or 3 x 3 numbers."""
        matrix = cls()
        matrix._rows = len(np.asarray(array))
        matrix._array = np.concatenate([np.asarray(array, np.float64), np.eye(3)[matrix._rows :]])
        return matrix

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self._array[: self._rows], dtype)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    @property
    def shape(self) -> tuple[int, int]:
        """3 x 3 or 2 x 3."""
        return self._rows, 3

    def read(self) -> list[float]:
        """The nine numbers, row by row."""
        return [float(np.float32(n)) for n in self._array.ravel()]

    def write(self, value: ArrayLike) -> None:
        """Writes the first numbers, row by row, at most nine."""
        numbers = np.asarray(value, np.float64).ravel()[:9]
        if not np.isfinite(numbers).all():
            raise MNNError(f"a matrix holds finite numbers, found {value!r}")
        flat = self._array.ravel().copy()
        flat[: numbers.size] = numbers
        self._array = flat.reshape(3, 3)

    def __repr__(self) -> str:
        rows = ("\t".join(f"{n:f}" for n in row) for row in self._array)
        return "[[" + "]\n [".join(rows) + "]]"

    # -- scaling, turning, moving -----------------------------------------------------------------------------------

    def setScale(self, sx: float, sy: float, px: float = 0.0, py: float = 0.0) -> None:
        """Scales about the point (px, py)."""
        self._array = _scale(sx, sy, px, py)

    def preScale(self, sx: float, sy: float, px: float = 0.0, py: float = 0.0) -> None:
        """Scales first, then maps as before."""
        self._array = self._array @ _scale(sx, sy, px, py)

    def postScale(self, sx: float, sy: float, px: float = 0.0, py: float = 0.0) -> None:
        """Maps as before, then scales."""
        self._array = _scale(sx, sy, px, py) @ self._array

    def setRotate(self, degrees: float, px: float = 0.0, py: float = 0.0) -> None:
        """Turns clockwise about the point (px, py)."""
        self._array = _turn(degrees, px, py)

    def preRotate(self, degrees: float, px: float = 0.0, py: float = 0.0) -> None:
        """Turns first, then maps as before."""
        self._array = self._array @ _turn(degrees, px, py)

    def postRotate(self, degrees: float, px: float = 0.0, py: float = 0.0) -> None:
        """Maps as before, then turns."""
        self._array = _turn(degrees, px, py) @ self._array

    def setTranslate(self, dx: float, dy: float) -> None:
        """Moves by (dx, dy)."""
        self._array = _move(dx, dy)

    def preTranslate(self, dx: float, dy: float) -> None:
        """Moves first, then maps as before."""
        self._array = self._array @ _move(dx, dy)

    def postTranslate(self, dx: float, dy: float) -> None:
        """Maps as before, then moves."""
        self._array = _move(dx, dy) @ self._array

    # -- from points --------------------------------------------------------------------------------------------------

    def setPolyToPoly(self, src: ArrayLike, dst: ArrayLike) -> None:
        """Takes up to four points to as many others: none is the identity, one moves, two turn and scale, three are any
        affine map, four any perspective one. Raises :class:`MNNError` where there is no such map."""
        a, b = (np.asarray(p, np.float64).reshape(-1, 2) for p in (src, dst))
        if len(a) != len(b) or len(a) > 4:
            raise MNNError(f"setPolyToPoly() takes up to four points to as many, found {len(a)} and {len(b)}")
        if not len(a):
            self._array = np.eye(3)
            return
        try:
            self._array = _basis(b) @ np.linalg.inv(_basis(a))
        except np.linalg.LinAlgError:
            raise MNNError(f"setPolyToPoly(): points lie on each other or on a line: {a.tolist()}") from None
        if len(a) == 4:
            self._array = self._array / self._array[2, 2]

    def invert(self) -> None:
        """Maps the other way; a matrix without an inverse stays."""
        if np.linalg.det(self._array) != 0:
            self._array = np.linalg.inv(self._array)


def _scale(sx: float, sy: float, px: float, py: float) -> Array:
    return np.array([[sx, 0, px - sx * px], [0, sy, py - sy * py], [0, 0, 1.0]])


def _turn(degrees: float, px: float, py: float) -> Array:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[c, -s, s * py + (1 - c) * px], [s, c, -s * px + (1 - c) * py], [0, 0, 1]])


def _move(dx: float, dy: float) -> Array:
    return np.array([[1, 0, dx], [0, 1, dy], [0, 0, 1.0]])


def _basis(points: Array) -> Array:
    """The map that takes the corners of the unit square (as many as there are points) to points."""
    first = points[0]
    if len(points) == 1:
        return _move(*first)
    x, y = points[1] - first
    if len(points) == 2:
        return np.array([[x, -y, first[0]], [y, x, first[1]], [0, 0, 1.0]])
    if len(points) == 3:
        across, down = points[1] - first, points[2] - first
        return np.array([[across[0], down[0], first[0]], [across[1], down[1], first[1]], [0, 0, 1.0]])
    lines = np.concatenate([points[[0, 1, 3]], np.ones((3, 1))], 1).T
    weights = np.linalg.solve(lines, np.append(points[2], 1.0)) * [-1, 1, 1]
    corners = lines * weights  # of (0, 0), (1, 0), (0, 1), so that (1, 1) goes to the third point
    return np.stack([corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0], corners[:, 0]], 1)


__all__ = ["CVMatrix"]
