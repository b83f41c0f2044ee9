"""Functions that numpy computes on the numbers at hand: what depends on more than shapes, or on bits of numbers.

They need the numbers of their operands: placeholders must have been written to. What can be said with operators is said
with operators (in the other files of this folder), so that it follows its placeholders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as _np

from MNN.errors import MNNError
from MNN.expr import build, compute, indexing
from MNN.expr.types import VarOrNumber, storable
from MNN.expr.var import Var
from MNN.ir.dtype import DType

untyped: Any = _np
"""numpy without its overloads, which differ between its versions and do not know options that are passed on."""
WIDE = (DType.F64, DType.I64)


def met(*operands: Any) -> list[Var]:
    """Operands as Vars; doubles stay doubles where they meet a Var of doubles."""
    wide = any(isinstance(o, Var) and o._kind is DType.F64 for o in operands)
    return [build.leaf(compute.as_array(o, "an operand", True)) if wide and not isinstance(o, Var) else build.to_var(o)
            for o in operands]  # fmt: skip


def at_hand(function: Callable[..., Any], *operands: object, **options: object) -> Any:
    """``function`` of numpy on the numbers of ``operands``, with ``options`` as they are: Vars, in the tuples or lists
    in which numpy gives arrays.

    Raises :class:`MNNError` with numpy's words where the operands do not fit."""
    given = met(*operands)
    try:
        with _np.errstate(all="ignore"):
            found = function(*(v._array() for v in given), **options)
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError) as error:
        raise MNNError(f"{getattr(function, '__name__', 'numpy')}(): {error}") from error
    return made(found, any(v._kind in WIDE for v in given))


def positions(given: object) -> object:
    """Positions as a user gives them; none at all are no floats, which numpy takes an empty list for."""
    return _np.asarray(given, _np.int32) if isinstance(given, (list, tuple)) and not _np.size(given) else given


def made(found: object, wide: bool = False) -> Any:
    """What numpy gives, as Vars: doubles as floats and whole numbers of 64 bits that fit 32 as ``int``, unless numbers
    as ``wide`` were given."""
    if isinstance(found, (tuple, list)):
        parts = [made(part, wide) for part in found]
        return parts if isinstance(found, list) else tuple(parts)
    array = _np.asarray(found)
    if array.dtype.kind not in "biuf":
        raise MNNError(f"a Var cannot hold {array.dtype}, such as {array.reshape(-1)[:1]}")
    kept = array.astype(storable(DType.of(array)).numpy, copy=False) if wide else compute.as_array(array)
    return build.leaf(_np.ascontiguousarray(kept).reshape(array.shape))


def along(function: Callable[..., Any], a: object, axis: object, **options: object) -> VarOrNumber:
    """A function of numpy along axes: a Python number where none is named and one is left."""
    names = tuple(axis) if isinstance(axis, list) else axis
    found = at_hand(function, a, axis=names, **options)
    return indexing.result(found) if axis is None and isinstance(found, Var) else found
