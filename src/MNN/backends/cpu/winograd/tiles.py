"""Register tiles of Winograd's products, and how many tiles of an image a block may take."""

from __future__ import annotations

from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

INNER_TILES = ((6, 3), (9, 2), (7, 2), (10, 2), (12, 1), (14, 1))
"""Register tiles of inner products, none of which are plain ones."""
NARROW = ((13, 1), (8, 1), (4, 1))
"""Plain ones for results of one vector, as small groups of channels have them."""
_MOST_GROUPS = 12
_MOST_ROWS = 256
"""Rows of products of a block with a third axis."""
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)


def deep_blocks(tiles: int, depths: int, mr: int, inner_product: bool) -> list[int]:
    """The same for tiles of several results along a third axis. Inner products take whole register tiles of a slice."""
    unit = mr if inner_product else 1
    sizes = sorted({-(-tiles // q // unit) * unit for q in _PARTS})
    return [size for size in sizes if size * depths <= _MOST_ROWS] or sizes[:1]


def register_tiles(target: Target, n: int) -> tuple[tuple[int, int], ...]:
    """Rows and vectors of register tiles for ``n`` columns, those to prefer first."""
    if n <= target.lanes(DType.F32):
        return NARROW if target.vector_registers >= 32 else NARROW[1:]
    if target.lane_operand:
        return ((8, 2), (5, 4), (4, 4), (4, 2))
    if target.vector_registers >= 32:
        return ((8, 2), (6, 4), (8, 3), (4, 4), (5, 4), (7, 3))
    return ((6, 2), *(((4, 3),) if target.vector_registers > 16 else ()), (4, 2), (5, 2), (3, 2))


def blocks_to_try(tiles: int, mr: int) -> list[int]:
    """Sizes of blocks to try: tiles in nearly equal parts, in whole register tiles."""
    units = -(-tiles // mr)
    parts = [q for q in _PARTS if q <= units]
    return sorted({-(-units // q) * mr for q in parts if -(-units // q) * mr <= max(128, mr) or q == parts[-1]})[
        -_MOST_GROUPS:
    ]
