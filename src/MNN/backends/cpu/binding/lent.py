"""Memory that outlives a run: states of a bound program, whose addresses are written where they change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import aligned_bytes
from MNN.backends.base.program import Buffer, Program, Ref
from MNN.backends.cpu.binding.open_words import OpenProgramSizes
from MNN.backends.cpu.native_loop.address import address_of
from MNN.backends.cpu.native_loop.native import NativeProgram


class LentMemory:
    """The states' buffers of a program, in their order."""

    def __init__(self, program: Program, native: NativeProgram, sizes: OpenProgramSizes | None) -> None:
        self.buffers = [program.inputs[i].place.buffer for i, _ in program.states]
        self.inputs = {i for i, _ in program.states}
        self.outputs = {o for _, o in program.states}
        self._native, self._sizes = native, sizes
        self._blocks: list[NDArray[np.uint8]] = []
        self._addresses: list[int] = []
        found: dict[Buffer, list[tuple[int, int]]] = {b: [] for b in self.buffers}
        for number, command in enumerate(program.commands):
            for index, value in enumerate(command.args.values()):
                if isinstance(value, Ref) and value.buffer in found:
                    found[value.buffer].append((native.position(number, index), value.offset))
        self._places = [np.array([p for p, _ in found[b]], np.intp) for b in self.buffers]
        self._offsets = [np.array([o for _, o in found[b]], np.int64) for b in self.buffers]

    def lend(self, blocks: Sequence[NDArray[np.uint8]]) -> None:
        """From the next run on, the states lie in these blocks of memory."""
        addresses = [address_of(block) for block in blocks]
        if addresses == self._addresses:
            return
        self._addresses = []
        for places, offsets, address in zip(self._places, self._offsets, addresses, strict=True):
            self._native.place(places, offsets + address)
        if self._sizes is not None:
            self._sizes.move(dict(zip(self.buffers, addresses, strict=True)))
        self._blocks, self._addresses = list(blocks), addresses

    def lend_some(self) -> None:
        """Lends memory of its own where nobody has lent any, for measurements."""
        if not self._addresses:
            self.lend([aligned_bytes(b.nbytes, zero=True) for b in self.buffers])


__all__ = ["LentMemory"]
