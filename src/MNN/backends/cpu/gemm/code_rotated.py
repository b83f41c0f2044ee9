"""Convolutions in small groups whose sums are rotated at the end: :mod:`MNN.backends.cpu.gemm.rotated_groups`."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code import Contract
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.module import Value
from MNN.backends.cpu.targets.base import Target


@generates(ContractSpec, in_lanes=True, rotated=True)
def emit_rotated(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    return ContractRotated(spec, target).emit()


class ContractRotated(Contract):
    """A panel of columns has its own channels of A, from which its taps begin."""

    def __init__(self, spec: ContractSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.prefetches = False
        self.groups = spec.panel_of_groups(target)
        self.across = self.groups.columns

    def _row_starts(self, row: Value) -> list[Value]:
        panel = self.b.udiv(self.column, self.across)
        return [self.b.gep(start, self.a_type, panel * self.groups.channels) for start in super()._row_starts(row)]

    def _sums(self, row: Value, right: Sequence[Value], step: Value | int) -> list[Value]:
        k, b, spec, groups = self.k, self.b, self.spec, self.groups
        self.ask_operands(row, spec.mr)
        rows, (panel,) = self._row_starts(row), right
        each = groups.rotations * spec.nv  # sums of a row: vectors of the first rotation, of the second, ...
        with b.loop(0, k.slot("n_taps"), carry=[*[b.const(self.acc, 0)] * (spec.mr * each), panel]) as tap:
            *sums, panel = tap.carried
            at = b.entry(k.pointer("taps"), tap.index)
            starts = [b.gep(start, self.a_type, at) for start in rows]
            whole = [groups.read(b, self.a_type, start) for start in starts]
            for s in range(groups.steps):

                def left(r: int, s: int = s) -> list[Value]:
                    return groups.left(b, self.a_type, starts[r], whole[r], s)

                places = [b.gep(panel, self.acc, s * each + i) for i in range(each)]
                if each <= spec.mr:  # what there is less of stays in registers
                    rights = [b.load(self.acc, place) for place in places]
                    for r in range(spec.mr):
                        one = left(r)
                        for i, y in enumerate(rights, r * each):
                            sums[i] = b.fma(one[i % spec.nv], y, sums[i])
                else:
                    lefts = [left(r) for r in range(spec.mr)]
                    for i, place in enumerate(places):
                        y = b.load(self.acc, place)
                        for r, one in enumerate(lefts):
                            sums[r * each + i] = b.fma(one[i % spec.nv], y, sums[r * each + i])
            tap.next(*sums, b.gep(panel, self.acc, groups.steps * each))
        found = tap.results
        ends = [(r * each + j, (r + 1) * each) for r in range(spec.mr) for j in range(spec.nv)]
        return [self._in_order(found[begin : end : spec.nv]) for begin, end in ends]

    def _in_order(self, sums: Sequence[Value]) -> Value:
        """The sum of a vector's rotations."""
        b = self.b
        parts = [sums[0], *(b.shuffle(s, None, self.groups.back(r)) for r, s in enumerate(sums) if r)]
        while len(parts) > 1:
            parts = [b.add(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
        return parts[0]
