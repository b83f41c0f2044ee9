"""Making a chain out of commands that ordinary emitters gave: intermediates move into the workers' own memory.

An intermediate is first given a place in a buffer that will never exist, as a whole tensor; the emitters then write
commands as if it did. A chain runs these block by block, with the addresses into that buffer moved back so that every
block falls on the same local memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from MNN.backends.base.program import Buffer, Command, Local, Patch, Place, Ref, StageCall
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.algorithms import plain_ways
from MNN.compiler import strides as st
from MNN.compiler.fuse import Group
from MNN.compiler.layout import natural
from MNN.ir.prims import Tensor

LINE = 64
"""Bytes to which intermediates and their rows are aligned."""


@dataclasses.dataclass(frozen=True)
class Intermediate:
    """A tensor of which every worker holds one block: bytes from one block to the next, were it whole.

    ``outer`` and ``step`` are those of the chain's block number, ``nbytes`` the size of one block.
    """

    buffer: Buffer
    nbytes: int
    outer: int
    step: int


def virtual(tensor: Tensor) -> Place:
    """A place for a tensor in memory that does not exist: row-major, rows padded to whole cache lines.

    Rows whose distance is a multiple of 512 bytes would share few sets of the first-level cache; they get a line more.
    """
    row = -(-tensor.shape[-1] * tensor.dtype.size // LINE) * LINE
    row += LINE if row % 512 == 0 else 0
    step = row // tensor.dtype.size
    outer = st.dense(tensor.shape[:-1], natural(tensor.rank - 1))
    return Place(Buffer(0), 0, (*(s * step for s in outer), 1))


def split(commands: Sequence[Command], *buffers: Buffer) -> tuple[list[Command], list[Command], list[Command]]:
    """Commands to run before the chain, those that touch the buffers and so become its stages, and what follows."""
    inside = [i for i, c in enumerate(commands) if any(ref.buffer in buffers for ref in c.refs())]
    past = inside[-1] + 1 if inside else len(commands)
    before = [c for i, c in enumerate(commands[:past]) if i not in inside]
    return before, [commands[i] for i in inside], list(commands[past:])


class Collected:
    """The commands of groups for whole tensors, of which those that touch ``buffers`` become stages; products are
    computed the plain way."""

    def __init__(self, e: Emitter, buffers: Sequence[Buffer]) -> None:
        self._e, self._buffers = e, buffers
        self.after: list[Command] = []
        """What follows a chain."""
        self.plain = self.best = 0.0
        """Cycles that all products so far take as stages, and by themselves in whatever way is best for them."""

    def command(self, group: Group, emit: Callable[[Emitter, Group], bool]) -> Command | None:
        """The one command of a group that touches a buffer; None when it is not one. Those before it are emitted."""
        e, origin, node = self._e, self._e.origin, group.root.origin
        e.origin = f"{node} in a chain"  # by itself the node keeps the way that is best for it
        with e.collect() as commands, plain_ways() as cycles:
            done = emit(e, group)
        e.origin = origin
        for one in commands:
            one.origin = node
        self.plain += sum(c.plain for c in cycles)
        self.best += sum(c.best for c in cycles)
        before, inside, after = split(commands, *self._buffers)
        e.commands += before
        self.after += after
        return inside[0] if done and len(inside) == 1 else None


def stage(command: Command, intermediates: Sequence[Intermediate], per: int = 1, **more: Any) -> StageCall:
    """The stage that runs a command on the intermediates' blocks; ``more`` are fields of ``StageCall``.

    A repeated one addresses local memory itself, the same in every block.
    """
    args, patches, at = dict(command.args), [], 0
    moves = not more.get("repeated", False)
    for held in intermediates:
        for slot, value in command.args.items():
            if isinstance(value, Ref) and value.buffer is held.buffer:
                args[slot] = 0
                patches.append(Patch(slot, Local(at + value.offset), -held.step * moves, -held.outer * moves))
        at += -(-held.nbytes // LINE) * LINE
    return StageCall(dataclasses.replace(command, args=args), per, patches=tuple(patches), **more)


def local_bytes(intermediates: Sequence[Intermediate]) -> int:
    return sum(-(-held.nbytes // LINE) * LINE for held in intermediates)


def by_rows(e: Emitter, command: Command, mb: int) -> Command:
    """A contraction cut into blocks of ``mb`` whole rows."""
    kernel, (m, z) = command.kernel, rows_and_batches(command) or (0, 0)
    assert isinstance(kernel, ContractSpec)
    nr = kernel.nr(e.target)
    args = {**command.args, "mb": mb, "ub": mb, "nb": -(-_number(command.args["n"]) // nr) * nr}
    return dataclasses.replace(command, args=args, blocks=z * -(-m // mb))


def rows_and_batches(command: Command) -> tuple[int, int] | None:
    """Rows and batches of a contraction, None of any other kernel."""
    if not isinstance(command.kernel, ContractSpec):
        return None
    return _number(command.args["m"]), _number(command.args["n_batch"])


def _number(value: int | Ref) -> int:
    assert isinstance(value, int)
    return value
