"""What tables hold that several families read."""

from __future__ import annotations

import functools

from MNN.backends.base.record import Record, word


@functools.cache
def batch_record(operands: int) -> Record:
    """Where one product of a batch begins, for an epilogue with so many operands. Offsets count elements; those of a B
    that is packed for a matrix unit count bytes."""
    return Record(
        "batch",
        word("a", "added to where A begins"),
        word("b", "to where B does"),
        word("c", "to where C does"),
        *(word(f"op{i}", f"and to where operand {i} of the epilogue does") for i in range(operands)),
    )


__all__ = ["batch_record"]
