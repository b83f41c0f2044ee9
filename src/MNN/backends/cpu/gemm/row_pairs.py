"""Products of bytes whose last vector of columns belongs to two rows, each half of it to one.

24 columns are a vector and a half. Where rows are computed by themselves the other half is multiplied for nothing, a
quarter of all products (of 40 columns a sixth, of 56 an eighth). Two rows share that vector: the columns of the right
side stand in both of its halves, and of the left side there is one row's group in one half and the other's in the
other. Putting these together takes no unit that multiplies.
"""

from __future__ import annotations

import functools

from MNN.backends.cpu.products.dot8 import in_halves
from MNN.backends.cpu.products.register_tiles import MEMORY_BYTES_PER_CYCLE, tile_cycles, with_memory
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_MOST_ROWS, _MOST_HALVES = 14, 9
_EVEN_ROWS = 2520
"""Rows that suit all tiles: so one is taken for all sizes of an input, and open ones have one kernel."""
_BEHIND = 1.03
"""What must be gained at least: vectors that lie across lines of memory, and rows that end in halves."""
_MIXED = 0.25
"""What it costs to put two rows' groups together, of a product of a vector."""


def pairs_rows(target: Target) -> bool:
    """Whether the target sums products of bytes in a way that rows can share a vector."""
    return not target.lane_operand and not in_halves(target) and target.lanes(DType.I32) > 2


def shared_halves(vectors: int) -> int:
    """Halves of vectors that a row of a tile has, of whose ``vectors`` the last one is shared."""
    return 2 * vectors - 1


def columns_of_pairs(target: Target, vectors: int) -> int:
    """Columns of such a tile."""
    return shared_halves(vectors) * target.lanes(DType.I32) // 2


@functools.lru_cache(maxsize=1024)
def choose_pairs(target: Target, n: int, steps: int) -> tuple[int, int] | None:
    """Rows and vectors, the shared one with them, of the tile for ``n`` columns and ``steps`` of the sum; None where
    the processor has no such instructions, or registers for no tile."""
    if not pairs_rows(target):
        return None
    half = target.lanes(DType.I32) // 2
    needed = -(-n // half)
    tiles = [
        (mr, -(-halves // 2))
        for halves in range(1, min(_MOST_HALVES, needed + 1) + 1, 2)
        for mr in range(2, _MOST_ROWS + 1, 2)
        if _fits(target, mr, -(-halves // 2))
    ]
    return min(tiles, key=lambda t: pairs_cycles(target, _EVEN_ROWS, n, steps, t), default=None)


def pairs_cycles(target: Target, m: int, n: int, steps: int, tile: tuple[int, int]) -> float:
    """Cycles of a product of ``m`` x ``n``."""
    mr, nv = tile
    # As products of whole vectors are estimated, which those in pairs are weighed against.
    share = shared_halves(nv) / (2 * nv)
    work = max(tile_cycles(target, DType.F32, steps, mr, nv) * share, steps * (mr + nv) / target.loads_per_cycle)
    work += steps * mr / 2 * _MIXED / target.fma_per_cycle
    columns = columns_of_pairs(target, nv)
    panels = -(-n // columns)
    memory = panels * columns * steps * DType.I32.size / MEMORY_BYTES_PER_CYCLE
    return with_memory(-(-m // mr) * panels * work, memory) * _BEHIND


def _fits(target: Target, mr: int, nv: int) -> bool:
    """Sums, vectors of B, the groups of two rows, those together, and one register that is left over."""
    return mr * (nv - 1) + mr // 2 + nv + 4 <= target.vector_registers


__all__ = ["choose_pairs", "columns_of_pairs", "pairs_cycles", "pairs_rows", "shared_halves"]
