"""Memory that outlives a run: states of a bound program, whose addresses are written where they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from MNN.backends.base.arena import aligned_bytes
from MNN.backends.base.lent import LentBlocks
from MNN.backends.base.program import Located, Program, Ref
from MNN.backends.cpu.binding.open_words import OpenProgramSizes
from MNN.backends.cpu.native_loop.native import NativeProgram


class LentMemory:
    """The states' buffers of a program, in their order."""

    def __init__(self, program: Program, native: NativeProgram, sizes: OpenProgramSizes | None) -> None:
        self._states = [(i, program.inputs[i], o, program.outputs[o]) for i, o in program.states]
        self._buffers = [taken.place.buffer for _, taken, _, _ in self._states]
        self._native, self._sizes = native, sizes
        self._lent: LentBlocks | None = None
        numbers = {buffer: n for n, buffer in enumerate(self._buffers)}
        found: list[tuple[int, int, int]] = []
        for number, command in enumerate(program.commands):
            for index, value in enumerate(command.args.values()):
                if isinstance(value, Ref) and value.buffer in numbers:
                    found.append((native.position(number, index), numbers[value.buffer], value.offset))
        places, which, offsets = np.array(found, np.int64).reshape(-1, 3).T
        self._places, self._which, self._offsets = places.astype(np.intp), which.astype(np.intp), offsets.copy()
        if sizes is not None:
            sizes.expect(numbers)

    def lend(self, lent: LentBlocks) -> None:
        """From the next run on, the states lie in these blocks of memory."""
        if lent is self._lent:
            return
        self._lent = None
        self._native.rewrite(self._places, self._offsets + lent.addresses[self._which])
        if self._sizes is not None:
            self._sizes.move(lent.addresses)
        self._lent = lent

    def lend_some(self) -> None:
        """Lends memory of its own where nobody has lent any, for measurements."""
        if self._lent is None:
            self._lend_own()

    def fill(self, arrays: Sequence[np.ndarray]) -> None:
        """Lends memory of its own that holds the states as they are among the ``arrays`` of a program's inputs."""
        lent = self._lend_own()
        for block, (i, tensor, _, _) in zip(lent.blocks, self._states, strict=True):
            _view(tensor, arrays[i].shape, block)[...] = arrays[i]

    def read(self, shapes: Sequence[tuple[int, ...]]) -> Mapping[int, np.ndarray]:
        """What the states have become, by the numbers of the results that they are. ``shapes``: of all results."""
        assert self._lent is not None
        found = zip(self._lent.blocks, self._states, strict=True)
        return {o: _view(tensor, shapes[o], block).copy() for block, (_, _, o, tensor) in found}

    def _lend_own(self) -> LentBlocks:
        own = LentBlocks([aligned_bytes(b.nbytes, zero=True) for b in self._buffers])
        self.lend(own)
        return own


def _view(tensor: Located, shape: tuple[int, ...], block: np.ndarray) -> np.ndarray:
    """A state's numbers in its block of memory."""
    kind, place = tensor.dtype.numpy, tensor.place
    strides = tuple([s * kind.itemsize for s in place.strides])
    found: np.ndarray = np.ndarray(shape, kind, block, place.offset * kind.itemsize, strides)
    return found


__all__ = ["LentMemory"]
