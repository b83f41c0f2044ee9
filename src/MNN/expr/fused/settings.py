"""What the whole process evaluates expressions with."""

from __future__ import annotations

import array
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from MNN.runtime.config import Config

LAZY = array.array("q", [0])
"""Whether any thread keeps expressions of constants as expressions, for generated code."""


@dataclass
class Settings:
    """Threads, precision, and whether to compute at once."""

    threads: int = 1
    loop_threads: int = 0
    """The most threads of a loop over the elements of large arrays; 0 for as many as there are processors."""
    precision: str = "normal"
    lazy: bool = False
    """Whether any thread keeps expressions of constants as expressions: what takes a shortcut then leaves it to
    operators, which ask :func:`is_lazy`."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "lazy":
            LAZY[0] = bool(value)

    def config(self) -> Config:
        return Config(threads=self.threads, precision=self.precision)


SETTINGS = Settings()


class _Inside(threading.local):
    """How many :func:`lazily` the thread is within."""

    count = 0


_lock = threading.Lock()
_inside = _Inside()
_threads = [0]
"""How many threads are within a :func:`lazily`."""
_always = [False]


def is_lazy() -> bool:
    """Whether this thread keeps expressions of constants as expressions instead of computing them at once."""
    return SETTINGS.lazy and (_always[0] or _inside.count > 0)


def set_lazy(lazy: bool) -> None:
    """Whether all threads do."""
    with _lock:
        _always[0] = lazy
        SETTINGS.lazy = lazy or _threads[0] > 0


@contextlib.contextmanager
def lazily() -> Iterator[None]:
    """What this thread makes inside stays an expression, of constants too; other threads go on as they did."""
    _enter(1)
    try:
        yield
    finally:
        _enter(-1)


def _enter(step: int) -> None:
    before = _inside.count
    _inside.count = before + step
    if not before or not _inside.count:
        with _lock:
            _threads[0] += step
            SETTINGS.lazy = _always[0] or _threads[0] > 0


__all__ = ["LAZY", "SETTINGS", "Settings", "is_lazy", "lazily", "set_lazy"]
