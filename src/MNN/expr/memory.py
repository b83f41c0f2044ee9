"""Numbers in memory that someone else owns, given by an address or by a capsule.

The operating system copies them (through a pipe), so that memory which is not there is an error and not a crash.
"""

from __future__ import annotations

import ctypes
import os
import sys

import numpy as np

from MNN.errors import MNNError

LEAST = 1 << 16
"""Addresses below lie in pages that no system gives to programs: a number meant as a number, most likely."""
_PIECE = 4096
"""Bytes that every system's pipe takes at once."""


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


def read(address: int, count: int, kind: np.dtype, what: str) -> np.ndarray:
    """A copy of ``count`` numbers of the element type ``kind`` that begin at ``address``.

    Raises :class:`MNNError` where that is no address, or where not all of those bytes can be read.
    """
    nbytes = count * kind.itemsize
    if not LEAST <= address <= sys.maxsize * 2 + 1 - nbytes:
        raise MNNError(
            f"{what}: a plain int is the address of numbers in memory, as in PyMNN, and {address} is none; give "
            f"numbers as a list such as [{address}], or use scalar() or fill()"
        )
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
        raise MNNError(f"{what}: {nbytes} bytes at the address {address:#x} cannot be read ({error})") from error
    finally:
        os.close(end)
        os.close(start)
    return np.frombuffer(copy, kind)
