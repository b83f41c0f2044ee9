"""Tables that kernels read offsets from, as formulas: what is in them at any size, not only at the one planned for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from MNN.ir.size_functions import compiled
from MNN.ir.traced import OpenSize

Number = int | str
"""A number, or the text of an open size."""


@dataclass(frozen=True)
class Column:
    """One word of a table's records: at the point ``(i, j, ...)`` of the grid ``begin + i * strides[0] + j *
    strides[1] ...``, but no more than ``most``."""

    strides: tuple[Number, ...]
    begin: Number = 0
    most: Number | None = None


@dataclass(frozen=True)
class OffsetTable:
    """A record of ``columns`` for every point of a grid of these ``extents``, in row-major order."""

    extents: tuple[Number, ...]
    columns: tuple[Column, ...]

    def numbers(self) -> list[Number]:
        """All numbers in it, in the order of :meth:`of`."""
        found = list(self.extents)
        for column in self.columns:
            found += [*column.strides, column.begin, *(() if column.most is None else (column.most,))]
        return found

    def of(self, numbers: Sequence[Number]) -> OffsetTable:
        """A table of the same form with other numbers."""
        given = iter(numbers)
        extents = tuple([next(given) for _ in self.extents])
        columns = [
            Column(
                tuple([next(given) for _ in column.strides]),
                next(given),
                None if column.most is None else next(given),
            )
            for column in self.columns
        ]
        return OffsetTable(extents, tuple(columns))

    @property
    def changes(self) -> bool:
        """Whether other sizes have other records, and not only more of them."""
        return any(isinstance(n, OpenSize) for n in self.numbers()[1:])

    def form(self) -> tuple[object, ...]:
        """What tables must have in common to be one at several sizes."""
        return len(self.extents), tuple([(len(c.strides), c.most is None) for c in self.columns])

    def values(self) -> NDArray[np.int64]:
        """What it holds where all numbers are known: ``[points * columns]``."""
        return _values(self, [int(n) for n in self.numbers()])

    def at(self, names: Sequence[str]) -> Callable[..., NDArray[np.int64]]:
        """The same as a function of the open sizes, in the order of ``names``."""
        formulas = compiled(self.numbers(), names)
        return lambda *sizes: _values(self, formulas(*sizes))


def grid_table(runs: object) -> OffsetTable | None:
    """The table of the offsets of a grid, by the extents and strides of its dimensions; None for anything else."""
    if not isinstance(runs, tuple) or not all(isinstance(run, tuple) and len(run) == 2 for run in runs):
        return None
    return OffsetTable(tuple([n for n, _ in runs]), (Column(tuple([step for _, step in runs])),))


def _values(table: OffsetTable, numbers: Sequence[int]) -> NDArray[np.int64]:
    rank, width = len(table.extents), len(table.columns)
    extents = numbers[:rank]
    # One line for each column: its strides, where it begins, and the most it may be.
    given = iter(numbers[rank:])
    none = np.iinfo(np.int64).max
    lines = np.array(
        [
            [*(next(given) for _ in range(rank + 1)), none if column.most is None else next(given)]
            for column in table.columns
        ],
        np.int64,
    ).reshape(width, rank + 2)
    found = lines[:, rank]
    for axis, extent in enumerate(extents):
        steps = np.arange(extent, dtype=np.int64)[:, None] * lines[:, axis]
        found = found[..., None, :] + steps if axis else found + steps
    if any(column.most is not None for column in table.columns):
        found = np.minimum(found, lines[:, rank + 1])
    return np.ascontiguousarray(found).reshape(-1)


__all__ = ["Column", "OffsetTable", "grid_table"]
