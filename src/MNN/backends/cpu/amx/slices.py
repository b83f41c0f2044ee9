"""Deep products of few rows on AMX tiles, cut along the depth of their sums: a slice of it for every thread.

Threads that have different columns each bring all of A, and what others wrote of it comes from their caches; threads
that have different rows read the same B, and tiles of few rows hardly come out even. With slices each thread has a part
of both of its own, and that of A is what it has just written where the command before is cut into columns. In return
every slice has results of its own, which a second command sums (two threads, fp16 parts, depth 3072, 768 columns: 128
rows take 715 + 17 us instead of 840 cut into columns, 197 rows 1011 + 26 instead of 1160 cut into rows).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from MNN.backends.cpu.amx.cost import (
    FOREIGN,
    HANDED,
    PANEL,
    SET_UP,
    Plan,
    block_cycles,
    bringing,
    lines_of,
    memory_rate,
    until_done,
)
from MNN.backends.cpu.amx.layout import DEPTH, Layout
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS
from MNN.backends.cpu.targets.base import Target

LEAST_DEPTH = 1024
"""Products of a slice's sums, at least (two threads, 49 rows, 512 columns: depth 1024 takes 118 us in slices, 100 in
columns; depth 2048 and 320 columns 178 and 225)."""
_GAIN = 0.95
"""Of the time without slices: what they must not take more of, as they take memory."""
WHOLE, _CHUNK = 1 / 2, 3 / 8
"""Of the second-level cache: what all rows of a slice may take, and what a chunk of them may."""
_MOST_CHUNKS = 4
_SUM = 10.0
"""Cycles to sum a vector of a slice's results: half of them come from other threads."""


def plan_slices(
    target: Target, m: int, n: int, k: int, plan: Plan, threads: int, parts: int, direct: bool, parted: bool, half: bool
) -> Plan:
    """The ``plan`` of a product of rows in one batch, or one with slices where that is done sooner; operands as in
    :func:`MNN.backends.cpu.amx.cost.plan_rows`."""
    if threads == 1 or k % (threads * DEPTH) or k < threads * LEAST_DEPTH or (direct and plan.nb < n):
        return plan  # the last: columns are as good where nothing is brought
    tiles, steps = -(-m // ROWS), k // threads // DEPTH
    chunks = _chunks(target, tiles * ROWS * ROW_BYTES * parts, steps)
    if not chunks:
        return plan
    brought = 0.0 if direct else m * steps * bringing(parts, parted, half)
    block = block_cycles(m, tiles, n, steps, brought, parts, memory_rate(threads), 1.0)
    # Half of what a block takes of A is its thread's own at the least, all of it behind a command cut into columns.
    block += m * steps * lines_of(parts) * FOREIGN * (1 - 1 / threads) / 2
    sums = m * n / 16 * threads * _SUM
    time = until_done([block] * threads, threads) + HANDED + sums / threads
    if time > plan.time * _GAIN:
        return plan
    return Plan(
        tiles * ROWS,
        -(-n // PANEL) * PANEL,
        block * threads + sums + 2 * SET_UP,
        time,
        k // threads // chunks,
        0,
        threads,
    )


def _chunks(target: Target, step_bytes: int, steps: int) -> int:
    """In how many chunks a slice of so many ``steps`` stays in the second-level cache; 0: in too many."""
    if step_bytes * steps <= target.l2_bytes * WHOLE:
        return 1
    fits = (
        c for c in range(2, _MOST_CHUNKS + 1) if not steps % c and step_bytes * steps <= target.l2_bytes * _CHUNK * c
    )
    return next(fits, 0)


def sliced_layout(layout: Layout, slices: int) -> Layout:
    """The chunks of one block as those of several, one for each slice, whose results lie one behind the other."""
    results = layout.place.size
    firsts = layout.first[:-1] + np.arange(slices)[:, None] * results
    return dataclasses.replace(
        layout,
        first=np.append(firsts, slices * results),
        place=np.tile(layout.place, slices),
        chunks=layout.chunks // slices,
        sliced=True,
    )
