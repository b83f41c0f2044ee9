"""Planning for a range of sizes: its bounds, and the sizes at which a stage is tried."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from MNN.backends.base.program import Program
from MNN.compiler.lower import Stage
from MNN.compiler.open.guards import check_comparisons
from MNN.compiler.open.programs import unite
from MNN.compiler.open.stages import TracedStage, agree
from MNN.ir.prims import Tensor
from MNN.ir.traced import Trace

TOPS = (31, 128, 512, 1024, 2048, 4096, 8192, 16384)
"""Ranges end at the next primes: memory is laid out for that. These are the sizes that people choose most, but for 32,
which matrix units take at once: what suits few rows ends before it."""
UNIT = 32
"""What sizes of images are multiples of, if of anything: networks halve them five times."""
_UNIT_TOPS, _SMALL_UNITS = (12, 24, 48, 96), 3
"""Where ranges of sizes that are counted in units end, and where they begin."""
MOST_OPEN = 6
"""Sizes that a range leaves open; more of them are seldom, and would be tried at ever smaller ones."""
_ALL = 512
"""Where ranges of all sizes end that are not longer."""
LEAST, _WINDOW = 3, 11
"""Where the smallest range begins, and where it does in networks whose windows are larger than what is left of such
sizes."""
Reach = Literal["all", "most", "near", "windows"]
"""Which sizes a range holds besides the one that it is for: all shorter ones; all but the smallest; those of the same
magnitude; those that have room for windows."""


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
    compared: bool = False
    """Whether its program is compared with another, and never runs."""


Lower = Callable[[Trace], Lowered]
Compile = Callable[[Lowered], Program]


def open_program(ranges: Mapping[str, SizeRange], lower: Lower, compile_stage: Compile) -> tuple[Program, Lowered]:
    """The program for all sizes within ``ranges``, and the stage at the largest that was tried. Raises
    :class:`MNN.compiler.open.errors.NotOpenError` where there is none."""
    rooms = {name: r.room for name, r in ranges.items()}
    count = max(len(r.tried) for r in ranges.values())
    decided: dict[Hashable, Any] = {}
    traces = [Trace({name: r.tried[i] for name, r in ranges.items()}, rooms, decided) for i in range(count)]
    found = [(lower(trace), trace) for trace in traces]
    agree([TracedStage(lowered.stage, trace) for lowered, trace in found])
    tried = [dataclasses.replace(lowered, compared=True) for lowered, _ in found[:-1]]
    programs = [compile_stage(lowered) for lowered in (*tried, found[-1][0])]
    bounds = [(r.least, r.most) for r in ranges.values()]
    check_comparisons(traces, bounds)
    numbers = [list(sizes.flat) for sizes in found[0][0].stage.open_inputs.values()]
    program = unite(programs, traces, [low for low, _ in bounds], [high for _, high in bounds], numbers)
    return program, found[-1][0]


def range_for(size: int, number: int = 0, reach: Reach = "all") -> SizeRange | None:
    """The range for a size like this one, which is the ``number``-th of the open ones: two of them are not tried at the
    same sizes. None for sizes that are planned alone: 1 and 2, which make much simpler, very large ones, and those
    beyond the first :data:`MOST_OPEN`.

    Sizes that are tried are primes and, between these, one that can be halved and be divided by three; none is a
    multiple of what kernels step by.
    """
    if number >= MOST_OPEN:
        return None
    top = next((t for t in TOPS if _prime(t, number) >= size and (reach != "all" or t >= _ALL)), None)
    if top is None:
        return None
    if reach == "all" or top == TOPS[0]:
        least = _prime(_WINDOW if reach == "windows" else LEAST, number)
    else:
        least = _prime(TOPS[0] if reach == "most" else max(t for t in TOPS if t < top), number)
    most, between = _prime(top, number), _even(top, number, least)
    if size < least or not least < between < most:
        return None
    return SizeRange(least, most, (between, least, most), -(-(most + 4) // 8) * 8)


def range_of_units(units: int, number: int = 0) -> SizeRange | None:
    """The same for a size of so many :data:`UNIT`; only its multiples are in the range."""
    top = next((t for t in _UNIT_TOPS if t - number >= units), None)
    if number >= MOST_OPEN or top is None:
        return None
    least, most = _SMALL_UNITS + number, top - number
    between = _between(range(_SMALL_UNITS + 1, top), top, number)
    if units < least or not least < between < most:
        return None
    return SizeRange(least, most, (between, least, most), top + 1)


@functools.cache
def _even(top: int, number: int, least: int) -> int:
    """A size above ``least`` that can be halved once and, where there are enough of them, be divided by three."""
    if top == TOPS[0]:
        found = [n for n in range(6, top - 4, 4) if n > least]
        return sorted(found, key=lambda n: (n % 3 > 0, abs(2 * n - top)))[number] if number < len(found) else 0
    return _between(range(6 - (5 - least) // 12 * 12, top, 12), top, number)


def _between(sizes: range, top: int, number: int) -> int:
    """One of ``sizes`` near the half of ``top``, a third of it, and so on by ``number``: such stay different when
    images are made smaller again and again. No other number gives the same, whatever its ``top``."""
    own = [n for n in sizes if n > TOPS[0] or sizes.step == 1 if n // sizes.step % MOST_OPEN == number]
    share = (1 / 2, 1 / 3, 2 / 3, 1 / 4, 3 / 4, 2 / 5)[number]
    return min(own, key=lambda n: abs(n - share * top))


@functools.cache
def _prime(size: int, number: int) -> int:
    """The ``number``-th prime behind the first one that is not below ``size``."""
    primes = (n for n in itertools.count(size) if all(n % d for d in range(2, math.isqrt(n) + 1)))
    return next(itertools.islice(primes, number, None))


def _smallest() -> SizeRange:
    found = range_for(LEAST, reach="near")
    assert found is not None
    return found


SMALL = _smallest()
"""The range of the smallest sizes."""

__all__ = [
    "LEAST",
    "MOST_OPEN",
    "SMALL",
    "TOPS",
    "UNIT",
    "Lowered",
    "Reach",
    "SizeRange",
    "open_program",
    "range_for",
    "range_of_units",
]
