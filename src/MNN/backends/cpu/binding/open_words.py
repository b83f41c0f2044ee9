"""Open sizes of a bound program: all that follows from them, written when they change."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.offset_table import OffsetTable
from MNN.backends.base.open_words import GRAIN
from MNN.backends.base.program import Buffer, Program, Ref
from MNN.backends.cpu.native_loop.native import NativeProgram
from MNN.ir.symbolic import compiled

_Formulas = Callable[..., tuple[int, ...]]


class OpenProgramSizes:
    """Arguments and numbers of blocks of a native program, tables of offsets, and inputs that follow from sizes."""

    def __init__(
        self,
        program: Program,
        native: NativeProgram,
        address: Callable[[Ref], int],
        tables: Sequence[tuple[NDArray[np.int32], OffsetTable]],
    ) -> None:
        """``address`` says where an address lies; ``tables``: memory of tables, with what they hold."""
        sizes = program.open_sizes
        assert sizes is not None
        self._native = native
        self._sizes: tuple[int, ...] = ()
        own = program.inputs[len(sizes.inputs) :]
        texts = list(dict.fromkeys([w.size for w in sizes.words]))
        numbers = {size: i for i, size in enumerate(texts)}
        self._formulas = compiled([*texts, *itertools.chain.from_iterable(sizes.numbers)], sizes.names)
        count = len(texts) + sum(map(len, sizes.numbers))
        self._values, self._pack = np.zeros(count, np.int64), struct.Struct(f"{count}q").pack_into
        self._buffer = self._values.data
        places: list[int] = []
        bases: list[int] = []
        self._in: list[tuple[int, Buffer]] = []
        """Which of the words are addresses in lent memory."""
        grains = [c.grain for c in program.commands]  # others where memory is poisoned: commands are of one piece
        words = [w for w in sizes.words if w.slot != GRAIN or native.grain(w.command) == grains[w.command]]
        for word in words:
            args = program.commands[word.command].args
            value = args.get(word.slot)
            if value is None:
                places.append(native.position_of_blocks(word.command) + (word.slot == GRAIN))
            else:
                places.append(native.position(word.command, list(args).index(word.slot)))
            if isinstance(value, Ref) and value.buffer.lent:
                self._in.append((len(bases), value.buffer))
            bases.append(address(Ref(value.buffer, 0)) if isinstance(value, Ref) else 0)
        self._places, self._bases = np.array(places, np.intp), np.array(bases, np.int64)
        self._which = np.array([numbers[w.size] for w in words], np.intp)
        self._tables = [(memory, table.at(sizes.names)) for memory, table in tables]
        self.numbers = [np.zeros(t.shape, t.dtype.numpy) for t in own]
        """The inputs behind the caller's."""
        ends = list(itertools.accumulate([array.size for array in self.numbers], initial=len(texts)))
        self._own = [(a.reshape(-1), slice(*ends[i : i + 2])) for i, a in enumerate(self.numbers)]

    def expect(self, numbers: Mapping[Buffer, int]) -> None:
        """Says which buffers will be lent, in which order :meth:`move` gives their addresses."""
        pairs = np.array([(at, numbers[buffer]) for at, buffer in self._in], np.intp).reshape(-1, 2)
        self._moving, self._moved_to = pairs.T

    def move(self, addresses: NDArray[np.int64]) -> None:
        """Says where lent memory lies."""
        self._bases[self._moving] = addresses[self._moved_to]
        sizes, self._sizes = self._sizes, ()
        if sizes:
            self.write(sizes)

    def write(self, sizes: tuple[int, ...]) -> bool:
        """From the next run on, open sizes are these; False where they were these before."""
        if sizes == self._sizes:
            return False
        self._sizes = ()
        values = self._values
        self._pack(self._buffer, 0, *self._formulas(*sizes))
        self._native.rewrite(self._places, self._bases + values[self._which])
        for memory, table in self._tables:
            found = table(*sizes)
            memory[: found.size] = found
        for array, part in self._own:
            array[:] = values[part]
        self._sizes = sizes
        return True


__all__ = ["OpenProgramSizes"]
