"""Recurrent layers with quantised weights: every step's state becomes bytes, and is multiplied as such.

When a step begins, each sequence's state is quantised into the worker's own memory: :data:`QUANTIZED_HEAD` bytes with
its scale and zero point, then ``hidden`` numbers, u8 for weights of I8; for weights of F32 the numbers less the zero
point, as floats. Where products are by signs both are less 128, and behind every four numbers stands how large they
are.

A tile of weights begins with, for each vector and gate, the sums of each column (i32) and what its numbers stand for
(f32): two times ``[vector, gate, lane]``. Then follow the numbers, with groups of four along ``k`` in each lane of I8.
"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import load, make_tail, store
from MNN.backends.cpu.lang.module import F32, I1, I8, I32, Builder, Loop, Value
from MNN.backends.cpu.math import rounding
from MNN.backends.cpu.products import dot8
from MNN.backends.cpu.products.dot import load_group
from MNN.backends.cpu.recurrence.code import Recurrent
from MNN.backends.cpu.recurrence.spec import QUANTIZED_HEAD, RecurrenceSpec, quantized_size
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_LEVELS = 255.0


@generates(RecurrenceSpec, quantized=True)
def emit_quantized(spec: RecurrenceSpec, target: Target) -> str:
    """The module's text."""
    return Quantized(spec, target).emit()


