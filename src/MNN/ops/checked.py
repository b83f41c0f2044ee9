"""Scalar programs that are made again and again: one object for equal ones, and what is wrong with them."""

from __future__ import annotations

import functools

from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.ops.meaning_scalar import undefined


@functools.lru_cache(maxsize=4096)
def checked(body: Body) -> tuple[Body, str]:
    """One object for all bodies that are equal (its hash is taken once), and what of it is undefined, in words."""
    return body, undefined(body)


@functools.lru_cache(maxsize=1024)
def operation(name: str, dtypes: tuple[DType, ...]) -> tuple[Body, str]:
    """As :func:`checked`, for one operation on operands of these types."""
    return checked(body_of(dtypes, lambda b, *args: b(name, *args)))
