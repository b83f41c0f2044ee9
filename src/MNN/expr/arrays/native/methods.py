"""Functions of generated code that CPython calls as its own: their table entry, and what makes an object of it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

FASTCALL, KEYWORDS = 0x80, 0x02
"""``METH_FASTCALL`` and ``METH_KEYWORDS``."""


class Method(ctypes.Structure):
    """CPython's ``PyMethodDef``, which has to live as long as what is made of it."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def function_of(method: Method, self: object, module: object = None) -> Any:
    """The callable of a method; it holds ``self``, which the method gets, and ``module``."""
    return _make()(ctypes.addressof(method), self, module)


@functools.cache
def _make() -> Callable[[int, object, object], Any]:
    made = ctypes.cast(ctypes.pythonapi.PyCFunction_NewEx, ctypes.c_void_p).value or 0
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(made)


__all__ = ["FASTCALL", "KEYWORDS", "Method", "function_of"]
