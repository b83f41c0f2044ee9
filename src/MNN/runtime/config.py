"""How a session runs: threads, precision, kernel cache."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass

from MNN.backends.base import registry
from MNN.backends.base.host_memory import machine_memory
from MNN.errors import MNNError

PRECISIONS = ("high", "normal", "low")
MOST_THREADS = 256


@dataclass(frozen=True)
class Config:
    """Settings of a session.

    ``threads``: how many threads an inference may use. ``precision``: ``high`` is as accurate as plain fp32; ``normal``
    takes and gives fp32 too; ``low`` stores what passes between kernels, and multiplies, in bf16 with fp32 sums where
    the processor has instructions for that (AVX512-BF16, AMX), and is ``normal`` elsewhere; inputs and outputs keep the
    model's types (see :mod:`MNN.backends.cpu.low_precision`). In all of them numbers below the smallest normal one
    (1.2e-38 in fp32) count as zero: processors are many times slower with them. ``cache``: keep compiled kernels on
    disk. ``reference``: no kernels at all, every primitive by the reference implementation (slow; to check
    kernels against). ``memory_limit``: bytes of working memory that a plan may take, by default what the machine has.
    ``time_limit``: seconds after which a run ends with an error; looked at between turns of loops and stretches of
    kernels. Set both for models that are not trusted. ``backend``: the machine that runs the model, one of
    :func:`MNN.backends.base.registry.names`; what it cannot do, or what is not worth bringing there, the CPU does."""

    threads: int = 1
    precision: str = "normal"
    cache: bool = True
    reference: bool = False
    memory_limit: int | None = None
    time_limit: float | None = None
    backend: str = registry.DEFAULT

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "threads", operator.index(self.threads))
        except TypeError:
            raise MNNError(f"the number of threads is a whole number such as 2, not {self.threads!r:.60}") from None
        if not 1 <= self.threads <= MOST_THREADS:
            raise MNNError(f"the number of threads must be between 1 and {MOST_THREADS}, not {self.threads}")
        if not isinstance(self.precision, str) or self.precision not in PRECISIONS:
            raise MNNError(f"precision is one of {', '.join(PRECISIONS)}, not {self.precision!r:.60}")
        registry.check(self.backend)
        if self.memory_limit is not None and self.memory_limit < 1:
            raise MNNError(f"the memory limit must be at least one byte, not {self.memory_limit}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise MNNError(f"the time limit must be more than 0 seconds, not {self.time_limit}")

    @property
    def memory(self) -> int:
        """The memory limit in bytes."""
        return machine_memory() if self.memory_limit is None else self.memory_limit


def processors() -> int:
    """How many processors this program may use, as many as a session can have threads at most."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(found, MOST_THREADS)
