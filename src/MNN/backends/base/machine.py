"""What a machine can do at most: the roofs that profiles compare with.

The roofline model: Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model" (2009); with
one bandwidth per level of cache as in Ilic, Pratas and Sousa, "Cache-aware Roofline Model" (2014).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LEVELS = ("L1", "L2", "L3", "DRAM")


@dataclass(frozen=True)
class Rates:
    """At most, with ``threads`` threads. ``compute``: 1e9 operations a second by element type (a multiply-add is two).
    ``read``: 1e9 bytes a second by the level of memory where they are found."""

    threads: int
    compute: Mapping[str, float]
    read: Mapping[str, float]


@dataclass(frozen=True)
class Machine:
    """A processor as measured. ``sizes``: bytes of each cache, of one core, except for L3. ``wake_us``: microseconds
    until workers that sleep take part in a command, ``spinning_us`` until those do that still look out for work."""

    name: str
    target: str
    features: tuple[str, ...]
    cores: int
    sizes: Mapping[str, int]
    one: Rates
    all: Rates
    wake_us: float
    spinning_us: float

    def rates(self, threads: int) -> Rates:
        """At most with this many threads: so many times what one can do, and no more than all together can."""
        if threads <= 1:
            return self.one
        if threads >= self.all.threads:
            return self.all

        def scaled(one: Mapping[str, float], most: Mapping[str, float]) -> dict[str, float]:
            return {k: min(v * threads, most.get(k, v)) for k, v in one.items()}

        return Rates(threads, scaled(self.one.compute, self.all.compute), scaled(self.one.read, self.all.read))


@dataclass(frozen=True)
class Span:
    """A thread's work on a command: its number, the thread (0 called), nanoseconds since the first span began."""

    command: int
    thread: int
    begin_ns: float
    end_ns: float
