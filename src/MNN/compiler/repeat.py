"""A program for a part of a batch, made one for all of it: its commands again and again, on the next part each time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from MNN.compiler.arena import ALIGNMENT
from MNN.compiler.program import Buffer, Command, Located, Program, Ref
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements


def repeated(program: Program, count: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Program | None:
    """``count`` times ``program``, for ``inputs`` and ``outputs`` of so many parts, which lie behind its arena.

    None where it calls Python, or an input or output does not fill memory of its own.
    """
    ends = [*program.inputs, *program.outputs]
    steps = {t.place.buffer: t.place.buffer.nbytes for t in ends}
    own = len(steps) == len(ends) and all(_fills(t) for t in ends)
    if not own or any(c.host is not None for c in program.commands):
        return None
    total = program.arena_bytes
    for buffer, nbytes in steps.items():
        buffer.offset, buffer.nbytes = total, nbytes * count
        total += -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
    return dataclasses.replace(
        program,
        commands=[_moved(c, steps, part) for part in range(count) for c in program.commands],
        inputs=_whole(program.inputs, inputs),
        outputs=_whole(program.outputs, outputs),
        arena_bytes=total,
    )


def _fills(t: Located) -> bool:
    place = t.place
    return place.buffer.const is None and place.offset == 0 and place.buffer.nbytes == elements(t.shape) * t.dtype.size


def _whole(parts: Sequence[Located], tensors: Sequence[Tensor]) -> list[Located]:
    """Inputs and outputs are dense, so that more of them along the first dimension changes no strides."""
    return [Located(part.dtype, t.shape, part.place) for part, t in zip(parts, tensors, strict=True)]


def _moved(c: Command, steps: Mapping[Buffer, int], part: int) -> Command:
    if part == 0 or not any(ref.buffer in steps for ref in c.refs()):
        return c

    def move(ref: Ref) -> Ref:
        step = steps.get(ref.buffer)
        return ref if step is None else Ref(ref.buffer, ref.offset + part * step)

    args = {slot: move(value) if isinstance(value, Ref) else value for slot, value in c.args.items()}
    return c.moved(args, tuple(s.moved(_moved(s.command, steps, part), move) for s in c.stages), c.origin)
