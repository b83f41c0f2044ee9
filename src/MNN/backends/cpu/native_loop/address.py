"""Where in memory a numpy array lies, found without delay.

After a large model has run, caches hold its weights, and what numpy's array interface goes through (it makes a dict of
all that is to be told of an array) has to come from memory again: 60 us, of 130 that a run took beside its native code.
One word of the array itself takes 20.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_word = ctypes.c_int64.from_address
_HEAD = object.__basicsize__


def _in_head(array: NDArray[Any]) -> int:
    """Behind what every object begins with, numpy's arrays have the address of their numbers."""
    return _word(id(array) + _HEAD).value


def _by_interface(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _agree() -> bool:
    if sys.implementation.name != "cpython":  # elsewhere, an id is no address
        return False
    some = np.zeros((4, 4), np.float32)
    return all(_in_head(a) == _by_interface(a) for a in (some, some[1:], some[::-1], np.zeros(0)))


def _to_head(array: NDArray[Any], cell: NDArray[np.int64]) -> int:
    return id(array) + _HEAD


def _to_cell(array: NDArray[Any], cell: NDArray[np.int64]) -> int:
    cell[0] = _by_interface(array)
    return _by_interface(cell)


_KNOWN = _agree()
address_of: Callable[[NDArray[Any]], int] = _in_head if _KNOWN else _by_interface
"""The address of an array's first number."""
pointer_to: Callable[[NDArray[Any], NDArray[np.int64]], int] = _to_head if _KNOWN else _to_cell
"""The address of a word that holds that address, for native code to follow: a word of the array itself where that is
known, else the ``cell``, an array of one number. Both must be kept until then."""
