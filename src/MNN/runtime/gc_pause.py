"""Planning without Python's garbage collector, which would look at everything often while nothing is garbage."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Callable, Iterator

_lock = threading.Lock()
_inside = 0
_was_on = False


@contextlib.contextmanager
def uninterrupted(leave: Callable[[Callable[[], None]], object] | None = None) -> Iterator[None]:
    """Cyclic garbage is not looked for within this context; it may be entered by several threads, and again.

    ``leave`` is given what ends this, where that need not be at once: it has to call it some time soon.
    """
    global _inside, _was_on
    with _lock:
        if _inside == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    except BaseException:
        _leave()
        raise
    if leave is None:
        _leave()
    else:
        leave(_leave)


def _leave() -> None:
    global _inside
    with _lock:
        _inside = max(_inside - 1, 0)
        if _inside == 0 and _was_on:
            gc.enable()


def _after_fork() -> None:
    """In a child forked within the context by another thread, nobody would leave it."""
    global _lock, _inside
    _lock = threading.Lock()
    if _inside and _was_on:
        gc.enable()
    _inside = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
