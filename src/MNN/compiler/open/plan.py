"""Planning for a range of sizes: its bounds, and the sizes at which a stage is tried."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from MNN.backends.base.program import Program
from MNN.compiler.lower import Stage
from MNN.compiler.open.guards import check_comparisons
from MNN.compiler.open.programs import unite
from MNN.compiler.open.stages import TracedStage, agree
from MNN.ir.prims import Tensor
from MNN.ir.traced import Trace

TOPS = (31, 127, 509, 1021, 2039, 4093, 8191, 16381)
"""Ranges end here: memory is laid out for that."""
MOST_OPEN = 6
"""Sizes that a range leaves open; more of them are seldom, and would be tried at ever smaller ones."""
_SMALL = 31
"""Sizes up to here have a range of their own: few rows want other kernels than many."""


class SizeRange(NamedTuple):
    """The bounds of one open size, the sizes that are tried, the largest last, and the room that memory has for it."""

    least: int
    most: int
    tried: tuple[int, ...]
    room: int


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A stage with its inputs, those of open sizes last, and the tensors that it is to give."""

    stage: Stage
    inputs: Sequence[Tensor]
    results: Sequence[Tensor]


Lower = Callable[[Trace], Lowered]
Compile = Callable[[Lowered], Program]


def open_program(ranges: Mapping[str, SizeRange], lower: Lower, compile_stage: Compile) -> tuple[Program, Lowered]:
    """The program for all sizes within ``ranges``, and the stage at the largest that was tried. Raises
    :class:`MNN.compiler.open.errors.NotOpenError` where there is none."""
    rooms = {name: r.room for name, r in ranges.items()}
    count = max(len(r.tried) for r in ranges.values())
    traces = [Trace({name: r.tried[i] for name, r in ranges.items()}, rooms) for i in range(count)]
    found = [(lower(trace), trace) for trace in traces]
    agree([TracedStage(lowered.stage, trace) for lowered, trace in found])
    programs = [compile_stage(lowered) for lowered, _ in found]
    bounds = [(r.least, r.most) for r in ranges.values()]
    check_comparisons(traces, bounds)
    numbers = [list(sizes.flat) for sizes in found[0][0].stage.open_inputs.values()]
    program = unite(programs, traces, [low for low, _ in bounds], [high for _, high in bounds], numbers)
    return program, found[-1][0]


def range_for(size: int, number: int = 0) -> SizeRange | None:
    """The range for a size like this one, which is the ``number``-th of the open ones: two of them are not tried at the
    same sizes. None for sizes that are planned alone: 1 and 2, which make much simpler, very large ones, and those
    beyond the first :data:`MOST_OPEN`.

    Sizes that are tried are primes and, between these, one that can be halved and be divided by three; none is a
    multiple of what kernels step by.
    """
    if number >= MOST_OPEN:
        return None
    top = next((t for t in TOPS if _prime(t, number) >= size), None)
    least = _prime(3, -number) if top == _SMALL else _prime(_SMALL, number)
    if top is None or size < least:
        return None
    most, between = _prime(top, number), _even(top, number)
    if not least < between < most:
        return None
    return SizeRange(least, most, (between, least, most), -(-(most + 4) // 8) * 8)


@functools.cache
def _even(top: int, number: int) -> int:
    """The ``number``-th size that can be halved once, those nearest to the half of ``top`` first, and before all others
    those that can be divided by three."""
    return sorted(range(6, top - 4, 4), key=lambda n: (n % 3 > 0, abs(2 * n - top)))[number]


@functools.cache
def _prime(size: int, number: int) -> int:
    """The ``number``-th prime below the first one that is not above ``size``; negative: above it."""
    step, found = (-1 if number >= 0 else 1), size
    while True:
        if all(found % d for d in range(2, math.isqrt(found) + 1)):
            if number == 0:
                return found
            number += step
        found += step


__all__ = ["Lowered", "SizeRange", "open_program", "range_for"]
