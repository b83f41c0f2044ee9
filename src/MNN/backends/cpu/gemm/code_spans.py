"""Contractions whose tiles of rows take some of the taps alone: :mod:`MNN.backends.cpu.gemm.tap_spans`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code import Contract
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.module import Value
from MNN.backends.cpu.targets.base import Target


@generates(ContractSpec, spans=True)
def emit_spans(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    if spec.narrow:
        spec, target = dataclasses.replace(spec, narrow=False), target.narrowed()
    return ContractSpans(spec, target).emit()


class ContractSpans(Contract):
    """A tile begins with its first tap, and with that one's values of B."""

    def _sums(self, row: Value, right: Sequence[Value], step: Value | int) -> list[Value]:
        k, b = self.k, self.b
        *ahead, panel = right
        place = b.udiv(row, self.spec.mr) * 2
        self.first, self.past = (b.entry(k.pointer("spans"), place + i) for i in range(2))
        panel = b.gep(panel, self.b_type, self.first * k.slot("k") * step)
        return super()._sums(row, [*ahead, panel], step)

    def _taps(self) -> tuple[Value | int, Value]:
        return self.first, self.past
