"""The arguments of :class:`MNN.backends.cpu.inner_product.spec.InnerProductSpec`; those of its operands come behind."""

from __future__ import annotations

from MNN.backends.base.record import Record, word

INNER_PRODUCT = Record(
    "inner product",
    word("a", "A", pointer=True),
    word("b", "B, as InnerProductPackSpec makes it", pointer=True),
    word("c", "C", pointer=True),
    word("rows_a", "i32[m]: the element of A where each row begins", pointer=True),
    word("rows_c", "i32[m]: that of C", pointer=True),
    word("k", "products of a sum"),
    word("panel", "elements of B from one panel to the next, its head included"),
    word("m", "rows of C"),
    word("n", "columns of C"),
    word("mb", "rows of a block, a multiple of ub"),
    word("nb", "columns of a block, a multiple of a panel's"),
    word("ub", "rows of a unit, which are what is dealt out"),
)

__all__ = ["INNER_PRODUCT"]
