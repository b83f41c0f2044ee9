"""Whose turn it is: programs that share memory, and the plans that they are made of, are used by one thread at a time.

A thread may come in again from within: what it runs may run other programs of the same memory.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from MNN.backends.base.forks import when_forked


class RunLock:
    """``with run_lock.lock: ...``: the lock of everything that takes turns."""

    __slots__ = ("__weakref__", "_renewed", "lock")

    def __init__(self, renewed: Callable[[], None] = lambda: None) -> None:
        """``renewed`` is called in a forked child whose lock is another one: a thread that is not there held it, and
        what it was about to do will never be done."""
        self.lock = threading.RLock()
        self._renewed = renewed
        _RUN_LOCKS.add(self)

    def after_fork(self) -> None:
        """A child forked by the thread whose turn it is keeps the lock."""
        if self.lock.acquire(blocking=False):
            self.lock.release()
        else:
            self.lock = threading.RLock()
            self._renewed()


_RUN_LOCKS: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _after_fork() -> None:
    for run_lock in list(_RUN_LOCKS):
        run_lock.after_fork()


when_forked(_after_fork)
