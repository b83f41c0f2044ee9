"""What generated code knows of CPython and numpy: addresses in one record for all of it, and places in objects."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from MNN.expr.arrays.native import facts

_PYTHON = {
    "whole": "PyLong_AsLongLong", "real": "PyFloat_AsDouble", "occurred": "PyErr_Occurred", "clear": "PyErr_Clear",
    "size": "PyTuple_Size", "item": "PyTuple_GetItem", "save": "PyEval_SaveThread", "restore": "PyEval_RestoreThread",
    "retain": "Py_IncRef", "list_size": "PyList_Size", "list_item": "PyList_GetItem",
}  # fmt: skip
_OBJECTS: dict[str, object] = {
    "array": np.ndarray, "int": int, "float": float, "tuple": tuple, "list": list,
    "bytes": np.dtype(np.uint8),
    "singles": np.dtype(np.float32), "ints": np.dtype(np.int32), "true": True, "false": False,
}  # fmt: skip
_KINDS = (np.dtype(np.uint8), np.dtype(np.float32), np.dtype(np.int32))


def places() -> dict[str, int]:
    """Where generated code finds what it knows, by name: in the common record, and in objects."""
    common = {name: 8 * i for i, name in enumerate((*_OBJECTS, *_PYTHON))}
    fields = ("TYPE", "DATA", "RANK", "EXTENTS", "ELEMENT", "FLAGS")
    return common | {name: getattr(facts, name) for name in fields}


@functools.cache
def common() -> Any:
    """The common record of generated code, for the life of the process; None where CPython and numpy are not as they
    are known."""
    if facts.functions() is None or any(np.zeros(1, kind).dtype is not kind for kind in _KINDS):
        return None
    numbers = [*map(id, _OBJECTS.values())]
    for name in _PYTHON.values():
        function = getattr(ctypes.pythonapi, name, None)
        if function is None:
            return None
        numbers.append(ctypes.cast(function, ctypes.c_void_p).value or 0)
    return np.array(numbers, np.int64)


__all__ = ["common", "places"]
