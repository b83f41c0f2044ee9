"""What typed functions know of CPython and numpy: addresses in one record for all of them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.backends.cpu.typed.language import Int32, Pointer, Record, Words, at
from MNN.backends.cpu.typed.unit import is_readable, translated
from MNN.expr.arrays.native import facts
from MNN.expr.arrays.native.objects import Object

SOURCES = "MNN.cv.kernels", "MNN.expr.arrays.native"
"""Where typed functions are from, and the numbers in them."""


class Common(Record):
    """Types and objects, then functions."""

    array: Pointer
    whole: Pointer
    real: Pointer
    tuple_: Pointer
    list_: Pointer
    bytes_: Pointer
    singles: Pointer
    ints: Pointer
    true: Object
    false: Object
    none: Object
    is_kind: Callable[[Pointer, Pointer], Int32]
    to_whole: Callable[[Object], int]
    to_real: Callable[[Object], float]
    error: Callable[[], Pointer]
    forget: Callable[[], None]
    refuse: Callable[[], Int32]
    tuple_size: Callable[[Object], int]
    tuple_item: Callable[[Object, int], Object]
    list_size: Callable[[Object], int]
    list_item: Callable[[Object, int], Object]
    save: Callable[[], Pointer]
    restore: Callable[[Pointer], None]
    retain: Callable[[Object], None]


class Entry(Record):
    """What belongs to a function that CPython calls; behind it there is its own."""

    common: Common


class Kernel(Record):
    """Where the address of a kernel is, or none."""

    is_there: Pointer = at(0)
    run: Callable[[Words, int, int, Pointer], None] = at(0)


_OBJECTS: dict[str, object] = {
    "array": np.ndarray, "whole": int, "real": float, "tuple_": tuple, "list_": list, "bytes_": np.dtype(np.uint8),
    "singles": np.dtype(np.float32), "ints": np.dtype(np.int32), "true": True, "false": False,
    "none": None,
}  # fmt: skip
_PYTHON = {
    "is_kind": "PyType_IsSubtype", "refuse": "PyErr_BadArgument",
    "to_whole": "PyLong_AsLongLong", "to_real": "PyFloat_AsDouble", "error": "PyErr_Occurred", "forget": "PyErr_Clear",
    "tuple_size": "PyTuple_Size", "tuple_item": "PyTuple_GetItem", "list_size": "PyList_Size",
    "list_item": "PyList_GetItem", "save": "PyEval_SaveThread", "restore": "PyEval_RestoreThread",
    "retain": "Py_IncRef",
}  # fmt: skip
_KINDS = (np.dtype(np.uint8), np.dtype(np.float32), np.dtype(np.int32))


@functools.cache
def common() -> Any:
    """The common record of typed functions, for the life of the process; None where CPython and numpy are not as they
    are known, or there is no source to translate."""
    if (
        not is_readable(translated)
        or facts.functions() is None
        or any(np.zeros(1, kind).dtype is not kind for kind in _KINDS)
    ):
        return None
    numbers = []
    for name in Common.__annotations__:
        function = getattr(ctypes.pythonapi, _PYTHON[name], None) if name in _PYTHON else None
        if function is None and name in _PYTHON:
            return None
        found = id(_OBJECTS[name]) if function is None else ctypes.cast(function, ctypes.c_void_p).value
        numbers.append(found or 0)
    return np.array(numbers, np.int64)


__all__ = ["SOURCES", "Common", "Entry", "Kernel", "common"]
