"""Choices for inner products (:mod:`MNN.backends.cpu.inner_product.spec`): their register tile and blocks, from a cost
model."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from MNN.backends.cpu.inner_product.iteration import FULL_REGISTER_TILE, HEAD, fills_registers, iteration_of
from MNN.backends.cpu.products.load_balance import split_evenly
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

Tile = tuple[int, int]

_TILES: tuple[Tile, ...] = ((9, 2), (6, 3), (7, 2), (10, 2), (14, 1), (12, 1), (9, 1))
"""Register tiles in which LLVM spills nothing; the first ones are preferred."""
_NEAR = 1.02
"""A tile this close to the best is taken if it comes earlier, so that a network needs fewer kernels."""
_FAR = 1 / 8
"""Of the second-level cache, for a panel: larger ones, the next one and rows of A leave too little of it (AVX2, which
has four rows in a tile: a depth of 3072 takes 18 % longer than one of 768)."""
_NEAR_BYTES = 20 << 10
"""A panel of B up to this size stays in the first-level cache."""


@dataclass(frozen=True)
class _Losses:
    """What tiles cost beside their multiply-adds and additions, measured."""

    late: float
    """How much longer these take, loads and all."""
    tile: float
    vector: float
    """Cycles of a tile's start and end, and of each of its vectors."""
    rows: float
    row: float
    number: float
    """Cycles to prepare a tile of rows, each of its rows, and each number of these."""
    far: float
    unhidden: float
    """Bytes per cycle of a panel from the second-level cache, and how much of that does not hide behind arithmetic."""


_USUAL = _Losses(1.0, 50.0, 3.0, 120.0, 25.0, 0.42, 16.0, 0.13)
_FULL_REGISTERS = _Losses(1.16, 50.0, 1.0, 80.0, 0.0, 0.43, 32.0, 0.09)
_CUT_CYCLES = 6.0
"""What a vector costs more in tiles that are cut."""
_NEAR_BYTES_PER_CYCLE = 32.0
"""What a panel is read with from the second-level cache."""
_MEMORY_BYTES_PER_CYCLE, _WAITING = 10.0, 0.1
SHORTEST = 48
"""Depth from which on sums in whole turns (with 16 registers) may gain anything."""


def has_inner_product(target: Target) -> bool:
    """Whether inner products are faster: with adders beside multipliers, and operands from memory in all lanes (what
    puts A's numbers into registers first takes as long as what is saved)."""
    in_memory = target.broadcast_operand and target.fma_per_cycle == 1.0
    return target.separate_adders and (in_memory or fills_registers(target))


def _cycles(target: Target, m: int, n: int, k: int, tile: Tile, threads: int) -> float:
    mr, nv = tile
    nr = nv * target.lanes(DType.F32)
    iteration, lost = iteration_of(target, mr, nv), _FULL_REGISTERS if fills_registers(target) else _USUAL
    halved = len(iteration.halved[0])
    pair = lost.late * nv * max(2.0 * halved, 2.0 * mr - halved) / target.fma_per_cycle
    k = iteration.whole(k)
    if nr * k * DType.F32.size > _NEAR_BYTES:
        read = 2.0 * nr * DType.F32.size / lost.far
        if fills_registers(target) and nr * k * DType.F32.size > target.l2_bytes * _FAR:
            read *= 2
        pair = max(pair, read) + lost.unhidden * read
    rows, panels = -(-m // mr), -(-n // nr)
    cut = (panels if m % mr else 0) + (rows if n % nr else 0)
    work = k / 2 * pair + lost.tile + lost.vector * mr * nv
    prepare = lost.rows + mr * (lost.row + lost.number * k)
    compute = _tiles(rows, panels, threads) * work + rows * prepare + cut * _CUT_CYCLES * mr * nv
    if threads > 1:
        compute += _again(rows, panels, nr * k * DType.F32.size, prepare, threads, _block(target, m, k, tile))[0]
    memory = panels * nr * (k + HEAD) * DType.F32.size / _MEMORY_BYTES_PER_CYCLE
    return max(compute, memory) + _WAITING * compute


@functools.lru_cache(maxsize=4096)
def choose_inner_product(
    target: Target, m: int, n: int, k: int, earlier: Tile | None, threads: int
) -> tuple[Tile, float]:
    """The register tile for ``m`` x ``n`` sums of ``k`` products, and cycles of all threads together while the longest
    works; the tile taken ``earlier`` for other rows is kept."""
    tiles = (earlier,) if earlier else (FULL_REGISTER_TILE,) if fills_registers(target) else _TILES
    costs = {tile: _cycles(target, m, n, k, tile, threads) for tile in tiles}
    limit = min(costs.values()) * _NEAR
    tile = next(tile for tile, cost in costs.items() if cost <= limit)
    return tile, costs[tile]


def applies(target: Target, m: int, n: int, k: int) -> bool:
    """Whether there are kernels for such a product at all."""
    return has_inner_product(target) and k >= (SHORTEST if fills_registers(target) else 1) and m >= 2 and n > 1


def _block(target: Target, m: int, k: int, tile: Tile) -> int:
    """Tiles of rows of a block: what is prepared of them stays in half of the second-level cache."""
    fit = max(target.l2_bytes // 2 // (k * DType.F32.size), tile[0])
    return split_evenly(m, -(-m // fit), tile[0]) // tile[0]


def _tiles(rows: int, panels: int, threads: int) -> int:
    """Tiles of all threads together, while the one with most of them works."""
    return threads * -(-rows * panels // threads)


def _again(rows: int, panels: int, size: int, prepare: float, threads: int, most: int) -> tuple[float, int]:
    """What several threads do more than one, in cycles, and the tiles of rows of a block, at most ``most``.

    Threads share tiles one by one, block by block. Where a block is in the part of two threads, both prepare its rows;
    smaller blocks read panels (of ``size`` bytes) more often.
    """
    options = {min(most, -(-rows // (threads * parts))) for parts in (1, 2, 4)} | {most}

    def cost(block: int) -> float:
        twice = 0 if _apart(rows, block, threads) else (threads - 1) * block
        return twice * prepare + -(-rows // block) * panels * size / _NEAR_BYTES_PER_CYCLE

    best = min(options, key=lambda block: (cost(block), -block))
    return cost(best), best


def _apart(rows: int, block: int, threads: int) -> bool:
    """Whether every thread's part is whole blocks."""
    return rows % threads == 0 and rows // threads % block == 0


def choose_cut(target: Target, m: int, n: int, k: int, tile: Tile, threads: int) -> tuple[int, int, int, int]:
    """Rows and columns of a block, rows of a unit, and how many units a worker takes at a time."""
    mr, nr = tile[0], tile[1] * target.lanes(DType.F32)
    rows, panels, most = -(-m // mr), -(-n // nr), _block(target, m, k, tile)
    if threads == 1:
        return most * mr, panels * nr, most * mr, 1
    lost = _FULL_REGISTERS if fills_registers(target) else _USUAL
    prepare = lost.rows + mr * (lost.row + lost.number * k)
    block = _again(rows, panels, nr * k * DType.F32.size, prepare, threads, most)[1]
    grain = block * panels if _apart(rows, block, threads) else -(-rows * panels // threads)
    return block * mr, nr, mr, grain
