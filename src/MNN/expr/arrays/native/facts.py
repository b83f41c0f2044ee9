"""Where CPython and numpy keep what generated code reads: each place is looked at before it is trusted.

The fields of arrays and of universal functions, and the numbers of the functions in numpy's table, belong to its binary
interface (``numpy/ndarraytypes.h``, ``numpy/ufuncobject.h`` and ``__multiarray_api.h``), which extensions that were
compiled years ago rely on. What begins an object is CPython's of all versions with an interpreter lock."""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Sequence
from typing import Any

import numpy as np

TYPE, DATA, RANK, EXTENTS, STRIDES, ELEMENT, FLAGS = 8, 16, 24, 32, 40, 56, 64
"""Bytes from the begin of an object to its type, and to the fields of an array."""
LOOPS, LOOP_DATA, LOOP_COUNT, LOOP_TYPES = 32, 40, 48, 64
"""Bytes from the begin of a universal function to the addresses of its inner loops, of what belongs to each, their
count, and the types of their operands."""
KINDS = (np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.float64), np.dtype(np.int64))
"""Element types that generated code knows, by number; from 2 on they have 8 bytes."""
_NUMPY = {"array": 2, "copy": 85, "make": 94, "transpose": 123, "set_base": 282}
"""Numbers in numpy's table: of the type of arrays, and of ``PyArray_NewCopy``, ``NewFromDescr``, ``Transpose``
and ``SetBaseObject``."""
_PYTHON = {
    "retain": "Py_IncRef", "release": "Py_DecRef", "new": "PyType_GenericAlloc", "call": "PyObject_VectorcallDict",
    "real": "PyFloat_AsDouble", "whole": "PyLong_AsLongLong", "clear": "PyErr_Clear", "item": "PyObject_GetItem",
    "list_item": "PyList_GetItem", "tuple_item": "PyTuple_GetItem", "list_size": "PyList_Size",
    "tuple_size": "PyTuple_Size", "tuple_new": "PyTuple_New", "tuple_set": "PyTuple_SetItem",
    "long": "PyLong_FromLongLong", "dict_item": "PyDict_GetItem",
}  # fmt: skip


def word(address: int) -> int:
    """The 8 bytes at an address."""
    return ctypes.c_int64.from_address(address).value


def _usual() -> bool:
    """Whether this is a CPython of 64 bits with an interpreter lock and plain objects."""
    return (
        sys.implementation.name == "cpython"
        and sys.byteorder == "little"
        and struct.calcsize("PNn") == 24
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and not hasattr(sys, "getobjects")
        and all(word(id(o) + TYPE) == id(type(o)) for o in (1.5, "a", [], np.zeros(3), object()))
    )


def _arrays_are_known() -> bool:
    a: Any = np.arange(30, dtype=np.int32).reshape(5, 6)[1:3, ::2]
    at = id(a)
    sizes, steps = word(at + EXTENTS), word(at + STRIDES)
    return (
        word(at + DATA) == a.__array_interface__["data"][0]
        and ctypes.c_int32.from_address(at + RANK).value == a.ndim
        and (word(sizes), word(sizes + 8)) == a.shape
        and (word(steps), word(steps + 8)) == a.strides
        and word(at + ELEMENT) == id(a.dtype)
        and ctypes.c_int32.from_address(at + FLAGS).value == a.flags.num
        and all(np.zeros(1, kind).dtype is kind for kind in KINDS)
    )


def _table() -> int:
    """The address of numpy's table of functions; 0 where there is none."""
    from MNN.expr import memory

    core: Any = getattr(np, "_core", None) or getattr(np, "core", None)
    capsule = getattr(getattr(core, "_multiarray_umath", None), "_ARRAY_API", None)
    return 0 if capsule is None else memory.pointer(capsule)


def slots(kind: type, names: Sequence[str]) -> dict[str, int] | None:
    """Bytes from the begin of an object to each of these slots."""
    probe: Any = object.__new__(kind)
    marks = [object() for _ in names]
    for name, mark in zip(names, marks, strict=True):
        setattr(probe, name, mark)
    held = {word(id(probe) + at): at for at in range(16, kind.__basicsize__, 8)}
    if any(id(mark) not in held for mark in marks):
        return None
    return {name: held[id(mark)] for name, mark in zip(names, marks, strict=True)}


def functions() -> dict[str, int] | None:
    """Addresses of functions of CPython and numpy by the names that generated code has for them; None where objects
    are not as they are known."""
    if not _usual() or not _arrays_are_known():
        return None
    table = _table()
    if not table or word(table + 8 * _NUMPY["array"]) != id(np.ndarray):
        return None
    found = {name: word(table + 8 * number) for name, number in _NUMPY.items()}
    for name, symbol in _PYTHON.items():
        function = getattr(ctypes.pythonapi, symbol, None)
        if function is None:
            return None
        found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


def inner_loop(function: Any, kinds: str) -> tuple[int, int] | None:
    """The address of numpy's inner loop of a universal function for operands and results of these types, as
    ``types`` of the function has them (``ff->f``), and that of what it is to be given."""
    if not isinstance(function, np.ufunc) or kinds not in function.types:
        return None
    at = id(function)
    count = ctypes.c_int32.from_address(at + LOOP_COUNT).value
    shape = [ctypes.c_int32.from_address(at + 16 + 4 * i).value for i in range(3)]
    if shape != [function.nin, function.nout, function.nargs] or count != function.ntypes:
        return None
    number = function.types.index(kinds)
    codes = "".join(kinds.split("->")).encode()
    if ctypes.string_at(word(at + LOOP_TYPES) + number * len(codes), len(codes)) != bytes(
        np.dtype(c).num for c in codes.decode()
    ):
        return None
    return word(word(at + LOOPS) + 8 * number), word(word(at + LOOP_DATA) + 8 * number)


__all__ = [
    "DATA", "ELEMENT", "EXTENTS", "FLAGS", "KINDS", "RANK", "STRIDES", "TYPE", "functions", "inner_loop", "slots",
]  # fmt: skip
