"""Scalar programs that are made again and again: one object for equal ones, and what is wrong with them."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Hashable
from types import FunctionType

from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.reference.scalar import undefined

_MOST = 1024
_OWN = "MNN."
_made: dict[Hashable, tuple[Body, str]] = {}


@functools.lru_cache(maxsize=4096)
def checked(body: Body) -> tuple[Body, str]:
    """One object for all bodies that are equal (its hash is taken once), and what of it is undefined, in words."""
    return body, undefined(body)


@functools.lru_cache(maxsize=1024)
def operation(name: str, dtypes: tuple[DType, ...]) -> tuple[Body, str]:
    """As :func:`checked`, for one operation on operands of these types."""
    return checked(body_of(dtypes, lambda b, *args: b(name, *args)))


def program(fn: Callable[..., int], dtypes: tuple[DType, ...]) -> tuple[Body, str]:
    """As :func:`checked`, for the body that ``fn`` makes; made once where the same code of the engine asks for it again
    with the same numbers."""
    function_key = _function_key(fn)
    if function_key is None:
        return checked(body_of(dtypes, fn))
    key = function_key, dtypes
    found = _made.get(key)
    if found is None:
        if len(_made) >= _MOST:
            _made.clear()
        found = _made[key] = checked(body_of(dtypes, fn))
    return found


def _function_key(fn: object) -> Hashable:
    """What decides a function's results: its code and the plain values that it closes over; None when there is more."""
    if not isinstance(fn, FunctionType) or fn.__defaults__ or fn.__kwdefaults__ or not fn.__module__.startswith(_OWN):
        return None
    values: list[object] = [fn.__module__, fn.__code__]
    for cell in fn.__closure__ or ():
        value = cell.cell_contents
        kind = type(value)
        if isinstance(value, float) and kind is float:
            values += [kind, struct.pack("d", value)]
        elif kind in (int, bool, str, DType) or value is None:
            values += [kind, value]
        else:
            inner = _function_key(value)
            if inner is None:
                return None
            values.append(inner)
    return tuple(values)
