"""A program for a slice of a batch, made one for all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from MNN.compiler.arena import ALIGNMENT
from MNN.compiler.program import Located, Program, Slices
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements


def repeated(
    program: Program, count: int, hands: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Program | None:
    """``count`` times ``program``, by up to ``hands`` threads, for ``inputs`` and ``outputs`` of so many slices, which
    lie behind the arenas of all threads.

    None where it calls Python, or an input or output does not fill memory of its own.
    """
    ends = [*program.inputs, *program.outputs]
    buffers = {t.place.buffer for t in ends}
    own = len(buffers) == len(ends) and all(_fills(t) for t in ends)
    if not own or any(c.host is not None for c in program.commands):
        return None
    slices = Slices(count, min(hands, count), _aligned(program.arena_bytes))
    total = slices.hands * slices.nbytes
    for located in ends:
        buffer = located.place.buffer
        buffer.offset, buffer.nbytes = total, buffer.nbytes * count
        total += _aligned(buffer.nbytes)
    return dataclasses.replace(
        program,
        inputs=_whole(program.inputs, inputs),
        outputs=_whole(program.outputs, outputs),
        arena_bytes=total,
        slices=slices,
    )


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _fills(t: Located) -> bool:
    place = t.place
    return place.buffer.const is None and place.offset == 0 and place.buffer.nbytes == elements(t.shape) * t.dtype.size


def _whole(parts: Sequence[Located], tensors: Sequence[Tensor]) -> list[Located]:
    """Inputs and outputs are dense, so that more of them along the first dimension changes no strides."""
    return [Located(part.dtype, t.shape, part.place) for part, t in zip(parts, tensors, strict=True)]
