"""The native loop as callable functions, compiled or taken from the kernel cache once per process."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import time
from collections.abc import Callable

import numpy as np

from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.native_loop.layout import FRAME, FRAME_BYTES
from MNN.backends.cpu.native_loop.loop_ir import LoopSpec
from MNN.backends.cpu.native_loop.processor_families import has_clock
from MNN.backends.cpu.targets.base import Target, host_target
from MNN.cache.entries import Cache

NativeFunction = Callable[[int, int, int, "int | None"], None]
# The interpreter lock is released during calls. Addresses are passed as plain integers.
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_OPEN_WORDS = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # a microsecond: not worth releasing the lock for


@dataclasses.dataclass(frozen=True)
class LoopFunctions:
    """``run(frame)``, ``worker(pool, number, 0, None)``, ``spin(pool, count, yielding, None)``, and the addresses of
    ``plain`` and ``run``."""

    run: Callable[[int], int]
    worker: NativeFunction
    spin: NativeFunction
    plain: int
    run_address: int
    clock: bool
    """Whether ``run`` takes time stamps on this processor."""
    library: Library

    def flushed(self) -> int:
        """The address of ``flushed``, which calls a kernel from Python."""
        return self.library.load([LoopSpec("flushed")])[0]

    def slices(self) -> int:
        """The address of ``slices``, which few models need."""
        return self.library.load([LoopSpec("slices")])[0]

    def open_words(self) -> Callable[[int], None]:
        """``open words``, for the address of a record OPEN."""
        return _OPEN_WORDS(self.library.load([LoopSpec("open words")])[0])


def load_loop(target: Target, cache: Cache | None) -> LoopFunctions:
    """The loop for a target that this machine can run."""
    library = Library(target, cache)
    run, worker, spin, plain = library.load([LoopSpec(part) for part in ("run", "worker", "spin", "plain")])
    return LoopFunctions(_RUN(run), _KERNEL(worker), _KERNEL(spin), plain, run, has_clock(target), library)


_loaded: list[LoopFunctions] = []


def loop_functions(cache: Cache | None = None) -> LoopFunctions:
    """The loop for this machine: the same for every program, so loaded once. Whoever needs it first decides where its
    objects are kept; without a word in the default cache."""
    if not _loaded:
        _loaded.append(load_loop(host_target(), cache or Cache.default()))
    return _loaded[0]


@functools.cache
def clock_tick_ns() -> float:
    """Nanoseconds per tick of the native clock, measured once against the system's over 10 ms."""
    frame = np.zeros(FRAME_BYTES // 8, np.int64)
    ticks = np.zeros(1, np.int64)
    frame[FRAME["times"] // 8] = ticks.ctypes.data
    run = loop_functions().run

    def now() -> tuple[int, int]:
        # No commands: the loop only stores one time stamp. Bracketed, so that a pause of this thread shows.
        best = (1 << 62, 0, 0)
        for _ in range(5):
            before = time.perf_counter_ns()
            run(frame.ctypes.data)
            after = time.perf_counter_ns()
            best = min(best, (after - before, (before + after) // 2, int(ticks[0])))
        return best[1], best[2]

    start_ns, start = now()
    time.sleep(0.01)
    end_ns, end = now()
    return (end_ns - start_ns) / max(end - start, 1)
