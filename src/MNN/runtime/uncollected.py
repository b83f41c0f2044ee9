"""Planning without Python's garbage collector, which would look at everything often while nothing is garbage."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_inside = 0
_was_on = False


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Cyclic garbage is not looked for within this context; it may be entered by several threads, and again."""
    global _inside, _was_on
    with _lock:
        if _inside == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _was_on:
                gc.enable()


def _after_fork() -> None:
    """In a child forked within the context by another thread, nobody would leave it."""
    global _lock
    _lock = threading.Lock()
    if _inside and _was_on:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
