"""Functions that are computed later, with what numpy has for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.expr.arrays import few
from MNN.expr.fused import function_of
from MNN.expr.fused.functions import Function
from MNN.ir.dtype import DType
from MNN.ir.scalar import BodyBuilder


def function(op: str, kinds: tuple[DType, ...]) -> Function | None:
    """That of an operator on one or two numbers."""
    found = function_of("UnaryOp" if len(kinds) == 1 else "BinaryOp", {"opType": op}, kinds)
    if found is None or found.eager is not None:
        return found
    if op in few.COMPARING:
        found.eager = functools.partial(_compared, few.COMPARING[op])
    elif (at_once := few.function(op, len(kinds))) is not None:
        found.eager = functools.partial(few.pooled, at_once)
        found.alone = found.eager if op in few.LIGHT else None
    return found


def _compared(compare: Callable[..., Any], a: np.ndarray, b: np.ndarray) -> Any:
    return few.silently(compare, a, b).astype(np.int32)


def choice(kind: DType) -> Function | None:
    """One of two numbers where a whole one is not 0."""
    found = function_of("Select", {}, (DType.I32, kind, kind))
    if found is not None:
        found.eager = np.where
    return found


@functools.cache
def rounding(kind: DType) -> Function:
    """To the nearest whole number, halves away from zero: the largest number below a half, in whose place a half would
    round up what is just below one, is added or taken off before the fraction is cut off."""
    b = BodyBuilder()
    x, zero = b.arg(kind), b.const(0.0, kind)
    half = float(np.nextafter(kind.numpy.type(0.5), kind.numpy.type(0)))
    half_up = b("select", b("lt", x, zero), b.const(-half, kind), b.const(half, kind))
    found = Function(b.build(b("add", b("trunc", b("add", x, half_up)), zero)))  # 0 is not below zero
    found.eager = functools.partial(few.silently, few.rounded)
    return found


__all__ = ["choice", "function", "rounding"]
