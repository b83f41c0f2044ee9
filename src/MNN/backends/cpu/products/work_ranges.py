"""Runs of units of a product: which rows of which blocks a worker computes.

Blocks are cut for the caches, units for even runs: a unit is some rows of a block. Units are counted block by block, so
that a run of them goes through a block's panels in order like a whole block does, and may begin and end within one.
"""

from __future__ import annotations

from MNN.backends.cpu.lang.module import I64, Kernel, Value


class Runs:
    """The units ``begin`` to ``end`` of a kernel with the slots ``m`` and ``n`` (rows and columns of the product),
    ``mb`` and ``nb`` (of a block) and ``ub`` (rows of a unit, of which ``mb`` is a multiple).

    Blocks are counted by rows, then by columns; the run's are ``first`` to ``past``.
    """

    def __init__(self, k: Kernel) -> None:
        b = self._b = k.b
        self._m, self._n, self._mb, self._nb, self._ub = (k.slot(s) for s in ("m", "n", "mb", "nb", "ub"))
        self._across = b.udiv(self._n + self._nb - 1, self._nb)
        self._down = b.udiv(self._m + (self._mb - b.const(I64, 1)), self._mb)
        self._begin, self._end = self._find(k.begin), self._find(k.end - 1)
        self.first = self._begin[0]
        self.past = b.select(b.icmp("slt", k.begin, k.end), self._end[0] + 1, self.first)

    def _find(self, unit: Value) -> tuple[Value, Value]:
        """The block that a unit is in, and its number there. All but the last blocks of rows have equal numbers."""
        b = self._b
        high = b.udiv(self._m + (self._ub - 1), self._ub)
        each = b.udiv(self._mb, self._ub)
        batch = b.udiv(unit, high * self._across)
        rest = unit - batch * (high * self._across)
        row = b.udiv(rest, each * self._across)
        rest = rest - row * (each * self._across)
        here = b.intrinsic("smin", each, high - row * each)
        column = b.udiv(rest, here)
        return (batch * self._down + row) * self._across + column, rest - column * here

    def place(self, block: Value) -> tuple[Value, Value, Value]:
        """Of a block the batch, its first row, and its first column."""
        b = self._b
        above = b.udiv(block, self._across)
        batch = b.udiv(above, self._down)
        return batch, (above - batch * self._down) * self._mb, (block - above * self._across) * self._nb

    def columns_end(self, n0: Value) -> Value:
        """The end of a block's columns from ``n0``."""
        return self._b.intrinsic("smin", n0 + self._nb, self._n)

    def rows_end(self, top: Value) -> Value:
        """The end of a block's rows from ``top``."""
        return self._b.intrinsic("smin", top + self._mb, self._m)

    def rows(self, block: Value, top: Value) -> tuple[Value, Value]:
        """The rows, begin and end, of a block from ``top`` that the run takes."""
        b = self._b
        begin = b.select(b.icmp("eq", block, self._begin[0]), top + self._begin[1] * self._ub, top)
        end = b.select(b.icmp("eq", block, self._end[0]), top + (self._end[1] + 1) * self._ub, top + self._mb)
        return begin, b.intrinsic("smin", end, self._m)
