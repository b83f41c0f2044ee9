"""How contraction kernels walk an operand, and where kernels with channels innermost write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.compiler.layout import channels_last
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor


@dataclass
class OperandAccess:
    """How one operand is walked: offsets of the rows, and its step from batch to batch. ``strides``: those of an
    epilogue's operand along the dimensions of the result."""

    place: Place
    dtype: DType
    rows: np.ndarray | None
    batch: np.ndarray
    strides: tuple[int, ...] = ()

    @property
    def table(self) -> np.ndarray:
        """The rows of an operand that has rows."""
        assert self.rows is not None
        return self.rows


def batch_starts(e: Emitter, columns: Sequence[np.ndarray], n_batch: int) -> Ref:
    """The records :func:`~MNN.backends.cpu.codegen.tables.batch_record` of a batch; ``columns``: their words."""
    if n_batch == 1:
        row = tuple([int(column[0]) for column in columns])
        return Ref(e.pool.named_table(("batch", row), lambda: np.array(row, np.int64)), 0)
    return e.table(np.stack([np.broadcast_to(column, (n_batch,)) for column in columns], axis=1).astype(np.int64))


def channel_result(e: Emitter, out: Tensor) -> Place:
    """Where a kernel writes whose channels are innermost: the tensor's own place, or one to copy from."""
    place = e.output(out)
    if place.strides[1] == 1 or out.shape[1] == 1:
        return place
    return e.allocate(out.dtype, out.shape, channels_last(out.rank))


def store_back(e: Emitter, out: Tensor, result: Place) -> bool:
    """Copies a result that was written elsewhere to the tensor's own place; True, as emission is done."""
    place = e.output(out)
    if place is not result:
        e.copy(result, place, out.shape, out.dtype)
    return True
