"""Runs of units of a product: which rows of which blocks a worker computes.

Blocks are cut for the caches, units for even runs: a unit is some rows of a block. Units are counted block by block, so
that a run of them goes through a block's panels in order like a whole block does, and may begin and end within one.
"""

from __future__ import annotations

from dataclasses import dataclass

from MNN.kernels.lang import I64, Builder, Value


@dataclass(frozen=True)
class Cut:
    """``m`` rows in ``down`` blocks of ``mb`` rows, in units of ``ub`` (``mb`` is a multiple), and columns in
    ``across`` blocks. Blocks are counted by rows, then by columns."""

    b: Builder
    m: Value
    mb: Value
    ub: Value
    down: Value
    across: Value

    def find(self, unit: Value) -> tuple[Value, Value]:
        """The block that a unit is in, and its number there. All but the last blocks of rows have equal numbers."""
        b = self.b
        high = b.udiv(self.m + (self.ub - 1), self.ub)
        each = b.udiv(self.mb, self.ub)
        batch = b.udiv(unit, high * self.across)
        rest = unit - batch * (high * self.across)
        row = b.udiv(rest, each * self.across)
        rest = rest - row * (each * self.across)
        here = b.intrinsic("smin", each, high - row * each)
        column = b.udiv(rest, here)
        return (batch * self.down + row) * self.across + column, rest - column * here

    def rows(self, block: Value, top: Value, first: tuple[Value, Value], last: tuple[Value, Value]) -> list[Value]:
        """The rows, begin and end, of a block from ``top`` that a run from the unit ``first`` to the unit ``last`` (as
        :meth:`find` gives them) takes."""
        b = self.b
        begin = b.select(b.icmp("eq", block, first[0]), top + first[1] * self.ub, top)
        end = b.select(b.icmp("eq", block, last[0]), top + (last[1] + 1) * self.ub, top + self.mb)
        return [begin, b.intrinsic("smin", end, self.m)]


def cut_of(b: Builder, sizes: tuple[Value, Value, Value], across: Value) -> Cut:
    """The cut of ``sizes``: all rows, those of a block, those of a unit."""
    m, mb, ub = sizes
    return Cut(b, m, mb, ub, b.udiv(m + (mb - b.const(I64, 1)), mb), across)
