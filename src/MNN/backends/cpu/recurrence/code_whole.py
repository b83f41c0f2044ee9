"""Recurrent layers of integers: the state is whole numbers, and is multiplied as the bytes that these fit in.

As :mod:`MNN.backends.cpu.recurrence.code_quantized` has it, but for what is in front of numbers: nothing of a
sequence's state is used, and a tile of weights begins with what is taken off the sums.
"""

from __future__ import annotations

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import load, make_tail, store
from MNN.backends.cpu.lang.module import F32, I8, I32, Value
from MNN.backends.cpu.recurrence.code_quantized import Quantized, with_sizes
from MNN.backends.cpu.recurrence.spec import QUANTIZED_HEAD, RecurrenceSpec
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType


@generates(RecurrenceSpec, quantized=True, dtype=DType.I32)
def emit_whole(spec: RecurrenceSpec, target: Target) -> str:
    """The module's text."""
    return _Whole(spec, target).emit()


class _Whole(Quantized):
    """States and sums of i32."""

    def __init__(self, spec: RecurrenceSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.code.tables = [self.k.pointer(f"table{i}") for i in range(spec.tables)]
        if spec.weights is DType.F32:
            self.total = F32.vec(self.lanes)

    def prepare(self) -> None:
        """The states of all sequences of this worker, as the current step multiplies them."""
        b, lanes, hidden = self.b, self.lanes, self.k.slot("hidden")
        whole = b.and_(hidden, -lanes)
        with b.loop(self.row0, self.row1) as row:
            source = self.factor(self.now, row.index)
            to = b.gep(self.place(row.index), I8, QUANTIZED_HEAD)

            def put(at: Value, cut: bool, source: Value = source, to: Value = to) -> None:
                tail = make_tail(b, hidden - at, lanes) if cut else None
                number = load(b, DType.I32, b.gep(source, I32, at), lanes, None, tail)
                if self.spec.signs:
                    # Past the last one there is room, and zeros are multiplied by what stands there.
                    b.store(with_sizes(b, number), b.gep(to, I8, 2 * at), align=1)
                elif self.spec.weights is DType.I8:
                    byte = b.convert("trunc", b.xor(number, 128), I8.vec(lanes))
                    store(b, DType.U8, byte, b.gep(to, I8, at), None, tail)
                else:
                    store(b, DType.F32, b.convert("sitofp", number, F32.vec(lanes)), b.gep(to, F32, at), None, tail)

            with b.loop(0, whole, lanes) as each:
                put(each.index, False)
            b.if_(b.icmp("sgt", hidden, whole), lambda put=put: put(whole, True))  # type: ignore[misc]

    def meant(self, row: Value, weights: Value, place: Value, gates: int, total: Value) -> Value:
        del row, gates
        b = self.b
        off = b.load(self.vector, b.gep(weights, self.vector, place), align=1)
        return b.sub(b.convert("fptosi", total, self.vector) if self.spec.weights is DType.F32 else total, off)
