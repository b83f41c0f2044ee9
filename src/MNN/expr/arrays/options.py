"""Options that functions share with numpy's: where results are written, orders of memory, ways to sort, safe casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import MNNError, ShapeError
from MNN.expr.types import VarOrNumber
from MNN.expr.var import Var
from MNN.ir.dtype import DType

_SORTS = ("quicksort", "heapsort", "mergesort", "stable", "quick", "heap", "merge")
_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def into(found: VarOrNumber, out: object, casting: str = "same_kind") -> VarOrNumber:
    """``found``, or where there is an ``out`` that Var, which holds it from now on.

    Raises :class:`MNNError` where ``out`` is no Var, has another shape, or an element type into which numpy's rule
    ``casting`` does not write it (floats into integers, unless it is ``unsafe``)."""
    if out is None:
        return found
    if not isinstance(out, Var):
        raise MNNError(f"out is a Var to be written into, found {type(out).__name__}; leave it out for a new one")
    array = found._array() if isinstance(found, Var) else np.asarray(found)
    kind = out._kind.numpy
    if list(array.shape) != out.shape:
        raise ShapeError(f"out has shape {out.shape}, the result {list(array.shape)}")
    if casting not in _CASTINGS:
        raise MNNError(f"casting {casting!r} is none of {', '.join(_CASTINGS)}")
    numbers = isinstance(found, Var) or array.dtype.kind == "f"
    if numbers and not np.can_cast(array.dtype, kind, casting):  # type: ignore[arg-type] # it is one of them
        raise MNNError(f"out holds {kind}, into which results of {array.dtype} are not written; convert them first")
    out.write(array.astype(kind))
    return out


def check_order(order: object, name: str) -> None:
    """Raises :class:`MNNError` unless an array in row-major order is what ``order`` asks for."""
    if order not in ("C", "K", "A", None):
        found = repr(order) if isinstance(order, str) else type(order).__name__
        raise MNNError(f"{name}(): order {found} is not supported: the memory of a Var is in row-major order, 'C'")


def check_sorting(kind: object, order: object, name: str) -> None:
    """Raises :class:`MNNError` for ways to sort that numpy does not know, and for fields, which no Var has."""
    if kind is not None and kind not in _SORTS:
        raise MNNError(f"{name}(): kind {kind!r} is none of {', '.join(_SORTS[:4])}")
    if order is not None:
        raise MNNError(f"{name}(): order names fields, found {order!r}; elements of a Var have none")


def check_casting(kinds: Any, target: DType, casting: str, name: str) -> None:
    """Raises :class:`MNNError` where numpy's rule ``casting`` does not let elements of ``kinds`` become ``target``."""
    if casting not in _CASTINGS:
        raise MNNError(f"{name}(): casting {casting!r} is none of {', '.join(_CASTINGS)}")
    for kind in kinds:
        if not np.can_cast(kind.numpy, target.numpy, casting):  # type: ignore[arg-type] # it is one of them
            raise MNNError(f"{name}(): {kind.value} does not become {target.value} with casting {casting!r}")


__all__ = ["check_casting", "check_order", "check_sorting", "into"]
