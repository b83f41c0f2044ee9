"""What the tables of :class:`MNN.backends.cpu.amx.spec.AmxSpec` hold (i32)."""

from __future__ import annotations

from MNN.backends.base.record import Record, word

REGION = Record(
    "region",  # of A: what a block needs of it for one chunk of its steps
    word("first", "number of the first item to bring"),
    word("past", "and of that behind the last one"),
    word("tiles", "tiles of 16 rows"),
    word("k", "elements of a run"),
    word("from", "the first step"),
    word("to", "and the one behind the last one"),
    word("first_move", "with joined, number of the first move; with direct, element where the first row begins"),
    word("past_move", "and of that behind the last one; with direct, the row at which its last tile begins, which "
         "overlaps the tile before where 16 does not divide the rows"),
    unit=4,
)  # fmt: skip
FIRST, PAST, TILES, LENGTH, FROM, TO, FIRST_MOVE, PAST_MOVE = (REGION.index(name) for name in REGION)
"""Columns of a table of regions."""
RUNS = Record(
    "runs",  # an item, or a move
    word("src", "where the first run begins: an item's element of A, a move's byte of the plane"),
    word("dst", "the byte of the plane that it comes to"),
    word("count", "how many runs"),
    unit=4,
)
