"""Shapes: tuples of known sizes or named symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.traced import TracedSize

Dim = int | str
"""A size, or the name of a size that is known only when inputs are (``"batch"``, ``"seq"``)."""
Shape = tuple[Dim, ...]


def static(shape: Shape | None) -> tuple[int, ...] | None:
    """The shape as integers, or None when any size is unknown."""
    if shape is None or any(not isinstance(d, int) for d in shape):
        return None
    return tuple(int(d) for d in shape)


def elements(shape: Sequence[int]) -> int:
    """Number of elements of a static shape (1 for a scalar)."""
    return math.prod(shape)


def broadcast(*shapes: Sequence[int], where: str = "") -> tuple[int, ...]:
    """The common shape by numpy's rule. Raises :class:`ShapeError` naming ``where`` when there is none."""
    first = shapes[0] if shapes else ()
    for shape in shapes:
        if shape != first:
            break
    else:
        return tuple(first)
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, d in enumerate(shape, rank - len(shape)):
            if d != 1 and out[i] not in (1, d):
                listed = " and ".join(str(tuple(s)) for s in shapes)
                raise ShapeError(f"{where or 'operands'}: shapes {listed} do not broadcast together")
            if d != 1 and not isinstance(out[i], TracedSize):
                out[i] = d
    return tuple(out)


def normalize_axis(axis: int, rank: int, where: str = "") -> int:
    """A non-negative axis. Raises :class:`ShapeError` naming ``where`` when it lies outside the rank."""
    if not -rank <= axis < max(rank, 1):
        raise ShapeError(f"{where or 'axis'}: axis {axis} is outside a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis


def cut(begin: int, end: int, step: int, size: int) -> slice:
    """A slice by ONNX's rule. It is Python's but for a step back from before the first element: that begins at the
    first one, where Python takes nothing."""
    return slice(0 if step < 0 and begin < -size else begin, end, step)


def counted(item: slice, size: int) -> tuple[int, int, int]:
    """Where a slice begins in ``size`` elements, its step, and how many it takes, by Python's rule; of a traced size,
    they are traced too."""
    step = 1 if item.step is None else item.step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def bound(at: int | None, default: int) -> int:
        if at is None:
            return default
        return min(max(at + size if at < 0 else at, low), high)

    begin, end = bound(item.start, low if step > 0 else high), bound(item.stop, high if step > 0 else low)
    return begin, step, max(-(-(end - begin) // step), 0)
