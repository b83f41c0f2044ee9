"""Lines, rectangles, circles and polygons as they mostly are, drawn by functions of generated code that CPython calls.

What they are given is looked at there: a dense picture of bytes or f32 of at most four channels, whole numbers, a
colour of numbers, a list of few dense arrays. Anything else they leave to :mod:`MNN.cv._drawing`, and say so; pixels
are the same, by the same kernels. There are none until a few shapes have been drawn, or where CPython and numpy keep
things elsewhere than is known."""

from __future__ import annotations

import dataclasses
import hashlib
import string
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.pixels import SHIFT, repeated
from MNN.backends.cpu.image.polygons import EDGE, PolygonSpec
from MNN.backends.cpu.image.strokes import Stroke, StrokeSpec
from MNN.backends.cpu.targets.base import Target
from MNN.cv.kernels.quick import known
from MNN.cv.kernels.quick.polygons_ir import POLYGONS
from MNN.cv.kernels.quick.shapes_ir import SHAPES
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
_CHANNELS = 4
_LINE, _RECTANGLE, _CIRCLE = range(3)
_SLOTS = StrokeSpec.of(1).slots()
_RECORD, _FILLING = 2, 2 + len(_KINDS) * _CHANNELS
"""Words of a record before the addresses of kernels, by element type and channels: the common one's, and what is
drawn. Behind kernels of lines there are those that fill polygons, of which the record of polygons has some."""
_SHAPES, _POINTS = 8, 256
"""Polygons at a time, and points of all of them."""


def _never(*given: object) -> bool:
    """Draws nothing, as long as there is no generated code."""
    del given
    return False


line: Draw = _never
rectangle: Draw = _never
circle: Draw = _never
polygons: DrawAll = _never


@dataclasses.dataclass(frozen=True)
class QuickSpec(KernelSpec):
    """``PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t n)``; ``self`` is a record as an array."""

    shaped: ClassVar[bool] = False
    code: str

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        return f"cv.QuickSpec({hashlib.sha256(_text(self.code).encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        del target
        return _text(self.code)


def _text(code: str) -> str:
    strokes = {f"S_{name}": 8 * at for at, name in enumerate(_SLOTS)}
    strokes |= {f"P_{name}": 8 * at for at, name in enumerate(PolygonSpec.of(1).slots())}
    kinds = {f"W_{what.name}": int(what) for what in Stroke}
    memory = {"most": _POINTS, "twice": 2 * _POINTS, "memory": EDGE * (_POINTS + 1) + 2 * _POINTS, "edge": 8 * EDGE}
    return string.Template(code).substitute(
        known.places(), **strokes, **kinds, **memory, RECORD=8 * _RECORD, FILLING=8 * _FILLING, SHIFT=SHIFT,
        words=len(_SLOTS), shapes=_SHAPES, channels=_CHANNELS, rectangle=_RECTANGLE, circle=_CIRCLE,
        few=repeated(1), fewer=repeated(16),
    )  # fmt: skip


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
    one, many = library().load([QuickSpec.of(SHAPES), QuickSpec.of(POLYGONS)])
    made, kernels = [], len(_KINDS) * _CHANNELS
    for what, address, count in (
        (_LINE, one, kernels), (_RECTANGLE, one, kernels), (_CIRCLE, one, kernels), (0, many, 2 * kernels),
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
    if kind not in _KINDS or not 1 <= channels <= _CHANNELS:
        return
    with _Made.lock:
        _Made.shapes += 1
        if _Made.shapes == SOONEST:
            _install()
        place = (_FILLING if filled else _RECORD) + _KINDS.index(kind) * _CHANNELS + channels - 1
        for record in _Made.records:
            if place < len(record) and not record[place]:
                size = kind.itemsize * channels
                record[place] = library().load([PolygonSpec.of(size) if filled else StrokeSpec.of(size)])[0]


__all__ = ["SOONEST", "Draw", "DrawAll", "QuickSpec", "circle", "drawn", "line", "polygons", "rectangle"]
