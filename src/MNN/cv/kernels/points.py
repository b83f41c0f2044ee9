"""Points by :mod:`MNN.backends.cpu.image.points`."""

from __future__ import annotations

import numpy as np

from MNN.backends.cpu.image.points import NUMBERS, Measure, PointsSpec
from MNN.cv.kernels.run import Array, address, alone

_SPEC = PointsSpec.of()


def measured(points: Array, what: Measure) -> list[float]:
    """What a :class:`Measure` has to say in numbers of points (count, 2)."""
    found: list[float] = _run(points, what, False)[0].tolist()
    return found


def hull(points: Array, what: Measure, clockwise: bool) -> tuple[list[float], Array]:
    """The same, and the places (i32) of the hull's corners."""
    numbers, order = _run(points, what, clockwise)
    found = numbers.tolist()
    return found, order[: int(found[0])]


def _run(points: Array, what: Measure, clockwise: bool) -> tuple[Array, Array]:
    points = np.ascontiguousarray(points, np.float64)
    kernel, pack = alone(_SPEC)
    count = len(points)
    result = np.empty(NUMBERS)
    if what >= Measure.AREA:
        kernel(pack(address(points), count, what, 0, address(result), 0, 0, 0), 0, 1, None)
        return result, result
    room = 2 * (count + 1)
    memory = np.empty(3 * room, np.int32)
    order = address(memory)
    places = (order, order + 4 * room, order + 8 * room)
    kernel(pack(address(points), count, what, int(clockwise), address(result), *places), 0, 1, None)
    return result, memory


__all__ = ["Measure", "hull", "measured"]
