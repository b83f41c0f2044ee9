"""How evenly work can be dealt out to threads.

Threads get equal runs of blocks in order (:mod:`MNN.backends.cpu.native_loop.loop_ir`), so that the time of a command
is that of the longest run: what counts is not the number of blocks but what the longest run holds."""

from __future__ import annotations

import itertools

BLOCKS_PER_THREAD = 4
"""Blocks of a run, about: what is left of a run is done by whoever has time."""


def longest(rows: int, high: int, panels: int, wide: int, threads: int, batches: int = 1) -> int:
    """Tiles of the longest run when blocks of ``high`` x ``wide`` tiles are dealt out in order, batch by batch."""
    if threads == 1:
        return rows * panels * batches
    down, across = -(-rows // high), -(-panels // wide)
    last_row = rows - (down - 1) * high
    blocks = down * across * batches

    def before(count: int) -> int:
        """Tiles of the first ``count`` blocks."""
        batch, count = divmod(count, down * across)
        return batch * rows * panels + inside(count)

    def inside(count: int) -> int:
        """The same within a batch."""
        full, rest = divmod(count, across)
        tiles = full * high * panels - (high - last_row) * panels * (full == down)
        height = last_row if full == down - 1 else high
        return tiles + rest * wide * height

    ends = [before(blocks * t // threads) for t in range(threads + 1)]
    return max(b - a for a, b in itertools.pairwise(ends))


def split_evenly(extent: int, parts: int, unit: int, threads: int = 1) -> int:
    """The size, in whole units, of about ``parts`` nearly equal pieces of an extent, for runs of equal length."""
    units = -(-extent // unit)
    size = -(-units // min(parts, units))
    if threads > 1:
        near = range(-(-size // 2), min(2 * size, units) + 1)
        size = min(near, key=lambda s: (longest(units, s, 1, 1, threads), max(s / size, size / s)))
    return size * unit


def piece_sizes(units: int, threads: int, most: int | None = None) -> list[int]:
    """Sizes of pieces, of ``most`` units, that are worth looking at."""
    parts = {1, threads, 2 * threads, BLOCKS_PER_THREAD * threads}
    if threads > 2:
        parts |= {2, 3}
    whole = {1, 2} if units <= 16 * threads else set()
    most = units if most is None else min(most, units)
    return sorted({min(most, -(-units // min(p, units))) for p in parts} | whole)
