"""Counting the memory that a kernel call touches, from its arguments alone; for profiles, never for planning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.kernel import Arguments
from MNN.backends.cpu.lang.nest import Operand


def number(args: Arguments, slot: str) -> int:
    """A slot that holds a number."""
    value = args[slot]
    assert not isinstance(value, np.ndarray), f"slot {slot} is an address"
    return value


def table(args: Arguments, slot: str, count: int, dtype: type[np.generic] = np.int32) -> NDArray[np.int64]:
    """The first ``count`` entries of a constant table."""
    value = args[slot]
    assert isinstance(value, np.ndarray), f"slot {slot} is no constant"
    return value.reshape(-1).view(dtype)[:count].astype(np.int64)


def covered(extents: Sequence[int], strides: Sequence[int]) -> int:
    """Different elements that loops of these extents and strides reach, at most: repeats (stride 0) and runs that
    overlap count once."""
    points = span = 1
    for extent, stride in zip(extents, strides, strict=True):
        if extent == 0:
            return 0
        if stride:
            points *= extent
            span += (extent - 1) * abs(stride)
    return min(points, span)


def operand_bytes(operand: Operand, args: Arguments, outer: Sequence[int], inner: int) -> int:
    """Bytes of an operand of a loop nest with these extents (see :class:`MNN.backends.cpu.lang.nest.Operand`)."""
    dims = len(outer)
    strides = [number(args, f"{operand.name}_s{d}") for d in range(dims)]
    last = {"0": 0, "1": 1}.get(operand.inner)
    strides.append(number(args, f"{operand.name}_s{dims}") if last is None else last)
    return covered((*outer, inner), strides) * operand.dtype.size


def union(starts: NDArray[np.int64], length: int) -> int:
    """Different elements in the runs of ``length`` elements that begin at ``starts``."""
    if starts.size == 0 or length <= 0:
        return 0
    ordered = np.unique(starts)
    return int(np.minimum(np.diff(ordered), length).sum()) + length
