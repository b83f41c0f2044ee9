"""A program for a slice of a batch, made one for all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from MNN.backends.base.program import Located, Program, Slices
from MNN.compiler import strides as st
from MNN.compiler.arena import ALIGNMENT
from MNN.compiler.layout import natural
from MNN.ir.prims import Tensor
from MNN.ir.traced import room_of


def repeated(
    program: Program, count: int, hands: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Program | None:
    """``program``, ``count`` times by up to ``hands`` threads, for ``inputs`` and ``outputs`` of so many slices, which
    lie behind the arenas of all threads; ``count`` may be an open size. Those of ``program`` fill their memory. None
    where it calls Python, or has an input or output that does not lie in order."""
    own = (*program.inputs, *program.outputs)
    in_order = all(st.is_dense(t.shape, t.place.strides, natural(len(t.shape))) for t in own)
    if not in_order or any(c.host is not None for c in program.commands):
        return None
    room = room_of(count)
    slices = Slices(count, min(hands, room), _aligned(program.arena_bytes), room)
    total = slices.hands * slices.nbytes
    for located in own:
        buffer = located.place.buffer
        buffer.offset, buffer.nbytes = total, buffer.nbytes * room
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
    """Inputs and outputs are dense, and so is more of them along the first dimension, of which a slice of one sample
    may have no stride."""
    return [
        Located(part.dtype, t.shape, part.place._replace(strides=st.dense(t.shape, natural(t.rank))))
        for part, t in zip(parts, tensors, strict=True)
    ]
