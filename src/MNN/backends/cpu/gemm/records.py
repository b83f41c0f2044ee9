"""The arguments of :class:`MNN.backends.cpu.gemm.contraction.ContractSpec`; those of its operands come behind."""

from __future__ import annotations

from MNN.backends.base.record import Record, word

CONTRACTION = Record(
    "contraction",
    word("a", "A", pointer=True),
    word("b", "B", pointer=True),
    word("c", 'C: the memory of an "mn" operand addressed alike, or of nothing that is read', pointer=True),
    word("rows_a", "i32[m]: the element of A where each row begins", pointer=True),
    word("rows_c", "i32[m]: that of C", pointer=True),
    word("taps", "i32[n_taps]: how many elements behind a row's beginning each tap begins", pointer=True),
    word("n_taps", "taps of a window, 0 for an empty sum"),
    word("k", "products of a tap, at least one"),
    word("ldb", "elements of B from one step of the sum to the next"),
    word("panel", "and from one panel of columns to the next"),
    word("m", "rows of C"),
    word("n", "columns of C"),
    word("batch", "n_batch records batch_record()", pointer=True),
    word("n_batch", "products of the batch"),
    word("mb", "rows of a block, a multiple of ub"),
    word("nb", "columns of a block, a multiple of a panel's"),
    word("ub", "rows of a unit, which are what is dealt out"),
)

ROUTED_ROWS = Record(
    "routed rows",
    word("units", "i32[units, 3]: first row, past the last one, and which matrix B they take", pointer=True),
    word("matrix", "bytes from one matrix to the next"),
    word("matrices", "how many there are"),
)
"""What comes behind where rows choose a matrix. ``rows_a``, ``rows_c`` and ``units`` are then written at run time."""

TAP_SPANS = Record(
    "spans of taps",
    word("spans", "i32[ceil(m / mr), 2]: the first tap of each tile of rows, and past its last one", pointer=True),
)
"""What comes behind where tiles of rows take some of the taps alone."""

__all__ = ["CONTRACTION", "ROUTED_ROWS", "TAP_SPANS"]
