"""Planning the arena: every buffer gets its place before anything runs.

Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020): the largest
buffers are placed first, each at the lowest offset that is free for its whole lifetime.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from MNN.compiler.program import Buffer, Command

ALIGNMENT = 64


def plan(commands: Sequence[Command], buffers: Sequence[Buffer]) -> int:
    """Sets every buffer's offset and returns the bytes of the whole arena."""
    last = len(commands)
    life: dict[Buffer, list[int]] = {b: [0, last] for b in buffers if b.pinned}
    for index, command in enumerate(commands):
        for buffer in command.buffers():
            if not buffer.pinned:
                life.setdefault(buffer, [index, index])[1] = index
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    total = 0
    for buffer in sorted(life, key=lambda b: -b.nbytes):
        first, final = life[buffer]
        offset = 0
        nbytes = buffer.nbytes
        for begin, end in [(b, e) for b, e, a, z in placed if a <= final and first <= z]:
            if begin - offset >= nbytes:
                break
            if end > offset:
                offset = end
        buffer.offset = offset
        end = -(-(offset + buffer.nbytes) // ALIGNMENT) * ALIGNMENT
        bisect.insort(placed, (offset, end, first, final))
        total = max(total, end)
    return total
