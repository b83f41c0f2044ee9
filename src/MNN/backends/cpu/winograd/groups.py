"""Code of :class:`MNN.backends.cpu.winograd.spec.WinogradSpec` for groups of channels: where the one at hand begins.
Where there are none, nothing is emitted for it."""

from __future__ import annotations

from MNN.backends.cpu.lang.module import F32, Builder, Kernel, Type, Value
from MNN.backends.cpu.winograd.spec import WinogradSpec


class Groups:
    """What an emission has to know of groups."""

    spec: WinogradSpec
    k: Kernel
    b: Builder
    channels: Value
    """The group's first channel of the input."""
    columns: Value
    """And of the result."""
    weights: Value
    """Where its U begins."""

    def _within(self, block: Value, blocks: Value) -> Value:
        """The number of a block among the ``blocks`` of its group."""
        k, b = self.k, self.b
        self.weights = k.pointer("u")
        if not self.spec.grouped:
            return block
        group = b.udiv(block, blocks)
        self.channels, self.columns = group * k.slot("c"), group * k.slot("n")
        self.weights = b.gep(self.weights, F32, group * k.slot("u_group"))
        return block - group * blocks

    def _group_in(self, base: Value, type_: Type) -> Value:
        """Inputs from ``base`` on, of the group."""
        return self.b.gep(base, type_, self.channels) if self.spec.grouped else base

    def _group_out(self, base: Value, type_: Type) -> Value:
        """The same of results, and of operands that vary along channels."""
        return self.b.gep(base, type_, self.columns) if self.spec.grouped else base
