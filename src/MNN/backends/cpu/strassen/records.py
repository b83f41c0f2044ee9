"""The arguments of Strassen's kernels, and what their tables hold (i64)."""

from __future__ import annotations

from MNN.backends.base.record import Record, word

STAGE = Record(
    "stage",
    word("x_rows", "elements from a panel of B to the first term"),
    word("x_panel", "and panels to it"),
    word("y_rows", "the same for the second term"),
    word("y_panel", "the same for the second term"),
    word("keep", "mask of the second term's bits: 0 where there is none"),
    word("flip", "bits of it that flip: the sign, or none"),
)
MOST_USES = 4
"""Tiles of C that a product of a tile of rows is added to, at most."""
USE = Record(
    "use",
    word("tile", "the tile of C"),
    word("sign", "1: it is added, -1: it is subtracted"),
)
USES = Record(
    "uses",  # of a product
    word("count", "in how many tiles of C it is used"),
    word("uses", "so many records USE", size=MOST_USES * USE.size),
)
STRASSEN = Record(
    "product",
    word("a", "A as it is, for numbers that are too large", pointer=True),
    word("s", "A's factors, as StrassenSumsSpec writes them with its rows, k, chunk and tiles", pointer=True),
    word("b", "B, packed by pack_b", pointer=True),
    word("c", "C", pointer=True),
    word("rows_c", "i32[m]: the element of C where each row begins", pointer=True),
    word("stages", "n_stages records STAGE", pointer=True),
    word("n_stages", "outer products, times the cuts of a long depth"),
    word("uses", "records USES, for each inner product of each stage", pointer=True),
    word("flags", "i32[n_flags]: any that is not 0 says that A takes the plain way", pointer=True),
    word("n_flags", "how many"),
    word("b_flags", "i32[n_b_flags]: the same of B", pointer=True),
    word("n_b_flags", "how many"),
    word("lda", "elements from one row of A to the next"),
    word("panel", "elements of B from one panel to the next"),
    word("panels", "of B"),
    word("groups", "of 2**levels neighbouring panels"),
    word("k", "depth of a part"),
    word("chunk", "depth of a stage"),
    word("rows", "of a part of A"),
    word("tiles", "of rows of a part"),
    word("m", "rows of C"),
    word("n", "columns of C"),
    word("mb", "rows of all parts in a block, a multiple of mr"),
    word("nb", "groups of a block"),
)
SUMS = Record(
    "factors of A",
    word("a", "A", pointer=True),
    word("s", "its factors", pointer=True),
    word("flags", "i32, one for each block: 1 where it meets a number that is not below LARGEST in size", pointer=True),
    word("lda", "elements from one row of A to the next"),
    word("m", "rows of A"),
    word("rows", "of a part of A"),
    word("k", "depth of a part"),
    word("chunk", "depth of a piece of s, a multiple of the lanes"),
    word("tiles", "of rows of a part"),
)

__all__ = ["MOST_USES", "STAGE", "STRASSEN", "SUMS", "USE", "USES"]