class Quantized(Recurrent):
    """Other products in the same steps."""

    def __init__(self, spec: RecurrenceSpec, target: Target) -> None:
        super().__init__(spec, target)
        if spec.weights is DType.I8:
            self.total = I32.vec(self.lanes)

    def head(self) -> int:
        return 2 * self.width * self.spec.gates * 4 // self.spec.weights.size

    def row(self, phase: int, row: Value) -> Value:
        del phase  # there is one product
        return self.place(row)

    def place(self, row: Value) -> Value:
        """Where the quantised state of a sequence begins."""
        b, spec = self.b, self.spec
        bytes_ = self.k.slot("hidden") * quantized_size(spec.weights, spec.signs)
        pitch = b.and_(bytes_ + 63, -64) + QUANTIZED_HEAD
        start = (row - self.row0) * pitch + spec.sums_bytes(self.target)
        return b.gep(self.k.scratch, I8, start)

    def prepare(self) -> None:
        """The states of all sequences of this worker, as the current step multiplies them."""
        b, lanes, hidden = self.b, self.lanes, self.k.slot("hidden")
        whole = b.and_(hidden, -lanes)
        with b.loop(self.row0, self.row1) as row:
            source, to = self.factor(self.now, row.index), self.place(row.index)

            def part(at: Value, cut: bool, source: Value = source) -> Value:
                tail = make_tail(b, hidden - at, lanes) if cut else None
                return load(b, DType.F32, b.gep(source, F32, at), lanes, None, tail)

            def widened(found: list[Value], x: Value) -> list[Value]:
                low, high = found
                return [b.select(b.fcmp("olt", x, low), x, low), b.select(b.fcmp("ogt", x, high), x, high)]

            zero = b.const(F32.vec(lanes), 0.0)
            with b.loop(0, whole, lanes, carry=[zero, zero]) as each:
                each.next(*widened(each.carried, part(each.index, False)))
            found = b.if_else(
                b.icmp("sgt", hidden, whole),
                lambda found=each.results: widened(found, part(whole, True)),  # type: ignore[misc]
                lambda found=each.results: found,  # type: ignore[misc]
            )
            low, high = (_folded(b, v, p) for v, p in zip(found, ("olt", "ogt"), strict=True))
            scale = b.fdiv(b.sub(high, low), _LEVELS)
            scale = b.select(b.fcmp("oeq", scale, 0.0), b.const(F32, 1.0), scale)
            point = b.intrinsic("roundeven", b.fdiv(b.fneg(low), scale))
            b.store(scale, to)
            whole_point = b.convert("fptosi", point, I32)
            if self.spec.signs:
                whole_point = b.sub(whole_point, 128)
            b.store(whole_point, b.gep(to, I32, 1))
            numbers, wide = b.gep(to, I8, QUANTIZED_HEAD), b.splat(scale, lanes)
            least, most = b.splat(b.fneg(point), lanes), b.splat(b.sub(_LEVELS, point), lanes)
            shift = b.splat(whole_point, lanes)

            def put(at: Value, cut: bool) -> None:
                q = b.fdiv(part(at, cut), wide)
                q = b.select(b.fcmp("ogt", q, least), q, least)
                q = b.select(b.fcmp("olt", q, most), q, most)
                tail = make_tail(b, hidden - at, lanes) if cut else None
                if self.spec.signs:
                    number = b.add(rounding.to_nearest(b, q), shift)
                    # Past the last one there is room, and zeros are multiplied by what stands there.
                    b.store(with_sizes(b, number), b.gep(numbers, I8, 2 * at), align=1)
                elif self.spec.weights is DType.I8:
                    byte = b.convert("trunc", b.add(rounding.to_nearest(b, q), shift), I8.vec(lanes))
                    store(b, DType.U8, byte, b.gep(numbers, I8, at), None, tail)
                else:
                    store(b, DType.F32, b.intrinsic("roundeven", q), b.gep(numbers, F32, at), None, tail)

            with b.loop(0, whole, lanes) as again:
                put(again.index, False)
            b.if_(b.icmp("sgt", hidden, whole), lambda put=put: put(whole, True))  # type: ignore[misc]

    def lane_operands(self) -> bool:
        return False

    def products(self, loop: Loop, rows: Sequence[Value], count: int, parts: int, run: bool) -> None:
        del run
        b, lanes, columns = self.b, self.lanes, self.spec.columns
        sums, panel = list(loop.carried[:-1]), loop.carried[-1]
        dot4 = self.spec.weights is DType.I8
        numbers = [b.gep(row, I8, QUANTIZED_HEAD) for row in rows]
        for u in range(count):
            right = [
                b.load(self.total, b.gep(panel, self.total, u * columns + j), align=self.spec.weights.size)
                for j in range(columns)
            ]
            rights = [dot8.prepare_b(b, self.target, y) for y in right] if dot4 and not self.spec.signs else []
            for r, row in enumerate(numbers):
                place = b.gep(row, I32, (loop.index + u) * (1 + self.spec.signs))
                if self.spec.signs:
                    lefts = [
                        b.bitcast(load_group(b, at, lanes), I8.vec(4 * lanes)) for at in (place, b.gep(place, I32, 1))
                    ]
                elif dot4:
                    lefts = dot8.prepare_a(b, self.target, DType.U8, load_group(b, place, lanes))
                left = None if dot4 else b.splat(b.load(F32, place), lanes)
                for j in range(columns):
                    i = (u % parts * len(rows) + r) * columns + j
                    if self.spec.signs:
                        sums[i] = dot8.dot_by_signs(b, sums[i], lefts, right[j])
                    elif left is None:
                        sums[i] = dot8.dot(b, self.target, DType.U8, sums[i], lefts, rights[j])
                    else:
                        sums[i] = b.fma(left, right[j], sums[i])
        loop.next(*sums, b.gep(panel, self.total, count * columns))

    def meant(self, row: Value, weights: Value, place: Value, gates: int, total: Value) -> Value:
        b, lanes, state = self.b, self.lanes, self.place(row)
        scale = b.splat(b.load(F32, state), lanes)
        if self.spec.weights is DType.I8:
            moved = 0 if self.spec.signs else dot8.moved(self.target, DType.U8)
            point = b.splat(b.add(b.load(I32, b.gep(state, I32, 1)), moved), lanes)
            column = b.load(self.total, b.gep(weights, self.total, place), align=1)
            total = b.convert("sitofp", b.sub(total, b.mul(point, column)), self.vector)
        factor = b.load(self.vector, b.gep(weights, self.vector, place + self.spec.vectors * gates), align=1)
        return b.mul(total, b.mul(scale, factor))


def with_sizes(b: Builder, numbers: Value) -> Value:
    """Bytes of i32 numbers from -128 to 127, four of them and how large these are in turns."""
    lanes = numbers.type.lanes
    sizes = b.call(numbers.type, f"llvm.abs.{numbers.type.suffix}", numbers, b.const(I1, 0))
    parts = [b.convert("trunc", x, I8.vec(lanes)) for x in (numbers, sizes)]
    order = [i + part * lanes for at in range(0, lanes, 4) for part in (0, 1) for i in range(at, at + 4)]
    return b.shuffle(parts[0], parts[1], order)


def _folded(b: Builder, x: Value, predicate: str) -> Value:
    """The least or greatest lane."""
    lanes = x.type.lanes
    while lanes > 1:
        lanes //= 2
        low, high = b.shuffle(x, None, range(lanes)), b.shuffle(x, None, range(lanes, 2 * lanes))
        x = b.select(b.fcmp(predicate, high, low), high, low)
    return x


__all__ = ["Quantized", "with_sizes"]
