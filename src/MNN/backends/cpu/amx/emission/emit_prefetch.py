"""What contractions on AMX tiles fetch at their end: the weights that each thread will begin with in the next one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.program import Command, Ref
from MNN.backends.cpu.amx.cost import PANEL, panel_bytes
from MNN.backends.cpu.amx.records import FROM, REGION
from MNN.backends.cpu.amx.spec import AmxSpec


def fetch_ahead(pool: ConstantPool, commands: list[Command], threads: int) -> None:
    """Has every thread's last block fetch what this thread begins with in the next contraction of constants."""
    following: Command | None = None
    for i, command in reversed(list(enumerate(commands))):
        if type(command.kernel) is not AmxSpec:  # of an open number of rows no thread's last block is known
            continue
        if following is not None:
            begins = dict(enumerate(_begins(following, threads)))
            ends = {past - 1: begins[t] for t, (_, past) in enumerate(_runs(command.blocks, threads)) if t in begins}
            args = command.args | {"next": following.args["b"], "turns": turns(pool, command.blocks, ends)}
            commands[i] = command.moved(args, command.stages, command.origin)
        right = command.args["b"]
        following = command if isinstance(right, Ref) and right.buffer.const is not None else None


def turns(pool: ConstantPool, blocks: int, ends: Mapping[int, int]) -> Ref:
    """Records :data:`~MNN.backends.cpu.amx.records.TURN` of all blocks, whose words are those of ``ends``, or -1."""

    def make() -> np.ndarray:
        table = np.full(blocks, -1, np.int64)
        table[list(ends)] = list(ends.values())
        return table

    return Ref(pool.named_table(("turns", blocks, *sorted(ends.items())), make), 0)


def _runs(blocks: int, threads: int) -> list[tuple[int, int]]:
    """The blocks that each thread is dealt (see :mod:`MNN.backends.cpu.native_loop.loop_ir`)."""
    hands = min(blocks, threads)
    return [(blocks * t // hands, blocks * (t + 1) // hands) for t in range(hands)]


def _begins(command: Command, threads: int) -> list[int]:
    """Where in B each thread begins, in bytes; for as many threads as begin in the first batch."""
    n, nb, m_blocks, chunks, panel = (_number(command, slot) for slot in ("n", "nb", "m_blocks", "chunks", "panel"))
    kernel, regions = command.kernel, command.args["regions"]
    assert isinstance(kernel, AmxSpec)
    assert isinstance(regions, Ref)
    assert regions.buffer.const is not None
    first_steps = regions.buffer.const.reshape(-1, REGION.count)[::chunks, FROM]
    n_blocks = -(-n // nb)
    found = []
    for begin, _ in _runs(command.blocks, threads):
        row, column = divmod(begin, n_blocks)
        if row >= m_blocks:
            break
        inside = panel_bytes(int(first_steps[row]), kernel.parts, kernel.w24)
        found.append(column * nb // PANEL * panel + inside)
    return found


def _number(command: Command, slot: str) -> int:
    value = command.args[slot]
    assert isinstance(value, int)
    return value
