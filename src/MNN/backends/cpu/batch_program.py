"""A program for a slice of a batch, made one for all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from MNN.backends.base.program import Located, Program, Slices
from MNN.compiler.arena import ALIGNMENT
from MNN.ir.prims import Tensor


def repeated(
    program: Program, count: int, hands: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Program | None:
    """``count`` times ``program``, by up to ``hands`` threads, for ``inputs`` and ``outputs`` of so many slices, which
    lie behind the arenas of all threads. Those of ``program`` fill their memory. None where it calls Python."""
    if any(c.host is not None for c in program.commands):
        return None
    slices = Slices(count, min(hands, count), _aligned(program.arena_bytes))
    total = slices.hands * slices.nbytes
    for located in (*program.inputs, *program.outputs):
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


def _whole(parts: Sequence[Located], tensors: Sequence[Tensor]) -> list[Located]:
    """Inputs and outputs are dense, so that more of them along the first dimension changes no strides."""
    return [Located(part.dtype, t.shape, part.place) for part, t in zip(parts, tensors, strict=True)]
