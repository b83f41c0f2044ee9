"""Numbers in memory that someone else owns, given by an address or by a capsule.

The operating system reads them first (a byte of every page, or all of them through a pipe), so that memory which is
not there is an error and not a crash.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.errors import MNNError

LEAST = 1 << 16
"""Addresses below lie in pages that no system gives to programs: a number meant as a number, most likely."""
_PIECE = 4096
"""Bytes that every system's pipe takes at once."""
_PIECES = 1024
"""Pages that Linux looks at in one call."""


def is_capsule(value: object) -> bool:
    """Whether a value is a PyCapsule: a C pointer that Python carries around."""
    return type(value).__name__ == "PyCapsule"


def pointer(capsule: object) -> int:
    """The address in a capsule of any name."""
    name, address = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(address(capsule, name(capsule)) or 0)


def capsule(address: int) -> object:
    """A PyCapsule around an address, as PyMNN gives them."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(address, None, None)


def address_of(value: object, what: str) -> int:
    """The address that a plain ``int`` or a capsule stands for."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if is_capsule(value):
        return pointer(value)
    raise MNNError(f"{what}: an address is an int or a capsule, found {type(value).__name__}")


def view(address: int, count: int, kind: np.dtype, what: str) -> np.ndarray:
    """``count`` numbers of the element type ``kind`` that begin at ``address``: where they are if the system can tell
    that all of them can be read, else a copy. Raises :class:`MNNError` as :func:`read`."""
    nbytes = count * kind.itemsize
    if not LEAST <= address <= sys.maxsize * 2 + 1 - nbytes:
        raise MNNError(
            f"{what}: a plain int is the address of numbers in memory, as in PyMNN, and {address} is none; give "
            f"numbers as a list such as [{address}], or use scalar() or fill()"
        )
    readable = _readable(address, nbytes) if nbytes else None
    if readable is None:
        return np.frombuffer(_copied(address, nbytes, what), kind)
    if not readable:
        raise _unreadable(address, nbytes, what, "the memory ends")
    there: Any = (ctypes.c_char * nbytes).from_address(address)
    return np.frombuffer(there, kind)


def read(address: int, count: int, kind: np.dtype, what: str) -> np.ndarray:
    """A copy of ``count`` numbers of the element type ``kind`` that begin at ``address``.

    Raises :class:`MNNError` where that is no address, or where not all of those bytes can be read.
    """
    copy: np.ndarray = view(address, count, kind, what).copy()
    return copy


def _unreadable(address: int, nbytes: int, what: str, why: object) -> MNNError:
    return MNNError(f"{what}: {nbytes} bytes at the address {address:#x} cannot be read ({why})")


def _readable(address: int, nbytes: int) -> bool | None:
    """Whether a byte of every page can be read; None where the system does not tell."""
    reading = _reader()
    if reading is None:
        return None
    first = address // mmap.PAGESIZE + 1
    pages = np.arange(first, (address + nbytes - 1) // mmap.PAGESIZE + 1, dtype=np.uint64) * np.uint64(mmap.PAGESIZE)
    places = np.ones((len(pages) + 1, 2), np.uint64)  # of one byte each
    places[0, 0], places[1:, 0] = address, pages
    taken = (ctypes.c_char * _PIECES)()
    for begin in range(0, len(places), _PIECES):
        part = places[begin : begin + _PIECES]
        into = (ctypes.c_size_t * 2)(ctypes.addressof(taken), len(part))
        done = reading(os.getpid(), into, 1, part.ctypes.data, len(part), 0)
        if done < 0 and ctypes.get_errno() != errno.EFAULT:
            return None
        if done != len(part):
            return False
    return True


@functools.cache
def _reader() -> Callable[..., Any] | None:
    """Linux's ``process_vm_readv``, which reads what may not be there."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
    if function is not None:
        function.restype = ctypes.c_ssize_t
        function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong,
                             ctypes.c_ulong]  # fmt: skip
    return function


def _copied(address: int, nbytes: int, what: str) -> bytearray:
    """The bytes, through a pipe."""
    copy = bytearray(nbytes)
    end, start = os.pipe()
    try:
        for begin in range(0, nbytes, _PIECE):
            size = min(_PIECE, nbytes - begin)
            done = os.write(start, (ctypes.c_char * size).from_address(address + begin))
            copy[begin : begin + done] = os.read(end, done)
            if done != size:
                raise OSError("the memory ends")
    except OSError as error:
        raise _unreadable(address, nbytes, what, error) from error
    finally:
        os.close(end)
        os.close(start)
    return copy
