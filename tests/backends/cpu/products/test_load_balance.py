"""Runs of blocks dealt out to threads, against counting them one by one."""

from __future__ import annotations

import itertools

import pytest

from MNN.backends.cpu.products.load_balance import longest, piece_sizes, split_evenly


def counted(rows: int, high: int, panels: int, wide: int, threads: int, batches: int) -> int:
    heights = [min(high, rows - r) for r in range(0, rows, high)]
    widths = [min(wide, panels - p) for p in range(0, panels, wide)]
    blocks = [h * w for _ in range(batches) for h in heights for w in widths]
    ends = [len(blocks) * t // threads for t in range(threads + 1)]
    return max(sum(blocks[a:b]) for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("size", [(25, 9), (7, 8), (1, 13), (197, 1)])
def test_the_longest_run(size: tuple[int, int], batches: int, threads: int) -> None:
    rows, panels = size
    for high in {1, 2, 3, rows // 2 or 1, rows}:
        for wide in {w for w in range(1, panels + 1) if panels % w == 0}:
            found = longest(rows, high, panels, wide, threads, batches)
            assert found == counted(rows, high, panels, wide, threads, batches), (high, wide)


def test_pieces_for_threads_make_even_runs() -> None:
    # three batches of 25 units: four pieces of 7 leave one thread with 13 of every 25, two of 13 are even
    assert longest(25, 7, 1, 1, 2, 3) > longest(25, 13, 1, 1, 2, 3)
    assert split_evenly(49, 4, 8, 2) % 8 == 0
    for units in (1, 2, 11, 49, 500):
        for most in (None, 3):
            assert all(1 <= size <= min(units, most or units) or size in (1, 2) for size in piece_sizes(units, 2, most))
