"""Objects that last as long as the process."""

from __future__ import annotations

import ctypes


def immortal(thing: object) -> None:
    """Keeps an object to the very end: what module globals hold goes while daemon threads may still run in it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
