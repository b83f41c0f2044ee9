"""What the whole process evaluates expressions with."""

from __future__ import annotations

import array
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from MNN.runtime.config import Config

LAZY = array.array("q", [0])
"""Whether expressions of constants are kept as expressions, for generated code."""


@dataclass
class Settings:
    """Threads, precision, and whether to compute at once."""

    threads: int = 1
    loop_threads: int = 0
    """The most threads of a loop over the elements of large arrays; 0 for as many as there are processors."""
    precision: str = "normal"
    lazy: bool = False
    """Keep expressions of constants as expressions instead of computing them at once."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "lazy":
            LAZY[0] = bool(value)

    def config(self) -> Config:
        return Config(threads=self.threads, precision=self.precision)


SETTINGS = Settings()


_lock = threading.Lock()
_inside = [0]
_before = [False]


@contextlib.contextmanager
def lazily() -> Iterator[None]:
    """What is made inside stays an expression, of constants too. The setting is as it was before when the last of all
    threads has left."""
    with _lock:
        if not _inside[0]:
            _before[0] = SETTINGS.lazy
        _inside[0] += 1
        SETTINGS.lazy = True
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if not _inside[0]:
                SETTINGS.lazy = _before[0]


__all__ = ["LAZY", "SETTINGS", "Settings", "lazily"]
