"""Lines, rectangles and circles as they mostly are, drawn by functions of generated code that CPython calls straight.

What they are given is looked at there: a dense picture of bytes or f32 of at most four channels, whole numbers, a
colour of numbers. Anything else they leave to :mod:`MNN.cv._drawing`, and say so; pixels are the same, by the same
kernels. There are none until a few shapes have been drawn, or where CPython and numpy keep things elsewhere than is
known."""

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
from MNN.backends.cpu.image.strokes import Stroke, StrokeSpec
from MNN.backends.cpu.targets.base import Target
from MNN.cv.kernels.quick import known
from MNN.cv.kernels.quick.shapes_ir import SHAPES
from MNN.cv.kernels.run import library
from MNN.expr.arrays.native.methods import FASTCALL, Method, function_of

Draw = Callable[[Any, Any, Any, Any, Any, Any, Any], bool]
"""Of a picture, a point, another one or a radius, a colour, the thickness, the kind of line and the shift: whether that
was drawn."""
SOONEST = 24
"""Shapes after which the functions are made."""
_KINDS = (np.dtype(np.uint8), np.dtype(np.float32))
_CHANNELS = 4
_LINE, _RECTANGLE, _CIRCLE = range(3)
_SLOTS = {name: i for i, name in enumerate(StrokeSpec.of(1).slots())}
_RECORD = 2
"""Words of a record before the addresses of kernels, by element type and channels: the common one's, and what is
drawn."""


def _never(*given: object) -> bool:
    """Draws nothing, as long as there is no generated code."""
    del given
    return False


line: Draw = _never
rectangle: Draw = _never
circle: Draw = _never


@dataclasses.dataclass(frozen=True)
class QuickSpec(KernelSpec):
    """``PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t n)``; ``self`` is a record as an array."""

    shaped: ClassVar[bool] = False

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        return f"cv.QuickSpec({hashlib.sha256(_text().encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        del target
        return _text()


def _text() -> str:
    strokes = {f"S_{name}": 8 * at for name, at in _SLOTS.items()}
    kinds = {f"W_{what.name}": int(what) for what in Stroke}
    return string.Template(SHAPES).substitute(
        known.places(), **strokes, **kinds, RECORD=8 * _RECORD, SHIFT=SHIFT, words=len(_SLOTS), channels=_CHANNELS,
        rectangle=_RECTANGLE, circle=_CIRCLE, few=repeated(1), fewer=repeated(16),
    )  # fmt: skip


class _Made:
    """The functions; CPython has the addresses of what is here for the life of the process."""

    lock = threading.Lock()
    shapes = 0
    kept: ClassVar[list[object]] = []
    records: ClassVar[list[Any]] = []


def _install() -> None:
    """Makes the functions."""
    global line, rectangle, circle  # where those look that call them
    shared = known.common()
    if shared is None:
        return
    (address,) = library().load([QuickSpec()])
    method = Method(b"drawn", address, FASTCALL, b"Draws a shape, if it is a usual one; whether it has.")
    _Made.kept.append(method)
    made = []
    for what in (_LINE, _RECTANGLE, _CIRCLE):
        record = np.array([shared.ctypes.data, what, *[0] * (len(_KINDS) * _CHANNELS)], np.int64)
        _Made.records.append(record)
        made.append(function_of(method, record))
    line, rectangle, circle = made


def drawn(kind: np.dtype[Any], channels: int) -> None:
    """To be told of a shape that was drawn in Python, into a picture of an element type: the next ones may be drawn
    here."""
    if kind not in _KINDS or not 1 <= channels <= _CHANNELS:
        return
    with _Made.lock:
        _Made.shapes += 1
        if _Made.shapes == SOONEST:
            _install()
        place = _RECORD + _KINDS.index(kind) * _CHANNELS + channels - 1
        for record in _Made.records:
            if not record[place]:
                record[place] = library().load([StrokeSpec.of(kind.itemsize * channels)])[0]


__all__ = ["SOONEST", "Draw", "QuickSpec", "circle", "drawn", "line", "rectangle"]
