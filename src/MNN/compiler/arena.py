"""Planning the arena: every buffer gets its place before anything runs.

Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020): the largest
buffers are placed first, each at the lowest offset that is free for its whole lifetime.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from MNN.backends.base.program import Buffer, Command
from MNN.compiler import in_place

ALIGNMENT = 128
"""Bytes; see :mod:`MNN.backends.base.arena`."""
_SHORT = 8
"""Commands: a buffer that lives no longer has few neighbours, which are faster found by command than among all."""


def plan(commands: Sequence[Command], buffers: Sequence[Buffer]) -> int:
    """Sets every buffer's offset, results over operands where they can be (:mod:`MNN.compiler.in_place`); returns the
    bytes of the whole arena."""
    last = len(commands)
    life: dict[Buffer, list[int]] = {b: [0, last] for b in buffers if b.pinned and not b.lent}
    touched = [[b for b in command.buffers() if not b.lent] for command in commands]
    for index, buffers_here in enumerate(touched):
        for buffer in buffers_here:
            if not buffer.pinned:
                life.setdefault(buffer, [index, index])[1] = index
    homes = in_place.taken(commands, touched, life)
    for buffer in reversed(homes):  # the last ones first: what takes a place may have given its own
        life[homes[buffer]][1] = life.pop(buffer)[1]
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    alive: list[list[tuple[int, int, int, int]]] = [[] for _ in range(last + 1)]  # the same by command
    total = 0
    for buffer in sorted(life, key=lambda b: -b.nbytes):
        first, final = life[buffer]
        if final - first == 1:
            neighbours = sorted(alive[first] + alive[final])
        elif final - first < _SHORT:
            neighbours = sorted(itertools.chain.from_iterable(alive[first : final + 1]))
        else:
            neighbours = sorted([p for p in placed if p[2] <= final and first <= p[3]])
        offset = 0
        nbytes = buffer.nbytes
        for begin, end, _, _ in neighbours:
            if begin - offset >= nbytes:
                break
            if end > offset:
                offset = end
        buffer.offset = offset
        end = -(-(offset + nbytes) // ALIGNMENT) * ALIGNMENT
        found = (offset, end, first, final)
        placed.append(found)
        for here in alive[first : final + 1]:
            here.append(found)
        total = max(total, end)
    for buffer, home in homes.items():
        buffer.offset = home.offset
    return total
