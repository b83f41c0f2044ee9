"""Comparisons of sizes, looked at for all sizes of a range and not only for those that are tried.

A branch that every tried size takes, and others do not, would be a plan that is wrong for these: sizes that are tried
are odd, say, and a window hangs over the end at even ones. Branches that tried sizes take differently need no look:
their programs are compared. What is asked in one of these branches only is looked at for the sizes that come there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from MNN.compiler.open.errors import NotOpenError
from MNN.ir.size_functions import compiled
from MNN.ir.traced import Comparison, Trace

_MOST = 1 << 14
"""Sizes that are looked at: all of a range where these are fewer, else some, drawn alike every time."""


def check_comparisons(traces: Sequence[Trace], bounds: Sequence[tuple[int, int]]) -> None:
    """Checks that what all traces found alike is so for all sizes within ``bounds``, least and most of each open size.
    Raises :class:`NotOpenError`."""
    outcomes = {
        key: tuple([t.compared.get(key) for t in traces])
        for key in dict.fromkeys(key for t in traces for key in t.compared)
        if key[1] is not None and key[2] is not None
    }
    parted = [key for key, found in outcomes.items() if {True, False} <= set(found)]
    alike: dict[Comparison, list[Comparison]] = {}
    for key, found in outcomes.items():
        gates = [g for g in parted if _separates(outcomes[g], found)] if None in found else []
        if key not in parted and _matters(key, found, bool(gates)):
            alike[key] = gates
    if not alike:
        return
    asked = [key for key, gates in alike.items() for key in (key, *gates)]
    sizes = list(dict.fromkeys(s for _, x, y in asked for s in (x, y) if s is not None))
    given = _grid(tuple(bounds))
    numbers = dict(zip(sizes, compiled(sizes, tuple(traces[0].numbers), arrays=True)(*given), strict=True))

    def holds(key: Comparison) -> np.ndarray:
        sign, x, y = key
        assert x is not None
        assert y is not None
        return np.broadcast_to(numbers[x] < numbers[y] if sign == "<" else numbers[x] == numbers[y], given[0].shape)

    for key, gates in alike.items():
        at = [i for i, found in enumerate(outcomes[key]) if found is not None]
        reached = np.logical_or.reduce([holds(g) == outcomes[g][at[0]] for g in gates]) if gates else True
        other = np.flatnonzero((holds(key) != outcomes[key][at[0]]) & reached)
        if other.size:
            sign, x, y = key
            where = [int(n[other[0]]) for n in given]
            raise NotOpenError(f"{x} {sign} {y} is {outcomes[key][at[0]]} at the sizes tried, not at {where}")


def _separates(gate: Sequence[bool | None], found: Sequence[bool | None]) -> bool:
    """Whether the traces that asked something are those for which another comparison came out in one way."""
    asking = {g for g, f in zip(gate, found, strict=True) if f is not None}
    return len(asking) == 1 and not asking & {g for g, f in zip(gate, found, strict=True) if f is None}


def _matters(key: Comparison, found: Sequence[bool | None], gated: bool) -> bool:
    """Whether what was found alike has to be so at all sizes. Two sizes that differ, and are equal by chance elsewhere,
    need nothing of their own. What is asked in some traces only may be about numbers of their own, but for signs."""
    sign, x, y = key
    if not (True in found or sign != "==" or "//" in f"{x}{y}"):
        return False
    if None not in found:
        return True
    several = sum(f is not None for f in found) > 1
    return (several and sign == "<") or ((several or gated) and bool({x, y} & {-1, 0, 1}))


@functools.cache
def _grid(bounds: tuple[tuple[int, int], ...]) -> list[np.ndarray]:
    """Numbers for every open size, ``[tried]`` each."""
    if math.prod(high - low + 1 for low, high in bounds) <= _MOST:
        axes = np.meshgrid(*[np.arange(low, high + 1) for low, high in bounds], indexing="ij")
        return [axis.reshape(-1) for axis in axes]
    rng = np.random.default_rng(0)
    return [rng.integers(low, high + 1, _MOST) for low, high in bounds]


__all__ = ["check_comparisons"]
