"""A line that says how far training is."""

from __future__ import annotations

import sys
import time

BETWEEN = 0.1
"""Seconds between two writings of the line."""


class Telling:
    """Writes to standard error: a line for every epoch, and on a terminal one that changes with every batch."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._changing = wanted and sys.stderr.isatty()
        self._last = 0.0

    def batch(self, epoch: int, epochs: int, batch: int, batches: int, loss: float) -> None:
        """After a batch; ``loss`` is the mean of the epoch until then."""
        now = time.monotonic()
        if self._changing and (now - self._last > BETWEEN or batch == batches):
            self._last = now
            done = 20 * batch // batches
            bar = "#" * done + "." * (20 - done)
            sys.stderr.write(f"\repoch {epoch}/{epochs} [{bar}] {batch}/{batches} loss {loss:.4g} ")
            sys.stderr.flush()

    def epoch(self, text: str) -> None:
        """After an epoch."""
        if self._wanted:
            sys.stderr.write(f"{chr(13) if self._changing else ''}{text:<70}\n")


__all__ = ["Telling"]
