"""Points by :mod:`MNN.backends.cpu.image.points`."""

from __future__ import annotations

import functools
import itertools
import threading

import numpy as np

from MNN.backends.cpu.image.points import NUMBERS, Measure, PointsSpec
from MNN.cv.kernels.quick import measures
from MNN.cv.kernels.run import Array, Call, address, alone

_FEW = 256
"""Points for which there is memory at hand: making it takes as long as to measure them."""


class _Room:
    """Memory to measure so many points in."""

    def __init__(self, count: int) -> None:
        each = 2 * (count + 1)
        self.points, self.result, self.order = np.empty((count, 2)), np.empty(NUMBERS), np.empty(3 * each, np.int32)
        order = address(self.order)
        self.place, self.found = address(self.points), (address(self.result), order, order + 4 * each, order + 8 * each)


class _Own(threading.local):
    """The memory of one thread."""

    def __init__(self) -> None:
        self.room = _Room(_FEW)


_OWN = _Own()
_count = itertools.count(1).__next__
"""Counts a measure."""


def _never(*given: object) -> bool:
    """Measures nothing, as long as there is no generated code."""
    del given
    return False


_quick: list[measures.Measuring] = [_never]


def at_once(points: object, what: int, clockwise: object = False) -> list[float] | None:
    """What a :class:`Measure` (as a whole number) has to say of points as they mostly are, in numbers; None of others,
    whose errors are to be told, too."""
    room = _OWN.room
    if not _quick[0](points, what, clockwise, room.points, room.result, room.order):
        return None
    found: list[float] = room.result.tolist()
    return found


def places(count: int) -> Array:
    """The places (i32) of the corners of the hull that :func:`at_once` has found in this thread, until the next one."""
    found: Array = _OWN.room.order[:count]
    return found


@functools.cache
def _kernel() -> Call:
    return alone(PointsSpec.of())


def measured(points: Array, what: Measure) -> list[float]:
    """What a :class:`Measure` has to say in numbers of points (count, 2)."""
    found: list[float] = _run(points, what, False).result.tolist()
    return found


def hull(points: Array, what: Measure, clockwise: bool) -> tuple[list[float], Array]:
    """The same, and the places (i32) of the hull's corners."""
    room = _run(points, what, clockwise)
    found = room.result.tolist()
    return found, room.order[: int(found[0])].copy()


def _run(points: Array, what: Measure, clockwise: bool) -> _Room:
    kernel = _kernel()
    count = len(points)
    if _quick[0] is _never and _count() == measures.SOONEST:
        _quick[0] = measures.function(_FEW) or _never
    room = _OWN.room if count <= _FEW else _Room(count)
    room.points[:count] = points
    kernel(room.place, count, what, clockwise, *room.found)
    return room


__all__ = ["Measure", "at_once", "hull", "measured", "places"]
