"""Where V, M and a tile of outputs lie in the scratch memory of a Winograd kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from MNN.backends.cpu.lang.module import Value

LINE = 16
"""Elements of f32 in a cache line."""
_Number = TypeVar("_Number", int, Value)


@dataclass(frozen=True)
class Layout:
    """Extents in elements of f32. Every method takes Python ints (for cost models) or values (in the kernel).

    V is ``[positions][group][c in whole vectors]``, M is ``[positions][group in whole register tiles][columns in whole
    panels]``. Positions lie one cache line further apart than their size, so that those of one tile do not all fall
    into the same set of a cache; rows are not padded, for there are few in flight.
    """

    lanes: int
    positions: int
    mr: int
    nr: int

    def row_v(self, c: _Number) -> _Number:
        return (c + (self.lanes - 1)) // self.lanes * self.lanes

    def row_m(self, columns: _Number) -> _Number:
        return (columns + (self.nr - 1)) // self.nr * self.nr

    def step_v(self, group: _Number, c: _Number) -> _Number:
        return group * self.row_v(c) + LINE

    def step_m(self, group: _Number, columns: _Number) -> _Number:
        return (group + (self.mr - 1)) // self.mr * self.mr * self.row_m(columns) + LINE

    def bytes(self, into: int, out: int, c: int, columns: int, outputs: int) -> int:
        """All of it, for so many rows of V and of M, the tile of outputs last."""
        both = self.positions * (self.step_v(into, c) + self.step_m(out, columns))
        return 4 * (both + outputs * self.lanes)
