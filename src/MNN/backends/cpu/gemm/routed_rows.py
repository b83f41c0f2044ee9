"""Rows of a product that take one of several matrices B, as it is found when the program runs.

Rows that take the same matrix come one after the other in the tables of rows, and are cut into units of at most ``mb``
rows. A block is a unit and ``nb`` columns; there are as many units as there can be, and those that are not needed have
no rows. So a matrix that no row takes is not read, and one that many rows take is multiplied as any other.
"""

from __future__ import annotations

from MNN.backends.cpu.lang.module import I8, Kernel, Value

WORDS = 3
"""Of a unit."""


def rows_of_unit(k: Kernel, unit: Value) -> tuple[Value, Value, Value]:
    """The first row of a unit, past its last one, and the matrix that these take."""
    b, place = k.b, unit * WORDS
    first, past, matrix = (b.entry(k.pointer("units"), place + i) for i in range(WORDS))
    return first, past, b.gep(k.pointer("b"), I8, matrix * k.slot("matrix"))


def rows_of_block(k: Kernel, routed: bool, part: Value) -> tuple[Value, Value, Value]:
    """The same of block of rows ``part``, of ``mb`` rows and the one matrix where rows are not ``routed``."""
    if routed:
        return rows_of_unit(k, part)
    b, mb = k.b, k.slot("mb")
    first = part * mb
    return first, b.intrinsic("smin", first + mb, k.slot("m")), k.pointer("b")


__all__ = ["WORDS", "rows_of_block", "rows_of_unit"]
