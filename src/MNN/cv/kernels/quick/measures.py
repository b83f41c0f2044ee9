"""Points as they mostly are, dense arrays of i32 or f32 and not many of them, read and measured by a function of
generated code that CPython calls straight; what else there is it leaves to :mod:`MNN.cv.kernels.points`, and says
so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.backends.cpu.image.points import PointsSpec
from MNN.backends.cpu.typed.language import (
    NULL,
    Doubles,
    Ints,
    Pointer,
    Singles,
    Words,
    address,
    numbered,
    typed,
    words,
)
from MNN.backends.cpu.typed.spec import TypedSpec
from MNN.cv.kernels.quick import known
from MNN.cv.kernels.quick.known import Common, Entry, Kernel
from MNN.cv.kernels.quick.reading import calling, pairs, whole_of
from MNN.cv.kernels.run import library
from MNN.expr.arrays.native.methods import FASTCALL, Method, function_of
from MNN.expr.arrays.native.objects import Arguments, Array

Measuring = Callable[[Any, int, Any, Any, Any, Any], bool]
"""Of points (count, 2) or (count, 1, 2), a measure, whether a hull is clockwise, memory for the points, the result and
the places: whether they were measured."""
SOONEST = 16
"""Measures after which the function is made."""
_S = numbered(PointsSpec.of().slots())
_SLOTS = len(vars(_S))


class Measurer(Entry):
    """Where the kernel's address is, and the most points."""

    kernel: Pointer
    most: int


@typed
def widened(numbers: Ints, count: int, as_whole: bool, to: Doubles) -> bool:
    """Copies numbers of i32 or f32 as f64; whether all of them are finite."""
    for i in range(count):
        if as_whole:
            to[i] = float(numbers[i])
        else:
            to[i] = Singles(numbers)[i]
            if to[i] - to[i] != 0.0:
                return False
    return True


@typed
def measure(c: Common, entry: Entry, given: Arguments) -> bool:
    """Whether points have been measured."""
    most = Measurer(entry).most
    points = Array(given[0])
    count = pairs(c, points)
    if not 1 <= count <= most:
        return False
    as_whole = points.element is c.ints
    if not as_whole and points.element is not c.singles:
        return False
    what, slots = words(1), words(_SLOTS)
    if not whole_of(c, given[1], what) or (given[2] is not c.true and given[2] is not c.false):
        return False
    for i in range(3, 6):
        if given[i].type is not c.array:
            return False
    room = Doubles(Array(given[3]).data)
    if not widened(Ints(points.data), 2 * count, as_whole, room):
        return False
    order = Ints(Array(given[5]).data)
    of_all = 2 * (most + 1)  # two i32 a point, and two more, three times
    slots[_S.points], slots[_S.count], slots[_S.what] = address(room), count, what[0]
    slots[_S.clockwise], slots[_S.result] = int(given[2] is c.true), address(Array(given[4]).data)
    slots[_S.order], slots[_S.sorted] = address(order), address(order.after(of_all))
    slots[_S.chain] = address(order.after(2 * of_all))
    Kernel(Words(entry).after(1)).run(slots, 0, 1, NULL)
    return True


def function(most: int) -> Measuring | None:
    """What measures at most so many points, in memory for as many; None where CPython and numpy are not as they are
    known."""
    shared = known.common()
    if shared is None:
        return None
    kernel, address = library().load(
        [PointsSpec.of(), TypedSpec("measuring points", calling(measure, 6), sources=known.SOURCES)]
    )
    method = Method(b"measured", address, FASTCALL, b"Measures points, if they are usual ones; whether it has.")
    _KEPT.append(method)
    made: Measuring = function_of(method, np.array([shared.ctypes.data, kernel, most], np.int64))
    return made


_KEPT: list[Method] = []
"""What CPython has the addresses of: for the life of the process."""

__all__ = ["SOONEST", "Measuring", "function"]
