"""Results that are written over an operand which nobody needs any more.

What a product adds to its sums behind a residual connection is mostly read there for the last time, and lies as the
result does: the result takes its memory. Decided of buffers, when all commands are known, so that it does not matter
who looks at them through which view; that a kernel allows it, its arguments say
(:meth:`MNN.backends.base.kernel.KernelSpec.in_place`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.program import Buffer, Command, Local, Ref, StageCall


def taken(
    commands: Sequence[Command], touched: Sequence[Sequence[Buffer]], life: Mapping[Buffer, Sequence[int]]
) -> dict[Buffer, Buffer]:
    """Buffers that lie where another one lay until then, in the order of the commands that write them.

    ``touched`` has the buffers in the arena that each command touches, ``life`` the first and the last command of each.
    One takes the memory of another of its size where a single command touches both, the last to do so with one and the
    first with the other, and reads and writes them element by element; or several commands that each do a part of that.
    Buffers that outlast the run or were there before it neither give nor take.
    """
    found: dict[Buffer, Buffer] = {}
    for index, (command, buffers) in enumerate(zip(commands, touched, strict=True)):
        if not command.stages and (command.kernel is None or type(command.kernel).in_place is KernelSpec.in_place):
            continue
        results = [b for b in buffers if life[b][0] == index and not b.pinned]
        sizes = [b.nbytes for b in results]
        operands = [b for b in buffers if b.nbytes in sizes and life[b][0] < index and not b.pinned]
        if not command.part:
            operands = [b for b in operands if life[b][1] == index]
        for new, old in _given(command) if operands else []:
            if new in results and old in operands and new.nbytes == old.nbytes and new not in found:
                last = life[old][1]
                parts = [
                    c for c, t in zip(commands[index : last + 1], touched[index:], strict=False) if new in t or old in t
                ]
                if len(parts) == 1 or all(c.part and (new, old) in _given(c) for c in parts):
                    found[new] = old
                    operands.remove(old)
    return found


def replaced_at_last(commands: Sequence[Command], buffer: Buffer) -> bool:
    """Whether the last command that touches a buffer writes it over what it reads of it, element by element."""
    touching = [command for command in commands if buffer in command.buffers()]
    if not touching or touching[-1].part or touching[-1].host is not None:
        return False
    return (buffer, buffer) in _given(touching[-1], 2)


def _given(command: Command, times: int = 1) -> list[tuple[Buffer, Buffer]]:
    """Results of a command and operands whose memory they may take, each of which it touches in one place only
    (``times``: that is an argument so many times)."""
    pairs = [(new, old) for new, old in _pairs(command) if new.offset == old.offset]
    every = [ref.buffer for ref in command.refs()] if pairs else []
    return [(n.buffer, o.buffer) for n, o in pairs if every.count(n.buffer) == every.count(o.buffer) == times]


def _pairs(command: Command) -> Iterator[tuple[Ref, Ref]]:
    """Results and operands of a command that may be the same memory."""
    for stage in command.stages:
        if _once(stage):
            yield from _pairs(stage.command)
    if command.kernel is None or command.stages:
        return
    for result, operand in command.kernel.in_place(command.values()):
        one, other = command.args[result], command.args[operand]
        if isinstance(one, Ref) and isinstance(other, Ref):
            yield one, other


def _once(stage: StageCall) -> bool:
    """Whether every block of a chain's stage runs once, and only intermediates move with the chain's blocks."""
    plain = not stage.repeated and stage.shift == 0 and stage.count is None and stage.when == "always"
    return plain and all(isinstance(patch.base, Local) for patch in stage.patches)
