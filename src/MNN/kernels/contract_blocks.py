"""How a product is cut into blocks, for the caches and for threads.

What counts for threads is how evenly whole register tiles can be dealt out (:mod:`MNN.kernels.shares`). Cut by rows,
every thread reads all of B; cut by columns, it reads all of A, which other threads have mostly written, and writes
columns that others will read. The model weighs both in cycles beside the arithmetic of the longest run.
"""

from __future__ import annotations

import functools

from MNN.ir.dtype import DType
from MNN.kernels.contract_cost import MEMORY_BYTES_PER_CYCLE, tile_cycles
from MNN.kernels.shares import BLOCKS_PER_THREAD, longest, piece_sizes, split_evenly
from MNN.targets.base import Target

_FAR_BYTES = 4 << 20
"""Bytes of A that a block may read from beyond the second-level cache."""
_LEAST_CYCLES = 3000.0
"""Blocks of less work are not worth handing to another worker one by one."""
_PANEL_BYTES_PER_CYCLE = 44.0
"""What is left of reading a panel of B again behind the arithmetic, by the second-level cache's rate."""


def choose_blocks(
    target: Target, m: int, n: int, k_total: int, threads: int, tile: tuple[int, int], acc: DType = DType.F32
) -> tuple[int, int]:
    """Rows and columns of a block: multiples of the tile.

    The rows of A of one block stay in half of the second-level cache, for they are read once per panel of B; unless
    these are fewer rows than a panel has columns: then reading A again per panel is less traffic than reading B again
    per block.
    """
    mr, nr = tile[0], tile[1] * target.lanes(acc)
    m, n, k_total = max(m, 1), max(n, 1), max(k_total, 1)
    rows = target.l2_bytes // 2 // (k_total * acc.size)
    if rows < nr:
        rows = max(_FAR_BYTES // (k_total * acc.size), 4 * mr)
    mb = split_evenly(m, -(-m // rows), mr)
    if threads == 1:
        return mb, -(-n // nr) * nr
    return _shared(target, (m, n, k_total), mb // mr, threads, tile, acc)


@functools.lru_cache(maxsize=4096)
def _shared(
    target: Target, size: tuple[int, int, int], most: int, threads: int, tile: tuple[int, int], acc: DType
) -> tuple[int, int]:
    """Blocks for several threads, of at most ``most`` rows of tiles."""
    m, n, k = size
    mr, nr = tile[0], tile[1] * target.lanes(acc)
    rows, panels = -(-m // mr), -(-n // nr)
    work = tile_cycles(target, acc, k, *tile)
    useful = max(1, int(_cycles(target, m, n, k, tile, acc) / _LEAST_CYCLES))
    read_b = (1 - 1 / threads) * k * n * acc.size / MEMORY_BYTES_PER_CYCLE
    read_a = (1 - 1 / threads) * m * (k + n) * acc.size / MEMORY_BYTES_PER_CYCLE
    again = nr * k * acc.size / _PANEL_BYTES_PER_CYCLE
    best, found = float("inf"), (min(rows, most), panels)
    for high in piece_sizes(rows, threads, most):
        for wide in piece_sizes(panels, threads):
            blocks = -(-rows // high) * -(-panels // wide)
            if blocks > max(useful, -(-rows // most)):
                continue
            runs = longest(rows, high, panels, wide, threads)
            # Blocks of a run, each of which reads its panels: more of them cost little and even out what is uneven.
            count = -(-blocks // threads)
            cost = (
                runs * work + count * wide * again + work * high * wide * (0.0 if count >= BLOCKS_PER_THREAD else 0.02)
            )
            by_rows = (min(-(-rows // high), threads) - 1) / (threads - 1)
            cost += by_rows * read_b + (1 - by_rows) * read_a
            if cost < best:
                best, found = cost, (high, wide)
    return found[0] * mr, found[1] * nr


def _cycles(target: Target, m: int, n: int, k: int, tile: tuple[int, int], acc: DType) -> float:
    """On one thread."""
    rows, panels = -(-m // tile[0]), -(-n // (tile[1] * target.lanes(acc)))
    memory = n * k * acc.size / MEMORY_BYTES_PER_CYCLE
    return max(rows * panels * tile_cycles(target, acc, k, *tile), memory)


def choose_grain(
    target: Target,
    m: int,
    n: int,
    k_total: int,
    tile: tuple[int, int],
    n_batch: int,
    blocks: int,
    acc: DType = DType.F32,
) -> int:
    """How many of the ``blocks`` of ``n_batch`` products a worker takes at least; all if they are not worth sharing."""
    cycles = n_batch * _cycles(target, m, n, k_total, tile, acc)
    return min(blocks, -(-blocks // max(1, int(cycles / _LEAST_CYCLES))))
