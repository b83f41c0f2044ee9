"""How contractions on AMX tiles are cut into blocks, and what they cost.

A product of two tiles (16 x 16 x 32) takes 16 cycles of the matrix unit at best. What keeps it from that are the loads
of tiles from the second-level cache, the conversion of A to bf16 parts, the epilogue, and B's bytes from memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from MNN.kernels.amx_layout import DEPTH, Layout, Window
from MNN.kernels.amx_split import PRODUCTS
from MNN.kernels.amx_tiles import ROW_BYTES, ROWS, TILE_BYTES
from MNN.targets.base import Target

PANEL = 32
_PRODUCT = {1: 24.0, 2: 22.0, 3: 21.0}
"""Cycles of a product of two tiles, with its loads, by parts."""
_PAIR = 120.0
"""Cycles to begin and end the sums of two by two tiles."""
_CONVERT = {1: 6.0, 2: 12.0, 3: 18.0}
"""Cycles to bring 32 elements of A."""
_CUT = 0.6
"""What elements of joined rows cost, compared with others: most are only copied."""
_EPILOGUE = 2.5
"""Cycles for a vector of results."""
_MEMORY_BYTES_PER_CYCLE = 10.0
_SET_UP = 600.0
_SHARE = 3
"""Blocks per thread to aim at."""
_SMALL_BLOCK = 20_000.0
"""Cycles below which a block is not worth handing to another worker."""
_CHUNK = 128 << 10
"""Bytes of A in a block where B is small enough to be read again for every block."""


_GROUP = 8
"""Panels of a group at most: rows of results are then written in runs of some length, which memory likes."""
_CHUNKED_COLUMNS = 1024
_LEAST_CHUNK = 256
_MOST_AHEAD = 16
"""More lines fetched in a step than this wait for each other and for the tiles."""


@dataclass(frozen=True)
class Plan:
    """How to cut a contraction: ``rows`` of the product per block (of the image, for windows), ``nb`` columns, and
    ``chunk`` products of a sum at a time (0: all)."""

    rows: int
    nb: int
    cycles: float
    chunk: int = 0


@dataclass(frozen=True)
class Grouping:
    """Slots ``group``, ``line`` and ``held`` of a kernel call, and its spec's ``ahead``."""

    group: int
    line: int
    held: int
    ahead: int


def panel_bytes(n_steps: int, parts: int) -> int:
    """Bytes of a packed panel of B."""
    return n_steps * parts * 2 * TILE_BYTES


