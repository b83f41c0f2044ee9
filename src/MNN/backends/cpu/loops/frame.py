"""Filling a frame with one number: the border that padding puts around rows and columns of something already there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.lang.element import Tail, make_tail, store
from MNN.backends.cpu.lang.module import I64, Kernel, Value, int_type
from MNN.backends.cpu.lang.nest import Operand, for_rows, minimum
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_DTYPES = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}
_UNROLL = 4
"""Vectors per turn of the loop along a whole row."""


@dataclass(frozen=True)
class FrameSpec(KernelSpec):
    """``out[b.., i, j] = value`` for elements of ``size`` 1, 2, 4 or 8 bytes where row ``i`` is one of the first
    ``low`` or the last ``high``, or column ``j`` one of the first ``left`` or the last ``right``. With ``apart``,
    columns are runs of several elements with other things between them.

    Slots: ``batch0..``, ``rows``, ``cols``, ``low``, ``high``, ``left``, ``right``, ``band`` (rows per block),
    ``value`` (its bits); ``out``, its batch strides ``out_s{d}`` and ``out_row`` (stride of i; that of j is 1); with
    ``apart``, ``run`` (elements of a column) and ``out_col`` (stride of j). Block index = batch linear index *
    ceil(rows / band) + band number. ``low + high <= rows``, ``left + right <= cols``.
    """

    shaped: ClassVar[bool] = True

    size: int
    batch: int
    apart: bool = False

    def __post_init__(self) -> None:
        if self.size not in _DTYPES:
            raise ValueError(f"cannot fill elements of {self.size} bytes")

    def _out(self) -> Operand:
        return Operand("out", _DTYPES[self.size], "1")

    def slots(self) -> tuple[str, ...]:
        extents = [f"batch{d}" for d in range(self.batch)] + ["rows", "cols", "low", "high", "left", "right", "band"]
        steps = ["out_row", "run", "out_col"] if self.apart else ["out_row"]
        return (*extents, "value", *self._out().slots(self.batch, None), *steps)

    def traffic(self, args: Arguments) -> dict[str, int]:
        rows, cols, low, high, left, right = (
            number(args, slot) for slot in ("rows", "cols", "low", "high", "left", "right")
        )
        each = (low + high) * cols + (rows - low - high) * (left + right)
        each *= number(args, "run") if self.apart else 1
        return {"out": math.prod(number(args, f"batch{d}") for d in range(self.batch)) * each * self.size}

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, dtype, element = k.b, _DTYPES[self.size], int_type(self.size * 8)
        lanes = max(1, target.vector_bytes // self.size)
        rows, cols, low, high = (k.slot(name) for name in ("rows", "cols", "low", "high"))
        left, right, band, step = (k.slot(name) for name in ("left", "right", "band", "out_row"))
        bits = k.slot("value")
        value = bits if element.size == I64.size else b.convert("trunc", bits, element)
        vector = b.splat(value, lanes) if lanes > 1 else value

        def put(at: Value, index: Value, tail: Tail | None = None) -> None:
            store(b, dtype, vector, b.gep(at, element, index), None, tail)

        def fill_run(at: Value, count: Value) -> None:
            whole, wide = b.and_(count, -lanes), b.and_(count, -lanes * _UNROLL)
            with b.loop(0, wide, lanes * _UNROLL) as main:
                for part in range(_UNROLL):
                    put(at, main.index + part * lanes)
            with b.loop(wide, whole, lanes) as rest:
                put(at, rest.index)
            if lanes > 1:
                over = count - whole
                b.if_(b.icmp("sgt", over, 0), lambda: put(at, whole, make_tail(b, over, lanes)))

        def fill(at: Value, count: Value) -> None:
            if not self.apart:
                fill_run(at, count)
                return
            with b.loop(0, count, carry=[at]) as column:
                fill_run(column.carried[0], k.slot("run"))
                column.next(b.gep(column.carried[0], element, k.slot("out_col")))

        def block(pointers: list[Value], chunk: Value | None) -> None:
            assert chunk is not None
            first = chunk * band
            last = minimum(k, rows, first + band)
            with b.loop(first, last) as row:
                at = b.gep(pointers[0], element, row.index * step)
                whole = b.or_(b.icmp("slt", row.index, low), b.icmp("sge", row.index, rows - high))
                fill(at, b.select(whole, cols, left))
                past = b.select(whole, 0, right)
                first_past = cols - past
                fill(b.gep(at, element, first_past * k.slot("out_col") if self.apart else first_past), past)

        for_rows(k, [k.slot(f"batch{d}") for d in range(self.batch)], (rows + (band - 1)) // band, [self._out()], block)
        return k.finish()
