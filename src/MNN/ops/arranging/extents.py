"""How many elements a slice of an axis has, by name."""

from __future__ import annotations

from MNN.ir import symbolic
from MNN.ir.shape import cut

WHOLE = (1 << 31) - 1
"""Ends of slices from here on mean "to the end"."""


def length(size: symbolic.Size, begin: symbolic.Size, end: symbolic.Size, step: int) -> symbolic.Size:
    """How many elements a slice of an axis has."""
    if isinstance(size, int) and isinstance(begin, int) and isinstance(end, int):
        return len(range(*cut(begin, end, step, size).indices(size)))
    if step < 1:
        whole = step == -1 and begin in (-1, WHOLE) and isinstance(end, int) and end <= -WHOLE
        return size if whole else None
    first, last = _place(begin, size), _place(end, size)
    return symbolic.maximum(symbolic.ceil_divide(symbolic.subtract(last, first), step), 0)


def _place(at: symbolic.Size, size: symbolic.Size) -> symbolic.Size:
    """Where a bound of a slice that goes forward lies within an axis."""
    if isinstance(at, int) and at >= WHOLE:
        return size
    lowest, past = symbolic.lower_bound(at), symbolic.lower_bound(symbolic.subtract(at, size))
    if lowest is not None and lowest >= 0:
        return size if past is not None and past >= 0 else symbolic.minimum(at, size)
    return symbolic.maximum(symbolic.add(at, size), 0) if isinstance(at, int) else None
