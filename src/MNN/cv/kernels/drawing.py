"""Drawing by :mod:`MNN.backends.cpu.image.strokes` and :mod:`MNN.backends.cpu.image.polygons`.

Positions are in 1/65536 of a pixel."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from MNN.backends.cpu.image.pixels import MOST, SHIFT, repeated
from MNN.backends.cpu.image.polygons import EDGE, PolygonSpec
from MNN.backends.cpu.image.strokes import FINE, INLINE, Stroke, StrokeSpec
from MNN.cv.kernels.run import Array, Call, address, alone

_NOTHING = (0,) * (2 * INLINE)


class Ink(NamedTuple):
    """A colour as kernels take it: where it lies, over and over, in ``memory``."""

    place: int
    memory: Array


def ink(pixel: Array) -> Ink:
    """The colour of a pixel, an array (channels)."""
    memory = np.tile(pixel, repeated(pixel.nbytes))
    return Ink(address(memory), memory)


class Surface(NamedTuple):
    """A picture that kernels draw into: where it lies, bytes from row to row, its size, the bytes of a pixel."""

    image: Array
    row: int
    width: int
    height: int
    pixel: int


def surface(image: Array) -> Surface | None:
    """An array (height, width) or (height, width, channels) as a surface; None where its pixels lie apart or are too
    large."""
    shape, strides, pixel = image.shape, image.strides, image.itemsize
    if len(shape) == 3:
        if strides[2] != pixel:
            return None
        pixel *= shape[2]
    if strides[1] != pixel or pixel > MOST:
        return None
    return Surface(image, strides[0], shape[1], shape[0], pixel)


def stroke(to: Surface, colour: Ink, what: Stroke, kind: int, thickness: int, points: Sequence[int]) -> None:
    """Draws one shape of at most four points: x, y, x, y and so on."""
    kernel = _strokes(to.pixel)
    numbers = (*points, *_NOTHING[len(points) :])
    kernel(*to[:4], colour.place, what, kind, thickness, 1, 0, 0, len(points) // 2, *numbers)


def strokes(
    to: Surface, colour: Ink, what: Stroke, kind: int, thickness: int, counts: Sequence[int], points: Array
) -> None:
    """Draws shapes of so many points (i64: x, y), one after the other."""
    kernel = _strokes(to.pixel)
    points, numbers = np.ascontiguousarray(points, np.int64), np.array(counts, np.int64)
    shapes = (len(numbers), numbers, points)
    kernel(*to[:4], colour.place, what, kind, thickness, *shapes, 0, *_NOTHING)


def polygons(to: Surface, colour: Ink, kind: int, counts: Sequence[int], points: Array) -> None:
    """Fills polygons of so many points (i64: x, y); what lies in an even number of them stays."""
    kernel = _polygons(to.pixel)
    points, numbers = np.ascontiguousarray(points, np.int64), np.array(counts, np.int64)
    total = len(points)
    memory = np.empty((EDGE + 2) * total + EDGE, np.int64)
    places = (numbers, points, memory, memory[EDGE * (total + 1) :])
    kernel(*to[:4], colour.place, kind, len(numbers), *places)


@functools.cache
def _polygons(pixel: int) -> Call:
    return alone(PolygonSpec.of(pixel))


@functools.cache
def _strokes(pixel: int) -> Call:
    return alone(StrokeSpec.of(pixel))


__all__ = ["FINE", "SHIFT", "Ink", "Stroke", "Surface", "ink", "polygons", "stroke", "strokes", "surface"]
