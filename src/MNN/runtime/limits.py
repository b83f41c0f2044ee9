"""Bounds on what a model may take: memory, checked when a plan is made, and time, checked between steps of a run."""

from __future__ import annotations

import time

from MNN.errors import RunError


def check_memory(needed: int, limit: int, what: str) -> None:
    """Raises :class:`RunError` when a plan needs more bytes than allowed; ``what`` names its largest part."""
    if needed > limit:
        raise RunError(
            f"the plan needs {needed / 2**20:.0f} MiB of memory, more than the limit of {limit / 2**20:.0f} MiB, "
            f"most of it for {what}; use smaller inputs, or set Config.memory_limit"
        )


class Clock:
    """The time that a run may take; ``None`` is any. Subgraphs share the clock of the model they are in."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._end = 0.0
        self._running = 0

    def __enter__(self) -> Clock:
        if self._running == 0 and self._limit is not None:
            self._end = time.monotonic() + self._limit
        self._running += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._running -= 1

    def reset(self) -> None:
        """Forgets runs that never come to an end, those of a process that was forked."""
        self._running = 0

    def check(self, where: str) -> None:
        """Raises :class:`RunError` when the time is over."""
        if self._limit is not None and time.monotonic() > self._end:
            raise RunError(
                f"{where}: the run was stopped after {self._limit:g} s, the limit that Config.time_limit sets"
            )
