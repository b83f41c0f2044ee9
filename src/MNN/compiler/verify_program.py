"""The check of compiled programs and of the groups that they are made of, before any memory is touched.

On with ``MNN_VERIFY=1``, as in all tests; a program that fails here is a bug of this engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from MNN.backends.base.kernel import Kind
from MNN.backends.base.program import Buffer, Command, Located, Program
from MNN.backends.base.space import HOST
from MNN.compiler.arena import ALIGNMENT
from MNN.compiler.fuse import Group
from MNN.compiler.usage import VIEWS
from MNN.errors import MNNError
from MNN.formatting import plural
from MNN.ir.prims import Prim, Tensor
from MNN.ir.verify_primitives import ProgramError

VARIABLE = "MNN_VERIFY"


def wanted() -> bool:
    """Whether what is compiled is to be verified. Raises ``MNNError`` when the variable holds nonsense."""
    text = os.environ.get(VARIABLE, "")
    if text not in ("", "0", "1"):
        raise MNNError(f"{VARIABLE} is '{text}'; set it to 1 to verify every stage of compilation, or to 0")
    return text == "1"


def verify_groups(groups: Sequence[Group], prims: Sequence[Prim], inputs: Sequence[Tensor]) -> None:
    """Checks that every primitive but views is in one group, and that groups come in an order in which they can run."""
    left = {id(prim): prim for prim in prims if not isinstance(prim, VIEWS)}
    made = set(inputs)
    for group in groups:
        members = group.prims if group.anchor is None else [group.anchor, *group.prims]
        own: set[Tensor] = set()
        for prim in members:
            if left.pop(id(prim), None) is None:
                raise ProgramError(f"{type(prim).__name__} of {prim.origin} is in no program, or in two groups")
            for tensor in prim.inputs:
                source = tensor
                while source not in made and source not in own and isinstance(source.producer, VIEWS):
                    source = source.producer.inputs[0]
                if source not in made and source not in own and source.const is None:
                    raise ProgramError(f"the group of {group.origin()} runs before {source} is made")
            own.update(prim.outputs)
        made |= own
    if left:
        raise ProgramError(f"in no group: {[prim.origin for prim in left.values()]}")


def verify_program(program: Program) -> None:
    """Checks a program's commands and memory: arguments are those of their kernels, addresses lie within their buffers,
    buffers within the arena, and none that hold numbers at the same time share memory but where a result is written
    over its operand."""
    for command in program.commands:
        _check_command(command, program)
    for what, places in (("input", program.inputs), ("output", program.outputs)):
        for number, located in enumerate(places):
            _check_located(located, f"{what} {number} of the program")
    _check_lives(program)


def _check_command(command: Command, program: Program) -> None:
    name = f"command of {command.origin}"
    if command.blocks < 1 or command.grain < 1:
        raise ProgramError(f"{name}: {command.blocks} blocks, {command.grain} at a time")
    if (command.kernel is None) == (command.host is None):
        raise ProgramError(f"{name}: it calls a kernel and Python, or neither")
    for one in [stage.command for stage in command.stages] or [command]:
        if one.kernel is not None and tuple(one.args) != one.kernel.slots():
            raise ProgramError(f"{name}: its arguments {list(one.args)} are not {list(one.kernel.slots())}")
    if any(buffer.space != program.space for buffer in command.buffers()):
        raise ProgramError(f"{name}: a buffer of the arena is not in {program.space.name} memory")
    if (command.kind is Kind.LAUNCH) == (program.space == HOST):
        raise ProgramError(f"{name}: a {command.kind.value} works in {program.space.name} memory")
    for ref in command.refs():
        buffer = ref.buffer
        if buffer is program.error_word:
            continue
        size = buffer.nbytes if buffer.const is None else buffer.const.nbytes
        if buffer.nbytes and not 0 <= ref.offset <= size:
            raise ProgramError(f"{name}: an address lies {ref.offset} bytes into a buffer of {size}")
    if command.host is not None:
        for what, places in (("input", command.host.inputs), ("output", command.host.outputs)):
            for number, located in enumerate(places):
                _check_located(located, f"{what} {number} of {name}")


def _check_located(located: Located, name: str) -> None:
    if 0 in located.shape or located.dtype.numpy.hasobject:
        return
    strides = located.place.strides
    if len(strides) != len(located.shape):
        counts = f"{plural(len(located.shape), 'dimension')} and {plural(len(strides), 'stride')}"
        raise ProgramError(f"{name}: {located.dtype.value}{list(located.shape)} has {counts}")
    reach = [(n - 1) * s for n, s in zip(located.shape, strides, strict=True)]
    first = located.place.offset + sum(r for r in reach if r < 0)
    last = located.place.offset + sum(r for r in reach if r > 0)
    if first < 0 or (last + 1) * located.dtype.size > located.place.buffer.nbytes:
        raise ProgramError(f"{name}: {located.dtype.value}{list(located.shape)} reaches beyond its buffer")


def _spans(program: Program) -> Iterator[tuple[Buffer, int, int]]:
    """Buffers of the arena with the first and the last command that needs them."""
    last = len(program.commands)
    life: dict[Buffer, list[int]] = {}
    for located in (*program.inputs, *program.outputs):
        if located.place.buffer.const is None and located.place.buffer.nbytes:
            life[located.place.buffer] = [-1, last]
    for index, command in enumerate(program.commands):
        for buffer in command.buffers():
            life.setdefault(buffer, [index, index])[1] = last if buffer.pinned else index
    for buffer, (first, final) in life.items():
        if buffer.lent:
            continue
        yield buffer, -1 if buffer.pinned else first, final


def _check_lives(program: Program) -> None:
    placed: list[tuple[int, int, int, int]] = []
    for buffer, first, final in _spans(program):
        begin, end = buffer.offset, buffer.offset + buffer.nbytes
        if begin < 0 or begin % ALIGNMENT or end > program.arena_bytes:
            raise ProgramError(f"a buffer at {begin} to {end} is not within the arena of {program.arena_bytes} bytes")
        placed.append((begin, end, first, final))
    active: list[tuple[int, int, int, int]] = []
    for begin, end, first, final in sorted(placed):
        active = [a for a in active if a[1] > begin]
        for b, e, f, l in active:  # noqa: E741 - last command
            taken_over = (b, e) == (begin, end) and (f < first <= l <= final or first < f <= final <= l)
            if first <= l and f <= final and not taken_over:
                raise ProgramError(
                    f"buffers at {b} to {e} (commands {f} to {l}) and at {begin} to {end} "
                    f"(commands {first} to {final}) hold numbers at the same time"
                )
        active.append((begin, end, first, final))


__all__ = ["VARIABLE", "verify_groups", "verify_program", "wanted"]
