"""Products of bytes whose results are finished beside the products of the next tile.

Behind a tile's sums come conversions, bounds and packing. Processors with units for these beside those that multiply
(:attr:`MNN.backends.cpu.targets.base.Target.separate_adders`) could do both at once, but see only some hundred
instructions ahead: in the order of a tile's work, units wait in turns. So sums go to scratch memory, and while the next
tile's are computed, a row of them is finished after every part of the steps. Measured on Zen 4, where sums of four
products leave these units idle: 64 steps deep, with a residual connection, 372 -> 440 GOP/s.
"""

from __future__ import annotations

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code import Contract
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.module import I8, I64, Value
from MNN.backends.cpu.products.epilogue import Epilogue
from MNN.backends.cpu.targets.base import Target


@generates(ContractSpec, beside=True)
def emit_beside(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    return ContractBeside(spec, target).emit()


class ContractBeside(Contract):
    """One tap, whole groups and whole panels."""

    def _columns(self, n0: Value, n1: Value, right: Value, m0: Value) -> None:
        b, spec = self.b, self.spec
        height = spec.mr
        with b.loop(n0, n1, self.nr) as column:
            self.column, self.columns = column.index, n1 - column.index
            self.begin_panel(spec.nv)
            panel, step = self._panel(right, m0)
            ahead, share = self._next_panel(panel, m0)
            with b.loop(m0, self.m1, height, carry=ahead) as row:
                before = row.index - height
                sums = self._sums_beside(row.index, [*row.carried, panel], step, before, b.icmp("sgt", row.index, m0))
                for i, value in enumerate(sums):
                    b.store(value, b.gep(self.k.scratch, self.acc, i))
                row.next(*(b.gep(far, I8, share) for far in row.carried))
            tiles = b.udiv(self.m1 - m0 + (height - 1), b.const(I64, height))
            last = m0 + (tiles - 1) * height
            b.if_(b.icmp("sgt", self.m1, m0), lambda: self.finish(last, (), height))

    def _sums_beside(
        self, row: Value, right: list[Value], step: Value | int, before: Value, some: Value
    ) -> list[Value]:
        """The tile's sums; after every part of their steps a row of the tile ``before`` is finished, if there is
        ``some``."""
        k, b, spec = self.k, self.b, self.spec
        *ahead, panel = right
        rows = self._row_starts(row)
        starts = [b.load(self.acc, b.gep(panel, self.acc, j)) for j in range(spec.nv)]
        if self.added is not None:
            starts = [b.add(x, y) for x, y in zip(starts, self.begun(spec.nv), strict=True)]
        carry = [*starts * spec.mr, *ahead, b.gep(panel, self.acc, spec.nv)]
        at = b.entry(k.pointer("taps"), b.const(I64, 0))
        past, group = at + k.slot("k"), b.const(I64, spec.mr * self.group)
        part = b.udiv(k.slot("k") + (spec.mr * self.group - 1), group) * self.group
        epilogue = Epilogue(b, self.sums_in, self.out, self.body)
        for r in range(spec.mr):
            end = b.intrinsic("smin", at + part, past)
            with b.loop(at, end, self.group, carry=carry) as loop:
                self._dots(loop, rows, 1, step, False)
            at, carry = end, loop.results

            def finish_row(r: int = r) -> tuple[()]:
                self.row_tables(before + r)
                places = [b.const(I64, j * self.lanes) for j in range(spec.nv)]
                values = [self.tile_load(b.const(I64, r), place, self.lanes) for place in places]
                self.store_vectors(epilogue, values, b.const(I64, 0))
                return ()

            b.if_(some, finish_row)
        return carry[: spec.mr * spec.nv]