def grouping(target: Target, n: int, nb: int, layout: Layout, parts: int) -> Grouping:
    """For ``n`` columns in blocks of ``nb``."""
    size = panel_bytes(layout.n_steps, parts)
    panels = -(-min(n, nb) // PANEL)
    pairs = layout.pairs
    if layout.chunks > 1:
        group, columns, rows = 1, panels, pairs * PANEL
    else:
        most = max(1, min(_GROUP, panels, target.l2_bytes // 4 // size))
        group = columns = -(-panels // -(-panels // most))
        rows = PANEL
    line = columns * PANEL * 4
    line += ROW_BYTES if line % 256 == 0 else 0
    in_cache = panels * size <= target.l2_bytes // 4 and layout.m_blocks > 2
    each = min(parts * PANEL / pairs, _MOST_AHEAD)
    ahead = 0 if in_cache else next(lines for lines in (1, 2, 4, 8, 16) if lines >= each)
    return Grouping(group * PANEL, line, rows * line, ahead)


def _cycles(
    target: Target, m: int, tiles: int, n: int, n_steps: int, brought: float, parts: int, blocks: int = 1
) -> float:
    columns = -(-n // ROWS)
    products = len(PRODUCTS[parts]) * tiles * columns * n_steps
    pairs = -(-tiles // 2) * -(-columns // 2)
    compute = products * _PRODUCT[parts] + pairs * _PAIR + brought * _CONVERT[parts] + m * n / 16 * _EPILOGUE
    right = columns * ROWS * n_steps * DEPTH * 2 * parts
    reads = blocks if right > target.l2_bytes // 4 else 1  # once per block, or it stays in the cache
    memory = right * reads / _MEMORY_BYTES_PER_CYCLE
    return max(compute, memory) + 0.1 * compute


def _columns(target: Target, n: int, total: float, row_blocks: int, threads: int) -> int:
    """Columns of a block: all, unless there are too few blocks for the threads."""
    panels = -(-n // PANEL)
    if threads == 1:
        return panels * PANEL
    want = min(threads * _SHARE, max(1, int(total / _SMALL_BLOCK)))
    parts = max(1, min(panels, -(-want // row_blocks)))
    return -(-panels // parts) * PANEL


def _row_bytes(target: Target, n: int, n_steps: int, parts: int) -> int:
    """Bytes of A that a block may take."""
    b = -(-n // PANEL) * panel_bytes(n_steps, parts)
    return _CHUNK if b <= target.l2_bytes // 4 else target.l2_bytes // 2


def plan_rows(target: Target, m: int, n: int, k: int, n_taps: int, parts: int, batch: int, threads: int) -> Plan:
    """For rows of ``n_taps`` joined runs of ``k`` elements."""
    n_steps = -(-n_taps * k // DEPTH)
    pitch = n_steps * DEPTH * 2 * parts
    brought = m * n_taps * -(-k // DEPTH) * (_CUT if n_taps > 1 and k % DEPTH else 1.0)
    tiles = -(-m // ROWS)
    total = _cycles(target, m, tiles, n, n_steps, brought, parts) * batch
    room = _row_bytes(target, n, n_steps, parts)
    if n_taps > 1:  # joined rows share lines
        room = max(room, target.l2_bytes // 4)
    rows = max(PANEL, room // pitch // PANEL * PANEL)
    chunk, columns = 0, n
    if n_taps == 1 and rows < m and k >= 2 * _LEAST_CHUNK and n * k * 2 * parts > target.l2_bytes // 4:
        # Rows that do not stay in the cache as a whole: a part of their length at a time, for all of them.
        room = target.l2_bytes * 3 // 8
        columns = -(-n // -(-n // _CHUNKED_COLUMNS))
        rows = max(PANEL, room // (columns * 4) // PANEL * PANEL)
        even = -(-m // -(-m // rows))
        chunk = max(_LEAST_CHUNK, room // (even * 2 * parts))
        chunk = -(-k // -(-k // chunk) // DEPTH) * DEPTH
    blocks = -(-m // rows)
    if threads > 1:
        want = min(threads * _SHARE, max(1, int(total / _SMALL_BLOCK)))
        if m >= n:
            blocks = max(blocks, -(-want // batch))
    even = -(-m // blocks)
    rows = min(-(-even // PANEL) * PANEL, -(-m // ROWS) * ROWS)
    nb = min(_columns(target, n, total, -(-m // rows) * batch, threads), -(-columns // PANEL) * PANEL)
    total = _cycles(target, m, tiles, n, n_steps, brought, parts, -(-m // rows)) * batch
    return Plan(rows, nb, total + _SET_UP, chunk)


def plan_window(target: Target, w: Window, n: int, parts: int, threads: int) -> Plan:
    """For pixels of an image."""
    chunks = -(-w.channels // DEPTH)
    taps, inner, outer, reach = 1, 1, 1, 0
    for i, (o, k, s, d) in enumerate(zip(w.outputs, w.kernel, w.strides, w.dilations, strict=True)):
        taps *= k
        phases = min(s, k)
        if i == 0:
            reach, used = (k - 1) * d // s, phases
        else:
            inner, outer, used = inner * (o + (k - 1) * d // s), outer * o, used * phases
    n_steps = taps * chunks
    line = inner * chunks * DEPTH * 2 * parts * used
    height = w.outputs[0]

    def cost(rows: int) -> float:
        blocks = -(-height // rows)
        tiles = w.images * blocks * -(-rows * inner // ROWS)
        brought = w.images * blocks * (rows + reach) * inner * chunks * used
        return _cycles(target, w.images * height * outer, tiles, n, n_steps, brought, parts, w.images * blocks)

    room = max(1, _row_bytes(target, n, n_steps, parts) // line - reach)
    total = cost(min(room, height))
    most = min(room, height)
    if threads > 1:
        want = min(threads * _SHARE, max(1, int(total / _SMALL_BLOCK)))
        most = min(most, max(1, -(-height * w.images // want))) if height * inner >= n else most
    choices = sorted({-(-height // parts_) for parts_ in range(-(-height // most), height + 1)}, reverse=True)
    rows = min(choices[:8], key=cost)
    nb = _columns(target, n, total, -(-height // rows) * w.images, threads)
    return Plan(rows, nb, cost(rows) + _SET_UP)
