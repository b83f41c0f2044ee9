"""Small jobs that nobody waits for, such as storing a plan: done soon after, by a thread that ends when all are done.

Jobs that are left when the interpreter exits are done then. A fork waits until the job at work is done (for a second at
most), so that a child finds no lock held by a thread that it does not have; jobs that wait stay with the parent.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

from MNN.runtime.uncollected import uninterrupted

_PAUSE = 0.01
"""Seconds before the first job, in which whoever gave it gets on with what is urgent."""
_PATIENCE = 1.0
"""Seconds for which a fork waits for the job at work."""

_jobs: deque[Callable[[], object]] = deque()
_state = threading.Lock()
_working = threading.Lock()
_thread: threading.Thread | None = None


def later(job: Callable[[], object]) -> None:
    """Has ``job`` done by another thread; it must not raise, and may take no lock that is held around a fork."""
    global _thread
    with _state:
        _jobs.append(job)
        if _thread is None:
            _thread = threading.Thread(target=_work, name="mnn-later", daemon=True)
            try:
                _thread.start()
            except RuntimeError:  # no more threads, or the interpreter is exiting: done at the exit, or not at all
                _thread = None


def finish() -> None:
    """Does what is left; returns when no job is waiting or at work."""
    while _one():
        pass


def _one() -> bool:
    with _working:
        try:
            job = _jobs.popleft()
        except IndexError:
            return False
        job()
        return True


def _work() -> None:
    global _thread
    time.sleep(_PAUSE)
    while True:
        try:
            with uninterrupted():  # what others have left as garbage may mind which thread collects it
                finish()
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
    global _state, _working, _thread
    _state, _working, _thread = threading.Lock(), threading.Lock(), None
    _jobs.clear()


_held = False
atexit.register(finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
