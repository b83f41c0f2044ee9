"""Inputs that kernels read where the caller has them, without a copy into the arena.

A run returns when all is computed, so that whatever the caller does to the array afterwards comes too late to matter.
What is read in place: floating point numbers (indices are checked before they are used, which must not change in
between), in one block and aligned as numpy aligns them, of an input that kernels take as a plain argument. Everything
else is copied: other strides or byte order, small inputs, inputs that a chain or a step in Python reads, that are an
output too, or that many commands read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.compiler.program import Buffer, Command, Located, Program
from MNN.ir.dtype import DType

LEAST = 16 << 10
"""Bytes below which copying costs less than passing another address."""
_MOST_PLACES = 16
_KINDS = (DType.F16, DType.F32, DType.F64)

Place = tuple[NDArray[np.int64], int, int]
"""The arguments of a command, which of them is an address in the input, and how many bytes from its start."""


class DirectInput:
    """An input whose address stands in known places among the arguments."""

    __slots__ = ("_home", "_kind", "_places", "_shape")

    def __init__(self, tensor: Located, home: int, places: Sequence[Place]) -> None:
        """``home``: the address of its memory in the arena, which the arguments hold between runs."""
        self._kind, self._shape, self._home, self._places = tensor.dtype.numpy, tensor.shape, home, tuple(places)

    def lend(self, array: np.ndarray) -> bool:
        """Has kernels read ``array``, which the caller keeps until :meth:`give_back`; False when it must be copied."""
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned and array.dtype == self._kind and array.shape == self._shape):
            return False
        self._point(array.__array_interface__["data"][0])
        return True

    def give_back(self) -> None:
        """Has kernels read the arena again."""
        self._point(self._home)

    def _point(self, address: int) -> None:
        for arguments, index, offset in self._places:
            arguments[index] = address + offset


def direct_inputs(
    program: Program, arguments: Callable[[int], NDArray[np.int64]], base: Callable[[Buffer], int]
) -> list[DirectInput | None]:
    """For every input of a bound program how to read it in place, or None. ``arguments`` gives those of a command."""
    buffers = [t.place.buffer for t in program.inputs]
    shared = {t.place.buffer for t in program.outputs} | {b for b in buffers if buffers.count(b) > 1}
    found: list[DirectInput | None] = []
    for tensor in program.inputs:
        places = _places(program.commands, tensor.place.buffer, arguments) if _fits(tensor, shared) else None
        found.append(None if places is None else DirectInput(tensor, base(tensor.place.buffer), places))
    return found


def _fits(tensor: Located, shared: set[Buffer]) -> bool:
    buffer = tensor.place.buffer
    dense = tuple(np.cumprod((1, *tensor.shape[:0:-1]))[::-1].tolist()) if tensor.shape else ()
    return (
        tensor.dtype in _KINDS
        and buffer.const is None
        and buffer not in shared
        and buffer.nbytes >= LEAST
        and tensor.place.offset == 0
        and tensor.place.strides == dense
        and int(np.prod(tensor.shape)) * tensor.dtype.size == buffer.nbytes
    )


def _places(
    commands: Sequence[Command], buffer: Buffer, arguments: Callable[[int], NDArray[np.int64]]
) -> list[Place] | None:
    """Where the addresses of a buffer stand, None when they are not all plain arguments, or too many."""
    found: list[Place] = []
    for number, command in enumerate(commands):
        for ref in command.refs():
            if ref.buffer is buffer:
                break
        else:
            if command.host is None or buffer not in command.buffers():
                continue
        if command.stages or command.host is not None:
            return None
        for index, value in enumerate(command.args.values()):
            if not isinstance(value, int) and value.buffer is buffer:
                found.append((arguments(number), index, value.offset))
        if len(found) > _MOST_PLACES:
            return None
    return found


__all__ = ["LEAST", "DirectInput", "direct_inputs"]
