"""Inputs that kernels read where the caller has them, and outputs that they write where the caller gets them, without a
copy into or out of the arena; and what native code copies.

A run returns when all is computed, so that whatever the caller does to the array afterwards comes too late to matter.
What is read or written in place: floating point numbers (indices are checked before they are used, which must not
change in between), in one block and aligned as numpy aligns them, that kernels take as a plain argument. Other inputs
and outputs in one block are copied when the native run begins and ends: small inputs for the most, and outputs that a
step in Python gives, or that many commands use; and those with gaps between their rows,
as larger sizes of a range need them. In cold caches numpy takes 8 us to copy the smallest input, and 20 us for an
output. What is left to it are inputs with other strides or byte order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base import poison
from MNN.backends.base.open_words import Shape
from MNN.backends.base.program import Buffer, Located, Program, Ref
from MNN.backends.cpu.binding.rows import Rows, rows_of
from MNN.backends.cpu.native_loop.address import address_of, pointer_to
from MNN.backends.cpu.native_loop.native import BoundBuffer, CopiedBuffer
from MNN.compiler import strides as st
from MNN.ir.dtype import DType

if TYPE_CHECKING:
    from MNN.backends.cpu.binding.chains import ChainTables

LEAST = 4 << 10
"""Bytes below which an input is copied by native code rather than read in place, which many commands may do. Outputs
need an array in any case, and what copies into it has to come from memory behind a large model: 40 us for 4 kB."""
_MOST_PLACES = 64
"""Of all threads, where each has places of its own."""
_KINDS = (DType.F16, DType.F32, DType.F64)

Place = tuple[NDArray[np.int64], int, int]
"""The arguments of a command, which of them is an address in the input, and how many bytes from its start."""


class Sizes:
    """The sizes of arrays in the next run, which some have in common: a decoder has dozens of caches."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class _Slot:
    """An array of the caller's that native code finds behind a word, for one run."""

    __slots__ = ("_cell", "_poisoned", "_slot", "_word", "kind", "sizes")

    def __init__(self, tensor: Located) -> None:
        self.kind, self.sizes = tensor.dtype.numpy, Sizes(tensor.shape)
        self._word, self._cell = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._slot = self._word.data  # a view that is written to sooner
        self._poisoned = poison.wanted()

    def cells(self) -> tuple[memoryview, NDArray[np.int64]]:
        """The word that says where the array is found, and the cell of :func:`pointer_to`."""
        return self._slot, self._cell

    def bind_io(self, array: np.ndarray) -> bool:
        """Has native code use ``array``, which the caller keeps, in the next run; False when it must be copied."""
        kind, flags = array.dtype, array.flags
        same = (kind is self.kind or kind == self.kind) and array.shape == self.sizes.shape
        if same and flags.c_contiguous and flags.aligned and type(array) is np.ndarray:  # no number alone
            self._slot[0] = pointer_to(array, self._cell)
            return True
        self.give_back()
        return False

    def fresh(self) -> np.ndarray:
        """An array of its own for an output, which the caller keeps, and native code writes to in the next run."""
        array = np.empty(self.sizes.shape, self.kind)
        if self._poisoned:
            poison.fill(array.reshape(-1).view(np.uint8))
        self._slot[0] = pointer_to(array, self._cell)
        return array

    def give_back(self) -> None:
        """Has native code use the arena in the next run, as it is."""
        self._slot[0] = 0


class Direct(_Slot):
    """An input or output whose address stands in known places among the arguments."""

    __slots__ = ("_home", "_places")

    def __init__(self, tensor: Located, home: int, places: Sequence[Place]) -> None:
        """``home``: the address of its memory in the arena, which the arguments hold between runs."""
        super().__init__(tensor)
        self._home, self._places = home, places

    def lent(self) -> list[BoundBuffer]:
        """The arguments that change, for the native program."""
        slot = address_of(self._word)
        return [BoundBuffer(address_of(a[i:]), slot, offset, self._home + offset) for a, i, offset in self._places]


