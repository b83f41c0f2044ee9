"""The arguments of :class:`MNN.backends.cpu.amx.spec.AmxSpec` and its kin, and what their tables hold."""

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
TURN = Record(
    "turn",  # of a block, the last one that its thread has or not
    word("ahead", "what it asks for when it ends: so many bytes behind next; -1: nothing, its thread has more blocks"),
)
_GROUPS = (
    word("panel", "bytes of B from one panel to the next"),
    word("group", "columns that are taken together, a multiple of a panel's"),
    word("line", "bytes from one row of sums to the next"),
    word("held", "bytes of all sums that are held"),
    word("fetch", "bytes of what is asked for ahead in each step"),
)
"""How columns are taken: see :meth:`MNN.backends.cpu.amx.grouping.Grouping.words`."""
AMX = Record(
    "contraction on tiles",
    word("a", "A", pointer=True),
    word("b", "B, in panels of 32 columns", pointer=True),
    word("c", "C", pointer=True),
    word("next", "B of the command behind this one", pointer=True),
    word("turns", "a record TURN for each block", pointer=True),
    word("items", "records RUNS: what is brought of A, numbered by regions", pointer=True),
    word("regions", "records REGION, for each block of rows and chunk of steps", pointer=True),
    word("first", "i32[m_blocks * pairs + 1]: the first result at or behind each pair's rows", pointer=True),
    word("place", "i32: the row of its block that each result is", pointer=True),
    word("rows_c", "i32: the element of C where each result begins", pointer=True),
    word("kofs", "i32: the byte of a plane where each step of the sum begins", pointer=True),
    word("chunks", "in how many parts a block sums its steps"),
    word("pitch", "bytes from one row of a plane to the next (with direct: of A)"),
    word("plane", "bytes of the plane that every part of A has"),
    word("step", "elements of A from one run of an item to the next"),
    word("clear", "byte of a plane from which on 64 bytes of rows are zeroed before anything is brought"),
    word("clear_rows", "in so many rows"),
    *_GROUPS,
    word("m_blocks", "blocks of rows"),
    word("pairs", "pairs of tiles in a block of rows"),
    word("n", "columns of C"),
    word("nb", "columns of a block, a multiple of a panel's"),
    word("shared", "tiles at the end of every block that are of the same rows, or 0"),
    word("part", "columns of them that each block computes, a multiple of group"),
    word("batch", "n_batch records batch_record(), b's offset in bytes", pointer=True),
    word("n_batch", "products of the batch"),
)  # fmt: skip
OPEN = Record(
    "contraction on tiles of any number of rows",
    word("a", "A", pointer=True),
    word("b", "B, in panels of 32 columns", pointer=True),
    word("c", "C", pointer=True),
    word("rows_a", "i32[m]: the element of A where each row begins", pointer=True),
    word("rows_c", "i32[m]: the element of C where each result begins", pointer=True),
    word("m", "rows"),
    word("mb", "rows of a block, a multiple of 16"),
    word("m_blocks", "blocks of rows, of which the last ones may have none"),
    word("k", "elements of a row"),
    word("per", "steps of the sum that a block takes at a time"),
    word("pitch", "bytes from one row of a plane to the next"),
    word("plane", "bytes of the plane that every part of A has"),
    *_GROUPS,
    word("n", "columns of C"),
    word("nb", "columns of a block, a multiple of a panel's"),
    word("batch", "n_batch records batch_record(), b's offset in bytes", pointer=True),
    word("n_batch", "products of the batch"),
)  # fmt: skip
PACE = Record("behind AMX with overlap", word("pace", "results of the pair before that are finished in each step"))
JOINED = Record(
    "behind AMX with joined",
    word("moves", "records RUNS: how rows are joined from lines of pixels, numbered by regions", pointer=True),
    word("width", "elements of a run"),
    word("move_step", "bytes from one run to the next"),
)
SECTIONS = Record("behind AMX with sections", word("beside", "bytes from one section's rows to those of the next"))
PACK_BATCH = Record("matrix", word("src", "element where it begins"), word("dst", "byte where its panels do"))
PACK = Record(
    "packing of B",
    word("src", "what is packed", pointer=True),
    word("dst", "the panels", pointer=True),
    word("rows", "i32[n_steps * 32]: the element where each row begins; negative: a row of zeros", pointer=True),
    word("n_steps", "steps of the sum"),
    word("column", "elements from one column to the next"),
    word("n", "columns"),
    word("panel", "bytes of dst from one panel to the next"),
    word("batch", "n_batch records PACK_BATCH", pointer=True),
    word("n_batch", "matrices"),
)  # fmt: skip
PACK_OPEN = Record("behind PACK where their number is open", word("k", "rows of B: those behind are zeros"))
