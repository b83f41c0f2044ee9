"""What is fused behind a contraction: maps of its sums, and how kernels walk their operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from MNN.backends.base.program import Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.products.operand_access import OperandAccess
from MNN.backends.cpu.products.packed_bytes import fits, packs_bytes
from MNN.compiler import strides as st
from MNN.compiler.bodies import WIDE, fused_body, is_literal
from MNN.compiler.fuse import Group
from MNN.ir.intervals import Interval
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body

Table = Callable[[st.Ints], np.ndarray]
"""Offsets of rows or batches of a tensor with these strides over the result's shape."""


@dataclass(frozen=True)
class Epilogue:
    """What becomes of a finished sum before it is stored."""

    body: Body | None = None
    """Takes the sum and the operands; None where the sum is stored as it is."""
    operands: Sequence[tuple[str, OperandAccess]] = ()
    """With what they vary along: ``m`` rows, ``n`` columns, ``mn`` both, ``1`` neither."""

    fits: bool = False
    """Whether i32 has all numbers that the body bounds before it rounds them to 8 bits
    (:func:`MNN.backends.cpu.products.packed_bytes.fits`)."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple([kind for kind, _ in self.operands])

    @property
    def sides(self) -> list[OperandAccess]:
        return [operand for _, operand in self.operands]

    def args(self, e: Emitter) -> dict[str, int | Ref]:
        """The arguments of the operands; see :func:`MNN.backends.cpu.products.epilogue.operand_slots`."""
        args: dict[str, int | Ref] = {}
        for i, (kind, operand) in enumerate(self.operands):
            args[f"op{i}"] = e.ref(operand.place, operand.dtype)
            if kind in ("m", "mn"):
                args[f"rows{i}"] = e.offsets(operand.table)
        return args

    def moved(self, change: Callable[[OperandAccess], OperandAccess]) -> Epilogue:
        """The same with other operands."""
        return replace(self, operands=[(kind, change(operand)) for kind, operand in self.operands])


def epilogue_of(
    e: Emitter, group: Group, accumulated: Tensor, out: Tensor, axis: int, row_table: Table, batch_table: Table
) -> Epilogue:
    """The maps behind the contraction that gives ``accumulated``.

    ``axis`` is the column dimension; the tables give offsets of rows and batches from strides over the result.
    """
    if group.anchor is None:
        return Epilogue()
    operands = [t for t in group.inputs() if t is not accumulated and not is_literal(t)]
    wide = WIDE.get(accumulated.dtype, accumulated.dtype)
    body = fused_body(group.prims, [accumulated, *operands], [out], {accumulated: wide})
    found: list[tuple[str, OperandAccess]] = []
    for tensor in operands:
        place = e.place(tensor)
        strides = st.broadcast_strides(tensor.shape, place.strides, out.shape)
        if strides[axis] not in (0, 1) and out.shape[axis] > 1:
            order = (
                *(a for a in range(tensor.rank) if a != tensor.rank - (out.rank - axis)),
                tensor.rank - (out.rank - axis),
            )
            place = e.in_order(tensor, order, lambda pl: False)
            strides = st.broadcast_strides(tensor.shape, place.strides, out.shape)
        along = strides[axis] != 0 and out.shape[axis] > 1
        others = any(s and n > 1 for a, (s, n) in enumerate(zip(strides, out.shape, strict=True)) if a != axis)
        kind = ("mn" if others else "n") if along else ("m" if others else "1")
        rows = row_table(strides) if others else None
        found.append((kind, OperandAccess(place, tensor.dtype, rows, batch_table(strides), strides)))
    return Epilogue(body, found, packs_bytes(e.target) and fits(body, _ranges(operands)))


def _ranges(operands: Sequence[Tensor]) -> dict[int, Interval]:
    """Between which numbers the arguments behind the sum lie, as far as they are constant."""
    known = {i: t.const for i, t in enumerate(operands, 1) if t.const is not None and t.const.size}
    ends = {i: (float(array.min()), float(array.max())) for i, array in known.items()}
    return {i: (low, high) for i, (low, high) in ends.items() if math.isfinite(low) and math.isfinite(high)}
