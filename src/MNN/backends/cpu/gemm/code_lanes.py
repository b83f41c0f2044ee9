"""Convolutions in small groups, the groups side by side in lanes: :mod:`MNN.backends.cpu.products.lane_groups`."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code import Contract
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.module import I32, I64, Value
from MNN.backends.cpu.products import dot8
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.lane_groups import Lanes, load_lanes
from MNN.backends.cpu.targets.base import Target


@generates(ContractSpec, in_lanes=True)
def emit_lanes(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    return ContractLanes(spec, target).emit()


class ContractLanes(Contract):
    """A tap is a run of A with the channels of all groups of a tile."""

    def __init__(self, spec: ContractSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.prefetches = False
        ins, outs = spec.channels
        self.groups = Lanes(ins, outs, self.lanes // outs, spec.nv)

    def _sums(self, row: Value, right: Sequence[Value], step: Value | int) -> list[Value]:
        k, b, spec, wide = self.k, self.b, self.spec, I32.vec(self.lanes)
        rows, (panel,) = self._row_starts(row), right
        starts = self.begun(spec.nv)
        if self.group == DOT4:
            heads = [b.load(self.acc, b.gep(panel, self.acc, j)) for j in range(spec.nv)]
            starts = [b.add(x, y) for x, y in zip(heads, starts, strict=True)] if self.added is not None else heads
            panel = b.gep(panel, self.acc, spec.nv)
        groups = self.groups
        channels = groups.groups * groups.ins
        with b.loop(0, k.slot("n_taps"), carry=[*starts * spec.mr, panel]) as tap:
            *sums, panel = tap.carried
            at = b.entry(k.pointer("taps"), tap.index)
            words = -(-groups.ins // self.group)
            steps = [b.gep(panel, self.b_type, b.const(I64, 0) + u * step) for u in range(words)]
            for j in range(spec.nv):
                rights = [b.load(wide, b.gep(place, wide, j), align=spec.b.size) for place in steps]
                for r in range(spec.mr):
                    place = b.gep(rows[r], self.a_type, at + j * channels)
                    i = r * spec.nv + j
                    for left, y in zip(load_lanes(b, place, groups, self.lanes, spec.a.size), rights, strict=True):
                        if self.group == DOT4:
                            lefts = dot8.prepare_a(b, self.target, spec.a, left)
                            sums[i] = dot8.dot(b, self.target, spec.a, sums[i], lefts, [y])
                        else:
                            sums[i] = dot8.dot_int16(b, self.target, sums[i], left, y)
            tap.next(*sums, b.gep(panel, self.b_type, b.const(I64, 0) + words * step))
        return tap.results[: spec.mr * spec.nv]
