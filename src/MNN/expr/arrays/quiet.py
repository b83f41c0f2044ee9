"""Calls of numpy's functions without its warnings, into memory that is used again where that pays."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.expr.fused.results import empty

POOLED = 1 << 16
"""Numbers from which on results lie in memory that is used again: a system may give the pages of what numpy allocates
anew for each result, at many times what computing it costs."""

Array = np.ndarray
Function = Callable[..., Any]


def _within(function: Function, *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*args)


def _quiet() -> Function:
    """What calls a function of numpy without its warnings, at less cost than ``numpy.errstate``: a context in which
    they are switched off. One call at a time can be under way in it; another raises ``RuntimeError``."""
    context, before = contextvars.copy_context(), np.geterr()
    context.run(np.seterr, all="ignore")
    if np.geterr() == before:
        return context.run
    np.seterr(**before)  # numpy before 2 knows threads, not contexts
    return _within


run = _quiet()


def silently(function: Function, *args: Any) -> Any:
    """``function(*args)`` of numpy without its warnings."""
    try:
        return run(function, *args)
    except RuntimeError:  # while another call is under way: another thread's, or that of what collects garbage
        return _within(function, *args)


def pooled(function: Function, *args: Array) -> Any:
    """``function(*args)`` of numpy without its warnings; the operands have one element type, and the first one the
    shape of the result, which is in memory that is used again where that pays."""
    first = args[0]
    fits = len(args) == 1 or not args[1].ndim or args[1].shape == first.shape
    if fits and first.size >= POOLED and type(function) is np.ufunc and first.flags.c_contiguous:
        return silently(function, *args, empty(first.shape, first.dtype))
    return silently(function, *args)


__all__ = ["POOLED", "pooled", "run", "silently"]
