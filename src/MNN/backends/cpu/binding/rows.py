"""How a tensor lies in the arena: planes of rows of bytes, with gaps between where there is room for larger sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from MNN.backends.base.open_words import Shape
from MNN.ir.symbolic import multiply, parse

_MOST = 3
"""Levels that the native loop copies."""


class Rows(NamedTuple):
    """``extents``: planes, rows of each and bytes of each row, in terms of open sizes; strides in bytes."""

    extents: Shape
    plane_stride: int
    row_stride: int


def rows_of(shape: Shape, strides: Sequence[int], itemsize: int) -> Rows | None:
    """The rows of a tensor with such strides in elements, in the order of its elements; None where more than three
    levels of gaps are in it, or elements of a row lie apart. Sizes are numbers or formulas of open sizes."""
    levels: list[tuple[int | str, int]] = []
    for number, stride in zip(reversed(shape), reversed(strides), strict=True):
        size = parse(number) if isinstance(number, str) else number
        if size == 1:
            continue
        if not levels and stride != 1:
            return None
        inner, step = levels[-1] if levels else (1, 1)
        merged = multiply(size, inner)
        if merged is not None and isinstance(inner, int) and stride == inner * step:
            levels[-1:] = [(merged, step)]
        else:
            levels.append((size, stride))
    if len(levels) > _MOST:
        return None
    (nbytes, _), (rows, row_stride), (planes, plane_stride) = (levels + [(1, 0)] * _MOST)[:_MOST]
    bytes_of_row = multiply(nbytes, itemsize)
    if bytes_of_row is None:
        return None
    return Rows((planes, rows, bytes_of_row), plane_stride * itemsize, row_stride * itemsize)


__all__ = ["Rows", "rows_of"]
