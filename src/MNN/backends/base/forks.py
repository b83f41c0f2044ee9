"""What a fork waits for, so that a child finds nothing half done by threads that it does not have.

A lock that another thread holds at that moment is never released in the child. Locks of this engine are made anew there
(:func:`when_forked`); for those that are not its own, a fork waits until they are free: modules that other threads are
importing here, LLVM in :mod:`MNN.backends.cpu.codegen.toolchain`.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 10.0
"""Seconds for which a fork waits for other threads at most."""
_PACKAGES = ("MNN", "llvmlite", "numpy", "onnx")
"""Whose modules a child may have to import, too."""
_STEP = 0.001


def when_forked(in_child: Callable[[], None], **more: Callable[[], None]) -> None:
    """Has ``in_child`` called in forked children; ``more``: as :func:`os.register_at_fork`, where processes fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child, **more)


def _others_import() -> bool:
    """Whether another thread is importing a module."""
    locks: dict[str, Any] = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    for name, held in list(locks.items()):
        if name.partition(".")[0] in _PACKAGES:
            owner = getattr(held(), "owner", None)
            if owner is not None and owner != threading.get_ident():
                return True
    return False


def _wait_for_imports() -> None:
    end = time.monotonic() + PATIENCE
    while _others_import() and time.monotonic() < end:
        time.sleep(_STEP)


when_forked(lambda: None, before=_wait_for_imports)

__all__ = ["PATIENCE", "when_forked"]
