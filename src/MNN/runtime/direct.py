"""Inputs that kernels read where the caller has them, and outputs that they write where the caller gets them, without a
copy into or out of the arena.

A run returns when all is computed, so that whatever the caller does to the array afterwards comes too late to matter.
What is read or written in place: floating point numbers (indices are checked before they are used, which must not
change in between), in one block and aligned as numpy aligns them, that kernels take as a plain argument. Everything
else is copied: other strides or byte order, what is small, what a chain (outside of slices) or a step in Python reads,
what is an input and an output, or what many commands use.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.compiler.program import Buffer, Located, Program
from MNN.ir.dtype import DType
from MNN.runtime.address import address_of

LEAST = 16 << 10
"""Bytes below which copying costs less than passing another address."""
_MOST_PLACES = 64
"""Of all threads, where each has places of its own."""
_KINDS = (DType.F16, DType.F32, DType.F64)

Place = tuple[NDArray[np.int64], int, int]
"""The arguments of a command, which of them is an address in the input, and how many bytes from its start."""


class Direct:
    """An input or output whose address stands in known places among the arguments."""

    __slots__ = ("_home", "_keep", "_kind", "_places", "_shape")

    def __init__(self, tensor: Located, home: int, places: Sequence[Place]) -> None:
        """``home``: the address of its memory in the arena, which the arguments hold between runs."""
        self._kind, self._shape, self._home = tensor.dtype.numpy, tensor.shape, home
        self._keep = [arguments for arguments, _, _ in places]
        self._places = [(ctypes.c_int64.from_address(address_of(a[i:])), offset) for a, i, offset in places]

    def lend(self, array: np.ndarray) -> bool:
        """Has kernels use ``array``, which the caller keeps until :meth:`give_back`; False when it must be copied."""
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned and array.dtype == self._kind and array.shape == self._shape):
            return False
        self._point(address_of(array))
        return True

    def fresh(self) -> np.ndarray:
        """An array of its own for an output, which kernels write to until :meth:`give_back`."""
        array = np.empty(self._shape, self._kind)
        self._point(address_of(array))
        return array

    def give_back(self) -> None:
        """Has kernels use the arena again."""
        self._point(self._home)

    def _point(self, address: int) -> None:
        for word, offset in self._places:
            word.value = address + offset


def direct_tensors(
    program: Program, places: Mapping[Buffer, Sequence[Place]], base: Callable[[Buffer], int]
) -> tuple[list[Direct | None], list[Direct | None]]:
    """For every input and for every output of a bound program how to use it in place, or None. ``places``: where the
    addresses of buffers stand, of those that may be anywhere."""
    both = (program.inputs, program.outputs)
    uses = Counter(t.place.buffer for part in both for t in part)

    def direct(tensor: Located) -> Direct | None:
        buffer = tensor.place.buffer
        found = places.get(buffer, ())
        if uses[buffer] > 1 or not 0 < len(found) <= _MOST_PLACES or not _fits(tensor):
            return None
        return Direct(tensor, base(buffer), found)

    inputs, outputs = ([direct(t) for t in part] for part in both)
    return inputs, outputs


def _fits(tensor: Located) -> bool:
    buffer = tensor.place.buffer
    dense = tuple(np.cumprod((1, *tensor.shape[:0:-1]))[::-1].tolist()) if tensor.shape else ()
    return (
        tensor.dtype in _KINDS
        and buffer.const is None
        and buffer.nbytes >= LEAST
        and tensor.place.offset == 0
        and tensor.place.strides == dense
        and int(np.prod(tensor.shape)) * tensor.dtype.size == buffer.nbytes
    )


def plain_places(program: Program, arguments: Callable[[int], NDArray[np.int64]]) -> dict[Buffer, list[Place]]:
    """Where the addresses of inputs and outputs stand, of those which are plain arguments everywhere. ``arguments``
    gives those of a command."""
    found: dict[Buffer, list[Place]] = {t.place.buffer: [] for t in (*program.inputs, *program.outputs) if _fits(t)}
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
