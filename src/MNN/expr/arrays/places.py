"""Functions of few numbers that generated code may stand in for, and who wants to know of it.

Python's own way is there from the start. Once it has been called often enough that compiling pays, entries take its
place (:mod:`MNN.expr.arrays.native`), wherever Python and numpy are as these know them."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from MNN.expr.arrays.native.place import Place

SETTLED = 2000
"""Calls after which entries are made: some 5 ms of them, as long as loops over elements are interpreted."""
Function = Callable[..., Any]
Entries = Mapping[Function, Function]
"""Entries by the functions that they stand in for."""


_places: list[Place] = []
_followers: list[Callable[[Entries], None]] = []
_lock = threading.Lock()
ENTRIES: dict[Function, Function] = {}
"""Those that have been made."""
count = itertools.count(1).__next__
"""Counts a call."""


def offer(usual: Function, part: str, op: str = "", reverse: bool = False) -> None:
    """A function that an entry may stand in for."""
    _places.append(Place(usual, part, op, reverse))


def follow(told: Callable[[Entries], None]) -> None:
    """Somebody who keeps such functions, and is told of their entries."""
    _followers.append(told)


def settle() -> None:
    """Makes the entries and tells of them, once."""
    with _lock:
        if not _places:
            return
        from MNN.expr.arrays.native.install import install  # brings the compiler

        ENTRIES.update(install(_places))
        _places.clear()
        tell(ENTRIES)


def tell(entries: Entries) -> None:
    """Tells all that follow what stands in for what."""
    for told in _followers:
        told(entries)


def method(entry: Function) -> Any:
    """An entry as what binds to the object that it is an attribute of."""
    bind = ctypes.pythonapi.PyInstanceMethod_New
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(ctypes.cast(bind, ctypes.c_void_p).value or 0)(entry)


__all__ = ["ENTRIES", "SETTLED", "Entries", "Place", "count", "follow", "method", "offer", "settle", "tell"]
