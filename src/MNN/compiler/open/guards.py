"""Comparisons of sizes, looked at for all sizes of a range and not only for those that are tried.

A branch that every tried size takes, and others do not, would be a plan that is wrong for these: sizes that are tried
are odd, say, and a window hangs over the end at even ones. Branches that tried sizes take differently need no look:
their programs are compared.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from MNN.compiler.open.errors import NotOpenError
from MNN.ir.symbolic import compiled
from MNN.ir.traced import Trace

_MOST = 1 << 14
"""Sizes that are looked at: all of a range where these are fewer, else some, drawn alike every time."""


def check_comparisons(traces: Sequence[Trace], bounds: Sequence[tuple[int, int]]) -> None:
    """Checks that what all traces found alike is so for all sizes within ``bounds``, least and most of each open size.
    Raises :class:`NotOpenError`."""
    first, *others = [t.compared for t in traces]
    alike = [
        (sign, x, y)
        for (sign, x, y), found in first.items()
        if x is not None and y is not None and all(t.get((sign, x, y)) is found for t in others)
        if found or sign != "==" or "//" in f"{x}{y}"  # two sizes that are equal by chance need nothing of their own
    ]
    if not alike:
        return
    sizes = list(dict.fromkeys(s for _, x, y in alike for s in (x, y)))
    given = _grid(tuple(bounds))
    numbers = dict(zip(sizes, compiled(sizes, tuple(traces[0].numbers), arrays=True)(*given), strict=True))
    for comparison in alike:
        sign, x, y = comparison
        holds = numbers[x] < numbers[y] if sign == "<" else numbers[x] == numbers[y]
        other = np.flatnonzero(np.broadcast_to(holds, given[0].shape) != first[comparison])
        if other.size:
            at = [int(n[other[0]]) for n in given]
            raise NotOpenError(f"{x} {sign} {y} is {first[comparison]} at the sizes tried, not at {at}")


@functools.cache
def _grid(bounds: tuple[tuple[int, int], ...]) -> list[np.ndarray]:
    """Numbers for every open size, ``[tried]`` each."""
    if math.prod(high - low + 1 for low, high in bounds) <= _MOST:
        axes = np.meshgrid(*[np.arange(low, high + 1) for low, high in bounds], indexing="ij")
        return [axis.reshape(-1) for axis in axes]
    rng = np.random.default_rng(0)
    return [rng.integers(low, high + 1, _MOST) for low, high in bounds]


__all__ = ["check_comparisons"]
