"""The minimum time that commands could take on a machine: arithmetic at its peak, or bytes from where they lie.

Where the bytes of an operand lie is found by a model of the caches: least recently used pages of 4 KiB leave first, all
levels hold what the smaller ones hold, and inferences follow one another without anything in between. The first and
second level count once per thread that takes part.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from MNN.backends.base.machine import LEVELS, Machine, Rates

PAGE = 4096


@dataclass(frozen=True)
class Access:
    """An operand of a command: its slot, where it begins (bytes in one address space of all memory), and its bytes."""

    slot: str
    start: int
    nbytes: int


@dataclass(frozen=True)
class Bound:
    """The minimum time of a command in nanoseconds, and what sets it: ``f32`` or another arithmetic, or a level. Where
    an arithmetic was never measured here it is held against f32's peak, and says so: ``f32 for int8``."""

    ns: float
    by: str


class Caches:
    """Which level of memory every page is found in."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._levels = [
            (name, OrderedDict[int, None](), max(sizes[name] // PAGE, 1)) for name in LEVELS if name in sizes
        ]

    def touch(self, access: Access) -> dict[str, int]:
        """Bytes of an operand by the level that they come from; afterwards they are in all."""
        first, last = access.start // PAGE, (access.start + max(access.nbytes, 1) - 1) // PAGE
        pages: dict[str, int] = {}
        for page in range(first, last + 1):
            found = "DRAM"
            for name, held, capacity in reversed(self._levels):
                if page in held:
                    found = name
                    held.move_to_end(page)
                else:
                    held[page] = None
                    if len(held) > capacity:
                        held.popitem(last=False)
            pages[found] = pages.get(found, 0) + 1
        total = last - first + 1
        return {name: round(access.nbytes * count / total) for name, count in pages.items()}


def sources(commands: Sequence[Iterable[Access]], machine: Machine, threads: int) -> list[dict[str, int]]:
    """Bytes of every command by level, in an inference that follows another one like it."""
    shared = {n: s if n == "L3" else s * min(threads, machine.cores) for n, s in machine.sizes.items()}
    caches = Caches(shared)
    found: list[dict[str, int]] = []
    for _ in range(2):  # the first round fills the caches
        found = []
        for accesses in commands:
            levels: dict[str, int] = {}
            for access in accesses:
                for name, count in caches.touch(access).items():
                    levels[name] = levels.get(name, 0) + count
            found.append({name: levels[name] for name in LEVELS if name in levels})
    return found


def bound(flops: int, arithmetic: str, levels: Mapping[str, int], rates: Rates) -> Bound:
    """The minimum time for these operations and bytes: one of both in full, the other hidden behind it."""
    peak = rates.compute.get(arithmetic, rates.compute["f32"])
    compute = flops / peak
    slowest = rates.read["DRAM"]
    memory = {name: count / rates.read.get(name, slowest) for name, count in levels.items()}
    total = sum(memory.values())
    if compute >= total:
        return Bound(compute, arithmetic if arithmetic in rates.compute else f"f32 for {arithmetic}")
    return Bound(total, max(memory, key=lambda name: memory[name]))
