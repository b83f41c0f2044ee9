"""Products of bytes whose last vector of columns two rows share: :mod:`MNN.backends.cpu.gemm.row_pairs`.

A tile's sums are in pairs of rows: whole vectors of the first row, of the second, and the vector that they share, whose
lower half is the first row's.
"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code_beside import ContractBeside, rows_at_once
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.module import I32, I64, Loop, Value
from MNN.backends.cpu.products import dot8
from MNN.backends.cpu.products.epilogue import ALONG_COLUMNS, Epilogue
from MNN.backends.cpu.products.packed_bytes import pack_bytes
from MNN.backends.cpu.targets.base import Target

_PACKED_AT_ONCE = (4, 2, 1)


@generates(ContractSpec, rows_in_pairs=True)
def emit_pairs(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    return ContractPairs(spec, target).emit()


class ContractPairs(ContractBeside):
    """Runs of A in whole groups, and an even number of rows."""

    def __init__(self, spec: ContractSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.half = self.lanes // 2
        self.whole = spec.nv - 1
        self.of_pair = 2 * self.whole + 1
        self.pitch = spec.nv * self.lanes

    def _joined_rows(self, low: Value, high: Value) -> Value:
        """The lower half of a vector and the upper one of another."""
        return self.b.shuffle(low, high, [*range(self.half), *range(self.lanes + self.half, 2 * self.lanes)])

    def _twice(self, half: Value) -> Value:
        return self.b.shuffle(half, None, [*range(self.half)] * 2)

    def _part(self, value: Value, high: int) -> Value:
        """The lower or the upper half."""
        return self.b.shuffle(value, None, [high * self.half + i for i in range(self.half)])

    def begin_panel(self, vectors: int) -> None:
        super().begin_panel(vectors)
        if self.added is not None:
            last = self.b.gep(self.beginnings, self.acc, vectors - 1)
            both = self._twice(self._part(self.b.load(self.acc, last, check=False), 0))
            self.b.store(both, last, check=False)

    def _right_side(self, panel: Value) -> list[Value]:
        """The vectors of a row of a panel, the last one's half twice."""
        b, wide = self.b, I32.vec(self.lanes)
        found = [b.load(wide, b.gep(panel, wide, j), align=1) for j in range(self.whole)]
        return [*found, self._twice(b.load(I32.vec(self.half), b.gep(panel, wide, self.whole), align=1))]

    def starts(self, panel: Value) -> tuple[list[Value], Value]:
        found = self._right_side(panel)
        if self.added is not None:
            found = [self.b.add(x, y) for x, y in zip(found, self.begun(self.spec.nv), strict=True)]
        pair = [*found[: self.whole] * 2, found[-1]]
        return pair * (self.spec.mr // 2), self.b.gep(panel, I32, self.nr)

    def _dots(self, loop: Loop, rows: Sequence[Value], count: int, step: Value | int, rest: bool) -> None:
        b = self.b
        *sums, panel = loop.carried
        ahead = self._ask(sums)
        at = [b.gep(r, self.a_type, loop.index) for r in rows]
        for u in range(count):
            self._step_of_pairs(sums, at, u, panel)
            panel = b.gep(panel, self.b_type, step)
        loop.next(*sums, *ahead, panel)

    def _step_of_pairs(self, sums: list[Value], at: Sequence[Value], u: int, panel: Value) -> None:
        """One more group of A at ``at``, of an even number of rows, to their ``sums``."""
        b, a = self.b, self.spec.a
        rights = [dot8.prepare_b(b, self.target, y) for y in self._right_side(panel)]
        for pair in range(len(at) // 2):
            two = []
            for i in range(2):
                left = self._left(b.gep(at[2 * pair + i], self.a_type, u * self.group), None)
                two += dot8.prepare_a(b, self.target, a, left)
            lefts = [two[0]] * self.whole + [two[1]] * self.whole + [self._joined_rows(*two)]
            for j, left in enumerate(lefts):
                i = pair * self.of_pair + j
                right = rights[-1] if j == 2 * self.whole else rights[j % self.whole]
                sums[i] = dot8.dot(b, self.target, a, sums[i], [left], right)

    def _finish_in_parts(
        self, row: Value, at: Sequence[Value], sums: Sequence[Value], panel: Value, step: Value | int
    ) -> None:
        b, spec, each = self.b, self.spec, self.of_pair
        epilogue = Epilogue(b, self.sums_in, self.out, self.body)
        waiting: list[tuple[int, list[Value]]] = []

        def finish_next() -> None:
            pair, found = waiting.pop(0)
            self._finish_pair(epilogue, row + 2 * pair, found)

        for part in rows_at_once(spec.mr // 2, each):
            found = list(sums[part.start * each : part.stop * each])
            group, finished = panel, len(waiting)
            for u in range(spec.beside):
                self._step_of_pairs(found, at[2 * part.start : 2 * part.stop], u, group)
                group = b.gep(group, self.b_type, step)
                while len(waiting) * spec.beside > finished * (spec.beside - u - 1):
                    finish_next()
            while waiting:
                finish_next()
            waiting = [(p, found[i * each : (i + 1) * each]) for i, p in enumerate(part)]
        while waiting:
            finish_next()

    def _finish_pair(self, epilogue: Epilogue, row: Value, sums: Sequence[Value]) -> None:
        """Results of the rows ``row`` and the next one."""
        b, whole, at = self.b, self.whole, self.whole * self.lanes
        ends, operands = [], []
        for i in range(2):
            self.row_tables(row + i)
            if whole:
                self.store_vectors(epilogue, sums[i * whole : (i + 1) * whole], b.const(I64, 0))
            ends.append(b.gep(self.c_row, self.out_type, at))
            operands.append(self.op_rows)
        args = []
        for i, (kind, dtype) in enumerate(zip(self.kinds, self.op_dtypes, strict=True)):
            if i == self.added:
                args.append(b.splat(b.const(self.acc.element, -0.0 if dtype.is_float else 0), self.lanes))
                continue
            place = b.const(I64, at) if kind in ALONG_COLUMNS else None
            of_rows = operands if kind in ("m", "mn") else operands[:1]
            found = [epilogue.load(pointers[i], dtype, place, self.half, None) for pointers in of_rows]
            args.append(b.shuffle(found[0], found[-1], [*range(2 * self.half)]))
        if self.end is not None:
            before = epilogue.before(self.end.value, sums[-1], args, self.lanes)
            bytes_ = pack_bytes(b, [before], self.end)
            for i, end in enumerate(ends):
                b.store(self._part(bytes_, i), end, align=1)
            return
        result = epilogue.apply(sums[-1], args, self.lanes)
        for i, end in enumerate(ends):
            element.store(b, self.out, self._part(result, i), end)

    def _spill(self, sums: Sequence[Value]) -> None:
        b, scalar = self.b, self.acc.element
        for pair in range(self.spec.mr // 2):
            found = sums[pair * self.of_pair : (pair + 1) * self.of_pair]
            for i in range(2):
                line = (2 * pair + i) * self.pitch
                for j in range(self.whole):
                    b.store(found[i * self.whole + j], b.gep(self.k.scratch, scalar, line + j * self.lanes))
                low = b.gep(self.k.scratch, scalar, line + self.whole * self.lanes)
                b.store(self._twice(self._part(found[-1], i)), low)

    def tile_load(self, r: Value, c: Value, lanes: int) -> Value:
        scalar = self.acc.element
        return self.b.load(scalar.vec(lanes), self.b.gep(self.tile, scalar, r * self.pitch + c))
