"""Which elements a slice takes, and how many those are, by name."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.ir import symbolic
from MNN.ir.shape import cut

WHOLE = (1 << 31) - 1
"""Ends of slices from here on mean "to the end"."""

MASKS = ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask")
"""Attributes of a strided slice as TensorFlow has it: bit i is about the i-th of its bounds."""


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


def masked_index(
    masks: Sequence[int], begins: Sequence[int], ends: Sequence[int], steps: Sequence[int], rank: int
) -> list[slice | int | None]:
    """A strided slice of TensorFlow's as numpy's index for ``rank`` axes; ``masks`` in the order of :data:`MASKS`."""
    begin_mask, end_mask, ellipsis, new_axis, shrink = masks
    index: list[slice | int | None] = []
    used = sum(not (new_axis >> i & 1 or ellipsis >> i & 1) for i in range(len(begins)))
    for i, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if ellipsis >> i & 1:
            index += [slice(None)] * (rank - used)
        elif new_axis >> i & 1:
            index.append(None)
        elif shrink >> i & 1:
            index.append(begin)
        else:
            index.append(slice(None if begin_mask >> i & 1 else begin, None if end_mask >> i & 1 else end, step))
    return index
