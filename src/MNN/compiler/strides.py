"""Arithmetic on shapes and strides (in elements): views, orders of dimensions, loops merged."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from MNN.ir.traced import same

Ints = tuple[int, ...]


Runs = tuple[tuple[int, int], ...]

_LINE = 64
"""Bytes of a cache line."""


def runs(extents: Sequence[int], strides: Sequence[int]) -> Runs:
    """The extents and strides of a grid with as few dimensions as have the same points in the same order."""
    found: list[tuple[int, int]] = []
    for n, s in zip(extents, strides, strict=True):
        if n == 1:
            continue
        if found and continues(found[-1][1], n, s):
            found[-1] = (found[-1][0] * n, s)
        else:
            found.append((n, s))
    return tuple(found)


def continues(stride: int, n: int, step: int) -> bool:
    """Whether steps of ``stride`` go on where ``n`` of a smaller ``step`` end, whatever the open sizes are."""
    return same(stride, n * step)


def offsets(grid: Runs) -> np.ndarray:
    """Element offsets of all points of a grid, in row-major order."""
    if not grid:
        return np.zeros(1, np.int64)
    total = _steps(*grid[0])
    for n, s in grid[1:]:
        total = np.add.outer(total, _steps(n, s)).reshape(-1)
    return total


def _steps(count: int, step: int) -> np.ndarray:
    return np.arange(0, count * step, step, dtype=np.int64) if step else np.zeros(count, np.int64)


def dense(shape: Sequence[int], order: Sequence[int]) -> Ints:
    """Strides of a dense tensor whose dimensions lie in memory in ``order``, outermost first."""
    return _dense(tuple(shape), tuple(order))


@functools.lru_cache(maxsize=4096)
def _dense(shape: Ints, order: Ints) -> Ints:
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis], step = step, step * shape[axis]
    return tuple(strides)


def spaced(shape: Sequence[int], order: Sequence[int], gap: int) -> tuple[Ints, int]:
    """Strides of a tensor with ``gap`` unused elements behind every run of its innermost dimension, and the elements
    that it takes."""
    grown = [n + gap if a == order[-1] else n for a, n in enumerate(shape)] if gap else list(shape)
    return dense(grown, order), math.prod(grown)


def to_odd_lines(elements: int, size: int) -> int:
    """How many more elements of ``size`` bytes there are in an odd number of cache lines: rows that begin within a line
    are slow to load and store (softmax of 384 by 384 scores: 1.13 -> 0.91 ms), and rows an even number of lines apart
    share few sets of the first-level cache."""
    lines = -(-elements * size // _LINE)
    return (lines + (lines % 2 == 0)) * _LINE // size - elements


def order_of(shape: Sequence[int], strides: Sequence[int]) -> Ints:
    """Dimensions by falling stride: how a tensor like this one should lie in memory.

    Repeated (stride 0) and size-1 dimensions say nothing about order; they stay before the next dimension that does.
    """
    return _order_of(tuple(shape), tuple(strides))


@functools.lru_cache(maxsize=4096)
def _order_of(shape: Ints, strides: Ints) -> Ints:
    telling = [a for a, n in enumerate(shape) if n > 1 and strides[a] != 0]
    out = sorted(telling, key=lambda a: (-abs(strides[a]), a))
    for axis in reversed([a for a in range(len(shape)) if a not in telling]):
        later = [out.index(a) for a in range(axis + 1, len(shape)) if a in out]
        out.insert(later[0] if later else len(out), axis)
    return tuple(out)


def same_order(shape: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two orders lay out this shape alike (dimensions of size 1 do not matter)."""
    return a == b or [x for x in a if shape[x] > 1] == [x for x in b if shape[x] > 1]


def is_dense(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    """Whether the strides are those of a dense tensor in this order."""
    strides, plain = tuple(strides), dense(shape, order)
    return strides == plain or all(n == 1 or s == d for n, s, d in zip(shape, strides, plain, strict=True))


def reshape_strides(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> Ints | None:
    """Strides of a reshaped view, or None when the elements would have to move."""
    return _reshape_strides(tuple(shape), tuple(strides), tuple(new))


@functools.lru_cache(maxsize=4096)
def _reshape_strides(shape: Ints, strides: Ints, new: Ints) -> Ints | None:
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    out: list[int] = []
    i, j = 0, 0
    while j < len(new):
        if new[j] == 1:
            out.append(0)
            j += 1
            continue
        if i >= len(old):
            return None
        have, want = old[i][0], new[j]
        i_end, j_end = i + 1, j + 1
        while have != want:
            if have < want:
                if i_end >= len(old):
                    return None
                if not continues(old[i_end - 1][1], *old[i_end]):
                    return None
                have *= old[i_end][0]
                i_end += 1
            else:
                if j_end >= len(new):
                    return None
                want *= new[j_end]
                j_end += 1
        step = old[i_end - 1][1]
        part: list[int] = []
        for k in range(j_end - 1, j - 1, -1):
            part.append(step if new[k] != 1 else 0)
            step *= new[k]
        out += reversed(part)
        i, j = i_end, j_end
    return tuple(out) if i == len(old) else None


def broadcast_strides(shape: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> Ints:
    """Strides of a tensor seen with a larger shape by numpy's rule: 0 where it repeats."""
    lead = len(target) - len(shape)
    return (0,) * lead + tuple(
        [0 if n == 1 and t != 1 else s for n, s, t in zip(shape, strides, target[lead:], strict=True)]
    )


def merge_loops(shape: Sequence[int], operands: Sequence[Ints], order: Sequence[int]) -> tuple[Ints, list[Ints]]:
    """Loops over ``shape`` in ``order`` (outermost first) with neighbours merged where every operand allows it.

    Returns the extents and, per operand, the strides of these loops; at least one loop remains.
    """
    axes = [a for a in order if shape[a] != 1]
    extents: list[int] = []
    columns: list[list[int]] = [[] for _ in operands]
    for axis in axes:
        n = shape[axis]
        if extents and all(continues(c[-1], n, o[axis]) for c, o in zip(columns, operands, strict=True)):
            extents[-1] *= n
            for c, o in zip(columns, operands, strict=True):
                c[-1] = o[axis]
            continue
        extents.append(n)
        for c, o in zip(columns, operands, strict=True):
            c.append(o[axis])
    if not extents:
        return (1,), [(0,) for _ in operands]
    return tuple(extents), [tuple(c) for c in columns]
