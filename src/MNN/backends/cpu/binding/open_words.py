"""Open sizes of a bound program: all that follows from them, written when they change."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.offset_table import OffsetTable
from MNN.backends.base.open_words import GRAIN
from MNN.backends.base.program import Buffer, Program, Ref
from MNN.backends.cpu.binding.size_steps import SizeSteps
from MNN.backends.cpu.binding.sliced import SlicedProgram
from MNN.backends.cpu.native_loop.address import address_of
from MNN.backends.cpu.native_loop.functions import loop_functions
from MNN.backends.cpu.native_loop.layout import OPEN, OPENED, STEP
from MNN.backends.cpu.native_loop.native import NativeProgram

Written = Sequence[tuple[int, "int | str"]]
"""Words in memory, by address, and the sizes that they hold."""


class OpenProgramSizes:
    """Arguments and numbers of blocks of a native program, tables of offsets, and inputs that follow from sizes."""

    def __init__(
        self,
        program: Program,
        native: NativeProgram | SlicedProgram,
        address: Callable[[Ref], int],
        tables: Sequence[tuple[NDArray[np.int32], OffsetTable]],
        others: Written,
    ) -> None:
        """``address`` says where an address lies; ``tables``: memory of tables, with what they hold; ``others``: words
        that are none of the program's, which live as long."""
        sizes = program.open_sizes
        assert sizes is not None
        self._native = native
        self._sizes: tuple[int, ...] = ()
        own = program.inputs[len(sizes.inputs) :]
        steps = SizeSteps(sizes.names)
        rows: list[list[int]] = []

        def write(address: int, size: int | str, base: int = 0) -> None:
            rows.append(OPENED.row(word=address, value=steps.number_of(size), base=base))

        self._in: list[tuple[int, Buffer]] = []
        """Which of the words are addresses in lent memory."""
        grains = [c.grain for c in program.commands]
        for word in sizes.words:
            args = program.commands[word.command].args
            value = args.get(word.slot)
            if word.slot == GRAIN and native.grain(word.command) != grains[word.command]:
                continue  # memory is poisoned: commands are of one piece
            if value is None:
                place = native.position_of_blocks(word.command) + (word.slot == GRAIN)
            else:
                place = native.position(word.command, list(args).index(word.slot))
            if isinstance(value, Ref) and value.buffer.lent:
                self._in.append((len(rows), value.buffer))
            base = address(Ref(value.buffer, 0)) if isinstance(value, Ref) else 0
            write(native.address(place), word.size, base)
        for at, size in others:
            write(at, size)
        self._tables = [(memory, table.at(sizes.names)) for memory, table in tables]
        numbers = [np.zeros(len(formulas), np.int64) for formulas in sizes.numbers]
        for array, formulas in zip(numbers, sizes.numbers, strict=True):
            for i, size in enumerate(formulas):
                write(address_of(array) + array.itemsize * i, size)
        self.numbers = [
            n.reshape(t.shape) if t.dtype.numpy == n.dtype else np.zeros(t.shape, t.dtype.numpy)
            for n, t in zip(numbers, own, strict=True)
        ]
        """The inputs behind the caller's."""
        self._converted = [
            (array.reshape(-1), n) for array, n in zip(self.numbers, numbers, strict=True) if array.dtype != n.dtype
        ]
        self._rows = np.array(rows, np.int64).reshape(-1, OPENED.count)
        self._bases = self._rows[:, OPENED.index("base")]
        self._steps = np.array(steps.rows, np.int64).reshape(-1, STEP.count)
        self._values = np.zeros(steps.count, np.int64)
        self._put, self._memory = struct.Struct(f"{len(sizes.names)}q").pack_into, self._values.data
        self._record = np.array(
            OPEN.row(
                values=address_of(self._values),
                steps=address_of(self._steps),
                step_count=len(self._steps),
                first=len(sizes.names),
                written=address_of(self._rows),
                written_count=len(self._rows),
            ),
            np.int64,
        )
        self._write, self._address = loop_functions().open_words(), address_of(self._record)

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
        self._put(self._memory, 0, *sizes)
        self._write(self._address)
        self._native.changed()
        for memory, table in self._tables:
            found = table(*sizes)
            memory[: found.size] = found
        for array, numbers in self._converted:
            array[:] = numbers
        self._sizes = sizes
        return True


__all__ = ["OpenProgramSizes", "Written"]
