"""Products of bytes whose rows end one part after the other, so that results are finished beside products.

Behind a tile's sums come conversions, bounds and packing. Processors with units for these beside those that multiply
(:attr:`MNN.backends.cpu.targets.base.Target.separate_adders`) could do both at once, but see only some hundred
instructions ahead: in the order of a tile's work, units wait in turns. So the last ``spec.beside`` steps of the sums
are taken by some rows at a time (:func:`rows_at_once`), whose results are finished while the next rows take theirs, and
those of the last rows while the next tile begins. No sum goes to memory on the way: stores of whole vectors are a
bottleneck of their own (Zen 4: 24 stores behind 96 sums of four products cost 34 cycles, spread among them nothing).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code import Contract
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.module import I8, I32, I64, Value
from MNN.backends.cpu.products import dot8
from MNN.backends.cpu.products.epilogue import Epilogue
from MNN.backends.cpu.targets.base import Target

_SUMS_AT_ONCE = 8
"""Sums whose last steps are taken together: fewer wait for each other and load B more often, more end all at once."""


@generates(ContractSpec, ends_in_parts=True)
def emit_beside(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    return ContractBeside(spec, target).emit()


def rows_at_once(rows: int, vectors: int) -> list[range]:
    """The rows of a tile in parts."""
    parts = max(1, rows // max(2, _SUMS_AT_ONCE // vectors))
    starts = [rows * i // parts for i in range(parts + 1)]
    return [range(low, past) for low, past in itertools.pairwise(starts)]


class ContractBeside(Contract):
    """Runs of A in whole groups, at least as many as parts of the rows take by themselves."""

    def __init__(self, spec: ContractSpec, target: Target) -> None:
        super().__init__(spec, target)
        if self.vector_a:  # groups are read one by one
            self.vector_a, self.unroll, self.parts = False, 1, 1

    def _columns(self, n0: Value, n1: Value, right: Value, m0: Value) -> None:
        b, spec = self.b, self.spec
        with b.loop(n0, n1, self.nr) as column:
            self.column, self.columns = column.index, n1 - column.index
            self.begin_panel(spec.nv)
            panel, step = self._panel(right, m0)
            ahead, share = self._next_panel(panel, m0)
            with b.loop(m0, self.m1, spec.mr, carry=ahead) as row:
                self._tile(row.index, [*row.carried, panel], step)
                row.next(*(b.gep(far, I8, share) for far in row.carried))

    def _tile(self, row: Value, right: list[Value], step: Value | int) -> None:
        """The sums of the rows from ``row`` on, and their results."""
        k, b, spec = self.k, self.b, self.spec
        *ahead, panel = right
        self.ask_operands(row, spec.mr)
        rows = self._row_starts(row)
        starts, panel = self.starts(panel)
        n_taps, kept = k.slot("n_taps"), spec.beside * self.group
        carry = [*starts, *ahead, panel]
        with b.loop(0, n_taps, carry=carry, guard=False) as tap:
            lo = b.entry(k.pointer("taps"), tap.index)
            less = b.select(b.icmp("eq", tap.index + 1, n_taps), b.const(I64, kept), b.const(I64, 0))
            tap.next(*self._steps_of_all(lo, lo + (k.slot("k") - less), rows, tap.carried, step))
        sums, panel = tap.results[: len(starts)], tap.results[-1]
        past = b.entry(k.pointer("taps"), n_taps - 1) + k.slot("k")

        def cut() -> tuple[()]:
            found = self._steps_of_all(past - kept, past, rows, [*sums, *ahead, panel], step)
            return self.finish_cut(row, found[: len(sums)], spec.mr)

        def whole() -> tuple[()]:
            at = [b.gep(r, self.a_type, past - kept) for r in rows]
            self._finish_in_parts(row, at, sums, panel, step)
            return ()

        b.if_else(self.is_whole(row, spec.mr), whole, cut, likely=True)

    def starts(self, panel: Value) -> tuple[list[Value], Value]:
        """What a tile's sums start from, and where the steps of the panel begin."""
        b, nv = self.b, self.spec.nv
        found = [b.load(self.acc, b.gep(panel, self.acc, j)) for j in range(nv)]
        if self.added is not None:
            found = [b.add(x, y) for x, y in zip(found, self.begun(nv), strict=True)]
        return found * self.spec.mr, b.gep(panel, self.acc, nv)

    def _steps_of_all(
        self, lo: Value, hi: Value, rows: Sequence[Value], carry: list[Value], step: Value | int
    ) -> list[Value]:
        """Whole groups of a run of A for all rows; what is carried behind them."""
        b, at = self.b, lo
        for count in (self.unroll, 1) if self.unroll > 1 else (1,):
            end = at + b.and_(hi - at, -count * self.group)
            with b.loop(at, end, count * self.group, carry=carry) as loop:
                self._dots(loop, rows, count, step, False)
            at, carry = end, loop.results
        return carry

    def _finish_in_parts(
        self, row: Value, at: Sequence[Value], sums: Sequence[Value], panel: Value, step: Value | int
    ) -> None:
        """The last steps and the results of a whole tile, some rows at a time; ``at``: the groups of A of each row."""
        b, spec, nv = self.b, self.spec, self.spec.nv
        epilogue = Epilogue(b, self.sums_in, self.out, self.body)
        waiting: list[tuple[int, list[Value]]] = []

        def finish_next() -> None:
            r, found = waiting.pop(0)
            self.row_tables(row + r)
            self.store_vectors(epilogue, found, b.const(I64, 0))

        for part in rows_at_once(spec.mr, nv):
            found = list(sums[part.start * nv : part.stop * nv])
            group, finished = panel, len(waiting)
            for u in range(spec.beside):
                right = [b.load(I32.vec(self.lanes), b.gep(group, self.acc, j), align=1) for j in range(nv)]
                rights = [dot8.prepare_b(b, self.target, y) for y in right]
                for i, r in enumerate(part):
                    left = self._left(b.gep(at[r], self.a_type, u * self.group), None)
                    lefts = dot8.prepare_a(b, self.target, spec.a, left)
                    for j in range(nv):
                        place = i * nv + j
                        found[place] = dot8.dot(b, self.target, spec.a, found[place], lefts, rights[j])
                group = b.gep(group, self.b_type, step)
                while len(waiting) * spec.beside > finished * (spec.beside - u - 1):
                    finish_next()
            waiting = [(r, found[i * nv : (i + 1) * nv]) for i, r in enumerate(part)]
        while waiting:
            finish_next()
