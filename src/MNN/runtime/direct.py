"""Inputs that kernels read where the caller has them, and outputs that they write where the caller gets them, without a
copy into or out of the arena.

A run returns when all is computed, so that whatever the caller does to the array afterwards comes too late to matter.
What is read or written in place: floating point numbers (indices are checked before they are used, which must not
change in between), in one block and aligned as numpy aligns them, that kernels take as a plain argument. Everything
else is copied: other strides or byte order, small inputs, what a chain (outside of slices) or a step in Python reads,
what is an input and an output, or what many commands use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.compiler.program import Buffer, Located, Program
from MNN.ir.dtype import DType
from MNN.runtime.address import address_of, pointer_to
from MNN.runtime.native import Lent

LEAST = 16 << 10
"""Bytes below which copying an input costs less than passing another address. Outputs need an array in any case, and
what copies into it has to come from memory behind a large model: 40 us for 4 kB."""
_MOST_PLACES = 64
"""Of all threads, where each has places of its own."""
_KINDS = (DType.F16, DType.F32, DType.F64)

Place = tuple[NDArray[np.int64], int, int]
"""The arguments of a command, which of them is an address in the input, and how many bytes from its start."""


class Direct:
    """An input or output whose address stands in known places among the arguments."""

    __slots__ = ("_cell", "_home", "_kind", "_places", "_shape", "_slot", "_word")

    def __init__(self, tensor: Located, home: int, places: Sequence[Place]) -> None:
        """``home``: the address of its memory in the arena, which the arguments hold between runs."""
        self._kind, self._shape, self._home = tensor.dtype.numpy, tensor.shape, home
        self._places = places
        self._word, self._cell = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._slot = self._word.data  # a view that is written to sooner

    def lend(self, array: np.ndarray) -> bool:
        """Has kernels use ``array``, which the caller keeps, in the next run; False when it must be copied."""
        kind, flags = array.dtype, array.flags
        same = (kind is self._kind or kind == self._kind) and array.shape == self._shape
        if same and flags.c_contiguous and flags.aligned:
            self._slot[0] = pointer_to(array, self._cell)
            return True
        self.give_back()
        return False

    def fresh(self) -> np.ndarray:
        """An array of its own for an output, which the caller keeps, and kernels write to in the next run."""
        array = np.empty(self._shape, self._kind)
        self._slot[0] = pointer_to(array, self._cell)
        return array

    def lent(self) -> list[Lent]:
        """The arguments that change, for the native program."""
        slot = address_of(self._word)
        return [Lent(address_of(a[i:]), slot, offset, self._home + offset) for a, i, offset in self._places]

    def give_back(self) -> None:
        """Has kernels use the arena in the next run, too."""
        self._slot[0] = 0


def direct_tensors(
    program: Program, places: Mapping[Buffer, Sequence[Place]], base: Callable[[Buffer], int]
) -> tuple[list[Direct | None], list[Direct | None]]:
    """For every input and for every output of a bound program how to use it in place, or None. ``places``: where the
    addresses of buffers stand, of those that may be anywhere."""
    both = (program.inputs, program.outputs)
    uses = Counter(t.place.buffer for part in both for t in part)

    def direct(tensor: Located, least: int) -> Direct | None:
        buffer = tensor.place.buffer
        found = places.get(buffer, ())
        if uses[buffer] > 1 or not 0 < len(found) <= _MOST_PLACES or not _fits(tensor, least):
            return None
        return Direct(tensor, base(buffer), found)

    return [direct(t, LEAST) for t in program.inputs], [direct(t, 1) for t in program.outputs]


def _fits(tensor: Located, least: int) -> bool:
    buffer = tensor.place.buffer
    dense = tuple(np.cumprod((1, *tensor.shape[:0:-1]))[::-1].tolist()) if tensor.shape else ()
    return (
        tensor.dtype in _KINDS
        and buffer.const is None
        and buffer.nbytes >= least
        and tensor.place.offset == 0
        and tensor.place.strides == dense
        and int(np.prod(tensor.shape)) * tensor.dtype.size == buffer.nbytes
    )


def plain_places(program: Program, arguments: Callable[[int], NDArray[np.int64]]) -> dict[Buffer, list[Place]]:
    """Where the addresses of inputs and outputs stand, of those which are plain arguments everywhere. ``arguments``
    gives those of a command."""
    found: dict[Buffer, list[Place]] = {t.place.buffer: [] for t in program.inputs if _fits(t, LEAST)}
    found |= {t.place.buffer: [] for t in program.outputs if _fits(t, 1)}
    for number, command in enumerate(program.commands if found else ()):
        used = found.keys() & command.buffers()
        if command.stages or command.host is not None:
            for buffer in used:
                del found[buffer]
        elif used:
            for index, value in enumerate(command.args.values()):
                if not isinstance(value, int) and value.buffer in used:
                    found[value.buffer].append((arguments(number), index, value.offset))
    return found


__all__ = ["LEAST", "Direct", "Place", "direct_tensors", "plain_places"]
