"""How a prepared tile of rows of A lies in scratch memory, and when rows are prepared."""

from __future__ import annotations

NOTES = 4
"""Vectors of notes on a tile of rows, before its rows: what results are multiplied by, what sums begin with, what rows
are multiplied by, and whether the tile is taken plainly."""
SMALL, LARGE = 2.0**-100, 2.0**80
"""Sums of squares between which rows are brought to size; 0 is, too."""
EXPONENT, TWICE_ONE = 0x7F800000, 0x7F000000
"""Bits of a number's exponent, and those of 1 added to themselves: less those of a power of two, its inverse's."""


def tile_size(mr: int, k: int, lanes: int) -> int:
    """Elements of a prepared tile of rows."""
    return NOTES * lanes + -(-k // lanes) * lanes * mr


__all__ = ["EXPONENT", "LARGE", "NOTES", "SMALL", "TWICE_ONE", "tile_size"]
