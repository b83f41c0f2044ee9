"""A program for a part of a batch, made one for all of it: its commands again and again, on the next part each time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from MNN.compiler.arena import ALIGNMENT
from MNN.compiler.program import Buffer, Command, Located, Program, Ref, StageCall
from MNN.ir.prims import Tensor


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
    size = t.dtype.size
    for n in t.shape:
        size *= n
    return t.place.buffer.const is None and t.place.offset == 0 and t.place.buffer.nbytes == size


def _whole(parts: Sequence[Located], tensors: Sequence[Tensor]) -> list[Located]:
    """Inputs and outputs are dense, so that more of them along the first dimension changes no strides."""
    return [Located(part.dtype, t.shape, part.place) for part, t in zip(parts, tensors, strict=True)]


def _moved(c: Command, steps: Mapping[Buffer, int], part: int) -> Command:
    if part == 0 or not any(ref.buffer in steps for ref in c.refs()):
        return c
    args = {slot: _ahead(value, steps, part) if isinstance(value, Ref) else value for slot, value in c.args.items()}
    stages = tuple(_stage(s, steps, part) for s in c.stages)
    return c.moved(args, stages, c.origin)


def _stage(s: StageCall, steps: Mapping[Buffer, int], part: int) -> StageCall:
    patches = tuple(
        dataclasses.replace(q, base=_ahead(q.base, steps, part)) if isinstance(q.base, Ref) else q for q in s.patches
    )
    return dataclasses.replace(s, command=_moved(s.command, steps, part), patches=patches)


def _ahead(ref: Ref, steps: Mapping[Buffer, int], part: int) -> Ref:
    step = steps.get(ref.buffer)
    return ref if step is None else Ref(ref.buffer, ref.offset + part * step)
