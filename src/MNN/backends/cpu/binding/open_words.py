"""Open sizes of a bound program: all that follows from them, written when they change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.open_words import Shape
from MNN.backends.base.program import Buffer, Grid, Program, Ref
from MNN.backends.cpu.native_loop.native import NativeProgram
from MNN.compiler import strides as st
from MNN.ir.symbolic import compiled

_Formulas = Callable[..., tuple[int, ...]]


class OpenProgramSizes:
    """Arguments and numbers of blocks of a native program, tables of offsets, and inputs that follow from sizes."""

    def __init__(
        self,
        program: Program,
        native: NativeProgram,
        address: Callable[[Ref], int],
        tables: Sequence[tuple[NDArray[np.int32], Grid]],
    ) -> None:
        """``address`` says where an address lies; ``tables``: memory of tables of offsets, with their grids."""
        sizes = program.open_sizes
        assert sizes is not None
        self._native = native
        self._sizes: tuple[int, ...] = ()
        formulas = list(dict.fromkeys([w.size for w in sizes.words]))
        numbers = {size: i for i, size in enumerate(formulas)}
        self._formulas = compiled(formulas, sizes.names)
        arguments, blocks = ([w for w in sizes.words if bool(w.slot) is plain] for plain in (True, False))
        places: list[int] = []
        bases: list[int] = []
        self._in: dict[Buffer, list[int]] = {}
        """Which of the arguments are addresses in lent memory."""
        for word in arguments:
            args = program.commands[word.command].args
            places.append(native.position(word.command, list(args).index(word.slot)))
            value = args[word.slot]
            if isinstance(value, Ref) and value.buffer.lent:
                self._in.setdefault(value.buffer, []).append(len(bases))
            bases.append(address(Ref(value.buffer, 0)) if isinstance(value, Ref) else 0)
        self._places, self._bases = np.array(places, np.intp), np.array(bases, np.int64)
        self._of_arguments = np.array([numbers[w.size] for w in arguments], np.intp)
        self._commands = np.array([w.command for w in blocks], np.intp)
        self._of_blocks = np.array([numbers[w.size] for w in blocks], np.intp)
        self._tables = [(table, compiled([n for run in grid for n in run], sizes.names)) for table, grid in tables]
        own = program.inputs[len(sizes.inputs) :]
        self.numbers = [np.zeros(t.shape, t.dtype.numpy) for t in own]
        """The inputs behind the caller's."""
        self._own = compiled(list(itertools.chain.from_iterable(sizes.numbers)), sizes.names)
        inputs = (*sizes.inputs, *[tuple(t.shape) for t in own])
        self._shapes = [_shapes(part, sizes.names) for part in (inputs, sizes.outputs)]

    def move(self, addresses: Mapping[Buffer, int]) -> None:
        """Says where lent memory lies."""
        for buffer, address in addresses.items():
            self._bases[self._in.get(buffer, [])] = address
        sizes, self._sizes = self._sizes, ()
        if sizes:
            self.write(sizes)

    def write(self, sizes: tuple[int, ...]) -> bool:
        """From the next run on, open sizes are these; False where they were these before."""
        if sizes == self._sizes:
            return False
        self._sizes = ()
        values = np.array(self._formulas(*sizes), np.int64)
        self._native.rewrite(
            self._places, self._bases + values[self._of_arguments], self._commands, values[self._of_blocks]
        )
        for table, formulas in self._tables:
            runs = formulas(*sizes)
            found = st.offsets(tuple(zip(runs[::2], runs[1::2], strict=True)))
            table[: found.size] = found
        if self.numbers:
            numbers = iter(self._own(*sizes))
            for array in self.numbers:
                array.reshape(-1)[:] = list(itertools.islice(numbers, array.size))
        self._sizes = sizes
        return True

    def shapes(self) -> Iterator[list[tuple[int, ...]]]:
        """Those of inputs and of outputs."""
        for shapes in self._shapes:
            yield shapes(self._sizes)


def _shapes(shapes: Sequence[Shape], names: Sequence[str]) -> Callable[[tuple[int, ...]], list[tuple[int, ...]]]:
    different = list(dict.fromkeys(shapes))
    formulas = compiled(list(itertools.chain.from_iterable(different)), names)
    numbers = [different.index(shape) for shape in shapes]

    def at(sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
        found = iter(formulas(*sizes))
        made = [tuple(itertools.islice(found, len(shape))) for shape in different]
        return [made[number] for number in numbers]

    return at


__all__ = ["OpenProgramSizes"]
