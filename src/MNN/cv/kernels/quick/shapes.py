"""Lines, rectangles, circles and polygons as they mostly are, drawn by functions of generated code that CPython calls.

What they are given is looked at there: a dense picture of bytes or f32 of at most four channels, whole numbers, a
colour of numbers, a list of few dense arrays. Anything else they leave to :mod:`MNN.cv._drawing`, and say so; pixels
are the same, by the same kernels. There are none until a few shapes have been drawn, or where CPython and numpy keep
things elsewhere than is known."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from MNN.backends.cpu.image.polygons import PolygonSpec
from MNN.backends.cpu.image.strokes import StrokeSpec
from MNN.backends.cpu.typed.spec import TypedSpec
from MNN.cv.kernels.quick import drawing, known
from MNN.cv.kernels.quick import polygons as polygons_
from MNN.cv.kernels.quick.canvas import CHANNELS
from MNN.cv.kernels.quick.polygons import KERNELS
from MNN.cv.kernels.quick.reading import calling
from MNN.cv.kernels.run import library
from MNN.expr.arrays.native.methods import FASTCALL, Method, function_of

Draw = Callable[[Any, Any, Any, Any, Any, Any, Any], bool]
"""Of a picture, a point, another one or a radius, a colour, the thickness, the kind of line and the shift: whether that
was drawn."""
DrawAll = Callable[[Any, Any, Any, Any, Any, Any], bool]
"""Of a picture, a list of polygons, the number of one of them or -1 for all, a colour, the thickness (below 0: filled)
and the kind of line: whether they were drawn."""
SOONEST = 24
"""Shapes after which the functions are made."""
_KINDS = (np.dtype(np.uint8), np.dtype(np.float32))


def _never(*given: object) -> bool:
    """Draws nothing, as long as there is no generated code."""
    del given
    return False


line: Draw = _never
rectangle: Draw = _never
circle: Draw = _never
polygons: DrawAll = _never


class _Made:
    """The functions; CPython has the addresses of what is here for the life of the process."""

    lock = threading.Lock()
    shapes = 0
    kept: ClassVar[list[object]] = []
    records: ClassVar[list[Any]] = []


def _install() -> None:
    """Makes the functions."""
    global line, rectangle, circle, polygons  # where those look that call them
    shared = known.common()
    if shared is None:
        return
    one, many = library().load([
        TypedSpec("drawing a shape", calling(drawing.draw, 7), sources=known.SOURCES),
        TypedSpec("drawing polygons", calling(polygons_.draw, 6), sources=known.SOURCES),
    ])  # fmt: skip
    made = []
    for what, address, count in (
        (drawing.LINE, one, KERNELS), (drawing.RECTANGLE, one, KERNELS), (drawing.CIRCLE, one, KERNELS),
        (0, many, 2 * KERNELS),
    ):  # fmt: skip
        method = Method(b"drawn", address, FASTCALL, b"Draws shapes, if they are usual ones; whether it has.")
        record = np.array([shared.ctypes.data, what, *[0] * count], np.int64)
        _Made.kept.append(method)
        _Made.records.append(record)
        made.append(function_of(method, record))
    line, rectangle, circle, polygons = made


def drawn(kind: np.dtype[Any], channels: int, filled: bool = False) -> None:
    """To be told of a shape that was drawn in Python, or of polygons that were ``filled``, into a picture of an element
    type: the next ones may be drawn here."""
    if kind not in _KINDS or not 1 <= channels <= CHANNELS:
        return
    with _Made.lock:
        _Made.shapes += 1
        if _Made.shapes == SOONEST:
            _install()
        place = drawing.FIRST_KERNEL + (KERNELS if filled else 0) + _KINDS.index(kind) * CHANNELS + channels - 1
        for record in _Made.records:
            if place < len(record) and not record[place]:
                size = kind.itemsize * channels
                record[place] = library().load([PolygonSpec.of(size) if filled else StrokeSpec.of(size)])[0]


__all__ = ["SOONEST", "Draw", "DrawAll", "circle", "drawn", "line", "polygons", "rectangle"]
