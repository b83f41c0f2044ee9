"""Small jobs that nobody waits for, such as storing a plan: done soon after, by a thread that ends when all are done.

A job that takes long waits until no other has come for a while, so that it is not in the way of what brought it: of the
first run of a new plan, and of further plans that come at once.

Jobs that are left when the interpreter exits are done then. A fork waits until the job at work is done (for a second at
most), so that a child finds no lock held by a thread that it does not have; jobs that wait stay with the parent.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from MNN.runtime.gc_pause import uninterrupted

_PAUSE = 0.01
"""Seconds before a job, in which whoever gave it gets on with what is urgent."""
IDLE = 0.4
"""Seconds without another job before one that takes long."""
_LONGEST = 3.0
"""Seconds after which a job is done whatever else comes."""
_PATIENCE = 1.0
"""Seconds for which a fork waits for the job at work."""


class _Job(NamedTuple):
    work: Callable[[], object]
    given: float
    pause: float

    def due(self) -> float:
        return min(max(self.given, _latest) + self.pause, self.given + _LONGEST)


_jobs: list[_Job] = []
_latest = 0.0
_state = threading.Lock()
_working = threading.Lock()
_given = threading.Event()
_thread: threading.Thread | None = None


def run_in_background(job: Callable[[], object], pause: float = _PAUSE, once: bool = False) -> None:
    """Has ``job`` done by another thread, ``pause`` seconds after it and any other was given; ``once``: not again when
    the same waits already.

    It must not raise, and may take no lock that is held around a fork."""
    global _thread, _latest
    with _state:
        _latest = time.monotonic()
        if not once or all(waiting.work != job for waiting in _jobs):
            _jobs.append(_Job(job, _latest, pause))
        _given.set()
        if _thread is None:
            _thread = threading.Thread(target=_work, name="mnn-later", daemon=True)
            try:
                _thread.start()
            except RuntimeError:  # no more threads, or the interpreter is exiting: done at the exit, or not at all
                _thread = None


def finish() -> None:
    """Does what is left; returns when no job is waiting or at work."""
    while _one(time.monotonic() + _LONGEST):
        pass


def _one(now: float) -> bool:
    """Does the first job that is due ``now``, if there is one."""
    with _working:
        with _state:
            index = next((i for i, job in enumerate(_jobs) if job.due() <= now), None)
            job = None if index is None else _jobs.pop(index)
        if job is not None:
            job.work()
        return job is not None


def _wait() -> None:
    """Until a job is due, or none is left."""
    while True:
        with _state:
            _given.clear()
            left = min((job.due() for job in _jobs), default=0.0) - time.monotonic()
        if left <= 0:
            return
        _given.wait(left)


def _work() -> None:
    global _thread
    while True:
        _wait()
        try:
            with uninterrupted():  # what others have left as garbage may mind which thread collects it
                while _one(time.monotonic()):
                    pass
        finally:  # also when a job raises, which Python reports
            with _state:
                done = not _jobs
                if done or sys.exc_info()[0] is not None:
                    _thread = None
        if done:
            return


def _before_fork() -> None:
    global _held
    _held = _working.acquire(timeout=_PATIENCE)


def _after_fork_in_parent() -> None:
    if _held:
        _working.release()


def _after_fork_in_child() -> None:
    global _state, _working, _given, _thread
    _state, _working, _given, _thread = threading.Lock(), threading.Lock(), threading.Event(), None
    _jobs.clear()


_held = False
atexit.register(finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