class Copied(_Slot):
    """An input or output that is copied into or out of the arena within the native run."""

    __slots__ = ("_home", "rows")

    def __init__(self, tensor: Located, home: int, rows: Rows) -> None:
        """``rows``: how it lies in the arena, at all sizes."""
        super().__init__(tensor)
        self._home, self.rows = home + tensor.place.offset * tensor.dtype.size, rows

    def carried(self) -> CopiedBuffer:
        """What to copy, for the native program, but for extents that follow from open sizes."""
        planes, rows, nbytes = (n if isinstance(n, int) else 0 for n in self.rows.extents)
        strides = self.rows.row_stride, self.rows.plane_stride
        return CopiedBuffer(self._home, address_of(self._word), nbytes, rows, planes, *strides)


Tensors = list[Direct | Copied | None]
"""Inputs or outputs, by how native code comes to them; None where numpy copies them."""


def direct_tensors(
    program: Program, places: Mapping[Buffer, Sequence[Place]], base: Callable[[Buffer], int]
) -> tuple[Tensors, Tensors]:
    """The inputs and the outputs of a bound program. ``places``: where the addresses of buffers stand, of those that
    may be anywhere."""
    both = (program.inputs, program.outputs)
    uses = Counter(t.place.buffer for part in both for t in part)

    def direct(tensor: Located, shape: Shape, least: int) -> Direct | Copied | None:
        buffer = tensor.place.buffer
        if buffer.lent:
            return None
        found = places.get(buffer, ())
        if uses[buffer] == 1 and 0 < len(found) <= _MOST_PLACES and _fits(tensor, least, program):
            return Direct(tensor, base(buffer), found)
        plain = buffer.const is None and 0 not in tensor.shape
        rows = rows_of(shape, tensor.place.strides, tensor.dtype.size) if plain else None
        return None if rows is None else Copied(tensor, base(buffer), rows)

    taken, given = program.io_shapes()
    return (
        [direct(t, s, LEAST) for t, s in zip(program.inputs, taken, strict=True)],
        [direct(t, s, 1) for t, s in zip(program.outputs, given, strict=True)],
    )


def _fits(tensor: Located, least: int, program: Program) -> bool:
    buffer = tensor.place.buffer
    spare = 0 if program.open_sizes is None else buffer.nbytes  # memory for more than the sizes at hand
    return (
        tensor.dtype in _KINDS
        and buffer.const is None
        and not buffer.lent
        and buffer.nbytes >= least
        and tensor.place.offset == 0
        and _dense(tensor)
        and math.prod(tensor.shape) * tensor.dtype.size + spare >= buffer.nbytes
    )


def _dense(tensor: Located) -> bool:
    return st.is_dense(tensor.shape, tensor.place.strides, range(len(tensor.shape)))


def plain_places(
    program: Program, arguments: Callable[[int], NDArray[np.int64]], chains: Sequence[ChainTables]
) -> dict[Buffer, list[Place]]:
    """Where the addresses of inputs and outputs stand, of those which are plain arguments everywhere. ``arguments``
    gives those of a command, ``chains`` are the tables of commands with stages, in order."""
    found: dict[Buffer, list[Place]] = {t.place.buffer: [] for t in program.inputs if _fits(t, LEAST, program)}
    found |= {t.place.buffer: [] for t in program.outputs if _fits(t, 1, program)}
    for buffer in _addressed_openly(program):
        found.pop(buffer, None)
    tables = iter(chains)
    for number, command in enumerate(program.commands if found else ()):
        used = found.keys() & command.buffers()
        if command.host is not None:
            for buffer in used:
                del found[buffer]
        elif command.stages:
            for words, at, ref in next(tables).places():
                if ref.buffer in used:
                    found[ref.buffer].append((words, at, ref.offset))
        elif used:
            for index, value in enumerate(command.args.values()):
                if not isinstance(value, int) and value.buffer in used:
                    found[value.buffer].append((arguments(number), index, value.offset))
    return found


def _addressed_openly(program: Program) -> set[Buffer]:
    """Buffers in which some address follows from open sizes."""
    sizes = program.open_sizes
    words = [program.commands[w.command].args.get(w.slot) for w in sizes.words] if sizes is not None else []
    return {value.buffer for value in words if isinstance(value, Ref)}


__all__ = ["LEAST", "Copied", "Direct", "Place", "Sizes", "direct_tensors", "plain_places"]
