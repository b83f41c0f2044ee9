"""What both sides of :mod:`benchmarks.training` do when it is their turn; imports neither framework."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

_STATUS = Path("/proc/self/status")
"""Linux's account of a process."""


class Memory:
    """Resident memory beyond what there is now."""

    def __init__(self) -> None:
        self._before = _kilobytes("VmRSS")

    def forget(self) -> None:
        """Begins to look for the largest again."""
        Path("/proc/self/clear_refs").write_text("5")

    def largest(self) -> float:
        """The largest since then, in MiB."""
        return (_kilobytes("VmHWM") - self._before) / 1024


def _kilobytes(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


def serve(step: Callable[[], object], memory: Memory) -> None:
    """Makes as many steps as every line of standard input says, and answers with the least seconds of one, by the
    clock and by all of the process's threads, those of the very first, and the largest memory."""
    begun = time.perf_counter()
    step()
    first = time.perf_counter() - begun
    step()
    for line in sys.stdin:
        memory.forget()
        times, spent = [], []
        for _ in range(int(line)):
            begun, before = time.perf_counter(), time.process_time()
            step()
            times.append(time.perf_counter() - begun)
            spent.append(time.process_time() - before)
        print(min(times), min(spent), first, memory.largest(), flush=True)
