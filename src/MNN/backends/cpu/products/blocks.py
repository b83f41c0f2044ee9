"""How a product is cut into blocks, for the caches and for threads.

What counts for threads is how evenly whole register tiles can be dealt out
(:mod:`MNN.backends.cpu.products.load_balance`). Cut by rows, every thread reads all of B; cut by columns, it reads all
of A, which other threads have mostly written, and writes columns that others will read. The model weighs both in
cycles beside the arithmetic of the longest run."""

from __future__ import annotations

import functools
import math

from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.products.load_balance import longest, piece_sizes, split_evenly
from MNN.backends.cpu.products.register_tiles import MEMORY_BYTES_PER_CYCLE, tile_cycles
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_FAR_BYTES = 4 << 20
"""Bytes of A that a block may read from beyond the second-level cache."""
_UNIT_CYCLES = 1000.0
"""Units of less work are not worth counting."""
_PARTS = 32
"""Parts of a thread's run that one alone is still taken of: what threads end with apart."""
_LEAST_CYCLES = 3000.0
"""Blocks of less work are not worth handing to another worker one by one."""
_LINE = 64
_SMALL = 8
"""Part of the second-level cache that B may take to be read again for every few rows."""
_ASKING_TILES = 16
"""Tiles of rows of a block, at least, where asking for weights costs more than is gained: with eight or fewer, a tile
asks for them in every turn of the loop over its sum (1350 rows, depth 3892, 240 columns, on Zen 1: 3 or 8 tiles 25
GFLOP/s, 16 or more 35; 3 tiles that do not ask 31)."""
_LEAST_TILES = 4
"""Tiles of rows of such a block at least."""
_PANEL_BYTES_PER_CYCLE = 44.0
"""What is left of reading a panel of B again behind the arithmetic, by the second-level cache's rate."""


def choose_blocks(
    target: Target,
    m: int,
    n: int,
    k_total: int,
    threads: int,
    tile: tuple[int, int],
    acc: DType = DType.F32,
    packed: bool = True,
    written: int = 0,
    most: int = 0,
    window: Window | None = None,
) -> tuple[int, int, int]:
    """Rows and columns of a block and rows of a unit: multiples of the tile; ``written``: bytes of a result, if these
    are fewer than a sum's (0: as many); ``most``: rows of a block, if these are known to be few (0: they are not);
    ``window``: of a convolution, whose rows of A lie over each other in part.

    The rows of A of one block stay in half of the second-level cache, for they are read once per panel of B; unless
    these are fewer rows than a panel has columns: then reading A again per panel is less traffic than reading B again
    per block. Where B is small and the results are not, these stay in the first-level cache: a panel writes parts of
    lines, which otherwise come and go for every panel (4 channels to 66: 3.4 -> 1.7 ms, to 126: 2.1 -> 1.35; 16 to 96:
    0.42 -> 0.30). Of results in bytes, one line of each row must stay there, until the next panels have filled it (64
    channels to 256 on AVX2, 3136 rows: 0.90 -> 0.83 ms). Units are for several threads, and panels that are not
    ``packed`` are not cut into any.
    """
    mr, nr = tile[0], tile[1] * target.lanes(acc)
    m, n, k_total = max(m, 1), max(n, 1), max(k_total, 1)
    rows = _rows_within(target.l2_bytes // 2, m, k_total, acc, window)
    if rows < nr:
        rows = max(_rows_within(_FAR_BYTES, m, k_total, acc, window), 4 * mr)
    elif (
        packed
        and n > nr
        and m * n * (written or acc.size) > target.l2_bytes // 2
        and n * k_total * acc.size <= target.l2_bytes // _SMALL
    ):
        row = _LINE if written else (k_total + n) * acc.size
        rows = min(rows, max(target.l1_bytes // 2 // row, _LEAST_TILES * mr))
    if target.asks_in_vain:
        rows = max(rows, _ASKING_TILES * mr)
    if most:
        rows = min(rows, max(most, _LEAST_TILES * mr))
    mb = split_evenly(m, -(-m // rows), mr)
    if threads == 1:
        return mb, -(-n // nr) * nr, mb
    return _shared(target, (m, n, k_total), mb // mr, threads, tile, acc, packed)


def _rows_within(nbytes: int, m: int, k_total: int, acc: DType, window: Window | None) -> int:
    """Rows of A that take at most so many bytes."""
    apart = nbytes // (k_total * acc.size)
    if window is None or apart >= m:
        return apart
    return max(apart, window.rows_within(nbytes // (max(window.channels * acc.size, _LINE)), m))


@functools.lru_cache(maxsize=4096)
def _shared(
    target: Target,
    size: tuple[int, int, int],
    most: int,
    threads: int,
    tile: tuple[int, int],
    acc: DType,
    packed: bool,
) -> tuple[int, int, int]:
    """Blocks and units for several threads, of at most ``most`` rows of tiles."""
    m, n, k = size
    mr, nr = tile[0], tile[1] * target.lanes(acc)
    rows, panels = -(-m // mr), -(-n // nr)
    work = tile_cycles(target, acc, k, *tile)
    read_b = (1 - 1 / threads) * k * n * acc.size / MEMORY_BYTES_PER_CYCLE
    read_a = (1 - 1 / threads) * m * (k + n) * acc.size / MEMORY_BYTES_PER_CYCLE
    again = nr * k * acc.size / _PANEL_BYTES_PER_CYCLE
    least = max(1, math.ceil(_UNIT_CYCLES / work))
    best, found = float("inf"), (rows, rows)
    for high in piece_sizes(rows, threads, most):
        unit = min(least, high) if packed else high
        high = -(-high // unit) * unit
        down = -(-rows // high)
        runs = longest(rows, unit, panels, 1, threads)
        # A run's pieces of panels: every one is read again.
        cost = runs * work + math.ceil(panels * down / threads) * again
        by_rows = (min(down, threads) - 1) / (threads - 1)
        cost += by_rows * read_b + (1 - by_rows) * read_a
        if cost < best:
            best, found = cost, (high, unit)
    return found[0] * mr, nr, found[1] * mr


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
    threads: int = 1,
) -> int:
    """How many of the ``blocks`` of ``n_batch`` products a worker takes at least; all if they are not worth sharing."""
    cycles = n_batch * _cycles(target, m, n, k_total, tile, acc)
    parts = max(1, int(cycles / _LEAST_CYCLES))
    if threads > 1:
        parts = min(parts, _PARTS * threads)
    return min(blocks, -(-blocks // parts))
