"""Which results of a kernel call may be written over one of its operands: both are addressed alike.

That saves fetching the memory of the result before it is written, as processors do with lines that they do not hold: a
third of what a sum with a residual reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.backends.base.kernel import Arguments
from MNN.backends.cpu.codegen.tables import batch_record
from MNN.backends.cpu.codegen.traffic import number, table
from MNN.backends.cpu.lang.nest import Operand
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

Pairs = tuple[tuple[str, str], ...]
"""Slots of a result and of an operand that may be the same memory."""


def same_table(args: Arguments, one: str, other: str, count: int) -> bool:
    """Whether two i32 tables begin with the same ``count`` entries."""
    first, second = args[one], args[other]
    assert isinstance(first, np.ndarray), "a table is a constant"
    assert isinstance(second, np.ndarray), "a table is a constant"
    if first.__array_interface__["data"] == second.__array_interface__["data"]:
        return True
    return _entries(first, count) == _entries(second, count)


def _entries(table: np.ndarray, count: int) -> bytes:
    return table.reshape(-1).view(np.uint8)[: 4 * count].tobytes()


def fits(operand: DType, result: DType) -> bool:
    """Whether a vector of results takes no more than what its operands' vector has given free: ``BF16X2`` puts the
    parts of a vector in two places."""
    return operand is result or (operand.size == result.size and DType.BF16X2 not in (operand, result))


def of_product(
    kinds: Sequence[str], body: Body | None, out: DType, args: Arguments, results: int, n_batch: int = 0
) -> Pairs:
    """Of a product with ``results`` rows in its table ``rows_c``, and ``n_batch`` records in ``batch`` unless 0:
    operands with rows and columns of the result's size, found by equal tables."""
    if body is None or "mn" not in kinds:
        return ()
    record = batch_record(len(kinds))
    entries = table(args, "batch", n_batch * record.count, np.int64) if n_batch else np.zeros(0)
    batch = dict(zip(record, entries.reshape(-1, record.count).T, strict=True))
    return tuple(
        ("c", f"op{i}")
        for i, kind in enumerate(kinds)
        if kind == "mn"
        and fits(body.args[1 + i], out)
        and np.array_equal(batch["c"], batch[f"op{i}"])
        and same_table(args, "rows_c", f"rows{i}", results)
    )


def of_nest(ins: Sequence[Operand], outs: Sequence[Operand], args: Arguments, dims: int) -> Pairs:
    """Of a loop nest with ``dims`` outer dimensions: operands of the result's size with the same strides."""

    def strides(o: Operand) -> list[int]:
        return [number(args, slot) for slot in o.slots(dims, dims)[1:]]

    return tuple(
        (y.name, x.name)
        for y in outs
        for x in ins
        if x.inner == y.inner != "0" and fits(x.dtype, y.dtype) and strides(x) == strides(y)
    )
