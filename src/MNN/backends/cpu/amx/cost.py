"""How contractions on AMX tiles are cut into blocks, and what they cost.

A product of two tiles (16 x 16 x 32) takes 16 cycles of the matrix unit at best. What keeps it from that are the loads
of tiles from the second-level cache, the conversion of A to bf16 parts, the epilogue, and B's bytes from memory.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from MNN.backends.cpu.amx.byte_parts import STEP_BYTES
from MNN.backends.cpu.amx.layout import DEPTH, HEIGHT, LEAST, Layout, Table
from MNN.backends.cpu.amx.scale import SCALE_BYTES
from MNN.backends.cpu.amx.split import PRODUCTS
from MNN.backends.cpu.amx.tiles import ROWS, TILE_BYTES
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

PANEL = 32
LEAST_COLUMNS = 8
"""With fewer columns, tiles would be mostly padding."""
_PRODUCT = {1: 24.0, 2: 22.0, 3: 21.0}
"""Cycles of a product of two tiles, with its loads, by parts."""
_PAIR = 120.0
"""Cycles to begin and end the sums of two by two tiles."""
_CONVERT = {1: 6.0, 2: 12.0, 3: 18.0}
"""Cycles to bring 32 elements of A."""
_SCALE = 10.0
"""Cycles to scale 32 elements of A, and to find the scale, beside bringing them in two parts."""
_MOVE = 8.0 / _CONVERT[2]
"""What it costs where A is in its two parts already, compared with others."""
DIRECT_COLUMNS = 384
"""Columns up to which tiles are better loaded from rows in two parts themselves than brought: every panel loads them
again, from rows that lie less conveniently (289 rows, depth 768, 192 columns: 195 -> 166 us; 197 rows, 768 columns:
12 % slower); the limit between these is estimated."""
_CUT = 2.0
"""What elements of joined rows cost, compared with others: they are copied in short runs."""
_PIECE = 1.5
"""Cycles to bring a section's elements of a pixel, a load and a store, where these are less than a row of a tile."""
_OWN_ROWS = {ROWS: (28.0, 3.2), PANEL: (6.0, 0.4)}
"""Cycles that the sums of two by two tiles take longer in sections of so many columns, for each element of a pixel: to
begin with, and a step. Rows lie across lines, and where each column tile has rows of its own they are loaded twice as
often. (Sapphire Rapids, 23 grouped convolutions in bf16 and in bytes. Of the time with lines of all groups as one, 3x3
in bf16 take 1.04 to 1.19, with strides of 2 or in bytes 0.85 to 1.05, 5x5 and 7x7 0.66 to 0.91.)"""
_EPILOGUE = {1: 2.5, 2: 2.5, 3: 9.0}
"""Cycles for a vector of results, by parts. (With 2.5 cycles for three, sums of up to 64 numbers took 1.3 to 1.5 times
as long as estimated, beside longer sums. With 9 for two a MobileNetV2 lost a fifth.)"""
_MEMORY_BYTES_PER_CYCLE = 10.0
_SHARED_BYTES_PER_CYCLE = 6.0
"""What each of several threads gets."""
_SAME_BYTES_PER_CYCLE = 5.0
"""The same where others read the same bytes at the same time, as they do when only rows are cut (128 rows, depth 3072,
768 columns, fp16 parts, two threads: 1050 us cut into rows, 910 into columns; depth 768: 268 and 195)."""
_SPILLED = 3.0
"""How often what a block brings and the second-level cache does not hold goes through memory: written, and read by
the taps of a window."""
_NOT_HIDDEN = 0.25
"""Share of the lesser of arithmetic and memory that does not overlap with the other."""
SET_UP = 600.0
_BEGIN = 1000.0
"""Cycles to claim a block and to begin with it."""
HANDED = 2500.0
"""Cycles until other workers take part in a command, and until they are known to be done."""
FOREIGN = 25.0
"""Cycles that a line of A (64 bytes) takes longer where another thread wrote it: it lies in that one's caches."""
_LATE = 0.1
"""Of a block: what workers wait for one another where they do not run at the same speed, or come late."""
_HELD = 3 / 8
"""Of the second-level cache: up to so large a B, rows that do not come out even are shared by threads, each of which
computes some columns (197 rows, depth 192, 576 columns, two threads: 60 -> 47 us). A larger one comes from behind the
cache, faster where threads are not all at the same place (197 rows, depth 3072: 3 % slower when shared)."""
_MOST_SHARES = 4
"""Blocks per thread, at most, that columns or rows are cut into for the threads' sake."""
_SETS_BYTES = 4096
"""Lines so far apart lie in one set of the first-level cache."""
_CHUNK = 128 << 10
"""Bytes of A in a block where B is small enough to be read again for every block."""
STRETCH = 4
"""Steps of tall sums at a time: four row tiles of two parts then take two thirds of the first-level cache."""
_CHUNKED_COLUMNS = 1024
_LEAST_CHUNK = 256


@dataclass(frozen=True)
class Plan:
    """How to cut a contraction: ``rows`` of the product per block (of the image, for windows), ``nb`` columns, and
    ``chunk`` products of a sum at a time (0: all). The last ``shared`` rows of the product are in every block, which
    computes some of their columns. Of several ``slices`` (:mod:`MNN.backends.cpu.amx.slices`) every block has one
    chunk. ``cycles``: of all blocks together; ``time``: until all threads are done with them."""

    rows: int
    nb: int
    cycles: float
    time: float
    chunk: int = 0
    shared: int = 0
    slices: int = 1


def panel_bytes(n_steps: int, parts: int, w24: bool = False, half: bool = False) -> int:
    """Bytes of a packed panel of B."""
    return n_steps * 2 * (STEP_BYTES if w24 else parts * TILE_BYTES) + half * SCALE_BYTES


def asks_results(target: Target, dtype: DType, count: int) -> bool:
    """Whether so many results are asked for before they are stored: where no cache near has their memory."""
    return dtype is not DType.BF16X2 and count * dtype.size > 2 * target.l2_bytes


def in_one_set(rows: Table, dtype: DType) -> bool:
    """Whether lines of neighbouring rows all lie in the same set of the first-level cache, which has fewer ways than a
    tile has rows: every panel loads them again from the cache behind it (256 rows, depth 2048, 1024 columns, bf16, two
    threads: 0.97 ms, brought 0.66; for 256 columns bringing them takes as much as it saves)."""
    return rows.size > 1 and int(rows[1] - rows[0]) * dtype.size % _SETS_BYTES == 0


def is_tall(target: Target, layout: Layout, parts: int) -> bool:
    """Whether sums are better tall: for few rows, of which all do not fit the second-level cache beside two panels."""
    if layout.chunks > 1 or layout.sliced or layout.direct or parts != 2 or not LEAST <= layout.tiles <= HEIGHT:
        return False
    return parts * layout.plane + 2 * panel_bytes(layout.n_steps, parts) > target.l2_bytes * 5 // 8


def tall_columns(target: Target, layout: Layout, nb: int) -> int:
    """Columns of a block of tall sums: as many as have their sums in a quarter of the second-level cache."""
    most = max(1, target.l2_bytes // 4 // (layout.tiles * ROWS * PANEL * 4))
    panels = -(-nb // PANEL)
    return -(-panels // -(-panels // most)) * PANEL


def lines_of(parts: int) -> int:
    """Lines of 64 bytes that 32 elements of A take: in one part they are bf16, else f32 or two parts of 16 bits."""
    return min(parts, 2)


def bringing(parts: int, parted: bool, half: bool) -> float:
    """What bringing elements of A costs, compared with splitting them into bf16 parts."""
    return _MOVE if parted else 1 + half * _SCALE / _CONVERT[parts]


def _right_bytes(n: int, n_steps: int, parts: int) -> int:
    return -(-n // ROWS) * ROWS * n_steps * DEPTH * 2 * parts


def block_cycles(
    m: int, tiles: int, n: int, n_steps: int, brought: float, parts: int, rate: float, reads: float
) -> float:
    """``m`` results of ``n`` columns in ``tiles`` row tiles, B being read ``reads`` times at so many bytes a cycle."""
    columns = -(-n // ROWS)
    products = len(PRODUCTS[parts]) * tiles * columns * n_steps
    pairs = -(-tiles // 2) * -(-columns // 2)
    compute = products * _PRODUCT[parts] + pairs * _PAIR + brought * _CONVERT[parts] + m * n / 16 * _EPILOGUE[parts]
    memory = _right_bytes(n, n_steps, parts) * reads / rate
    return max(compute, memory) + 0.1 * compute + _NOT_HIDDEN * min(compute, memory)


def memory_rate(threads: int) -> float:
    return _MEMORY_BYTES_PER_CYCLE if threads == 1 else _SHARED_BYTES_PER_CYCLE


def _stays(target: Target, n: int, n_steps: int, parts: int) -> bool:
    """Whether B stays in the second-level cache from block to block."""
    return _right_bytes(n, n_steps, parts) <= target.l2_bytes // 4


def until_done(blocks: Sequence[float], threads: int) -> float:
    """Until workers that take these blocks in turn are done with all of them."""
    if threads == 1 or len(blocks) == 1:
        return sum(blocks)
    ends = [HANDED] * threads
    for block in blocks:
        heapq.heapreplace(ends, ends[0] + block + _BEGIN)
    return max(ends) + _LATE * max(blocks)


@dataclass(frozen=True)
class _Cut:
    """Rows and panels of a block; cycles until all threads are done, and of all blocks together."""

    rows: int
    panels: int
    time: float
    total: float


def _cut(
    rows: int,
    unit: int,
    counts: Sequence[int],
    panels: int,
    widest: int,
    batch: int,
    threads: int,
    cost: Callable[[int, int, float, float, float], float],
) -> _Cut:
    """How threads get done first with ``batch`` times ``rows`` rows and ``panels`` panels.

    Rows are cut into one of ``counts`` parts, or more for the threads' sake, of whole ``unit`` rows; columns into parts
    of at most ``widest`` panels. Blocks that share rows bring them each. ``cost``: of a block of so many rows and
    panels, where a thread has so many blocks of the same panels, this share of the rows comes from other threads (the
    command before is cut into rows, too), and panels come at so many bytes a cycle.
    """
    wanted = [threads * share for share in range(1, _MOST_SHARES + 1)] if threads > 1 else [1]
    least = min(counts)
    more = (
        {max(least, -(-w // (batch * across))) for w in wanted for across in (1, 2, 3, 4, threads)}
        if threads > 1
        else ()
    )
    found: dict[tuple[int, int], _Cut] = {}
    for count in sorted({*counts, *more}):
        even = -(-rows // count)
        height = min(-(-even // unit) * unit, rows)
        n_rows = -(-rows // height)
        for across in sorted({1, *(-(-w // (batch * n_rows)) for w in wanted)}):
            width = min(-(-panels // min(across, panels)), widest)
            if (height, width) not in found:
                n_columns = -(-panels // width)
                again = max(1.0, n_rows * min(batch, threads) / threads)
                own = 1 / min(n_columns, threads)
                heights = [height] * (n_rows - 1) + [rows - height * (n_rows - 1)]
                widths = [width] * (n_columns - 1) + [panels - width * (n_columns - 1)]
                rate = _SAME_BYTES_PER_CYCLE if n_columns * batch < threads else memory_rate(threads)
                each = {(h, w): cost(h, w, again, 1 - own, rate) for h in set(heights) for w in set(widths)}
                blocks = [each[h, w] for h in heights for w in widths]
                total = sum(blocks) * batch
                if len(blocks) * batch > 4 * _MOST_SHARES * threads:  # so many that they come out even
                    time = total / threads
                else:
                    time = until_done(blocks * batch, threads)
                found[height, width] = _Cut(height, width, time, total)
    return min(found.values(), key=lambda cut: cut.time)


def _row_bytes(target: Target, n: int, n_steps: int, parts: int) -> int:
    """Bytes of A that a block may take."""
    b = -(-n // PANEL) * panel_bytes(n_steps, parts)
    return _CHUNK if b <= target.l2_bytes // 4 else target.l2_bytes // 2


@functools.lru_cache(maxsize=1024)
def plan_rows(
    target: Target, m: int, n: int, k: int, n_taps: int, parts: int, batch: int, threads: int, direct: bool = False,
    parted: bool = False, half: bool = False, apart: bool = False,
) -> Plan:  # fmt: skip
    """For rows of ``n_taps`` joined runs of ``k`` elements, which need not be brought when ``direct``, and are in their
    parts already when ``parted``. No rows are shared by blocks when ``apart``."""
    n_steps = -(-n_taps * k // DEPTH)
    pitch = n_steps * DEPTH * 2 * parts
    per_row = n_taps * -(-k // DEPTH) * (_CUT if n_taps > 1 and k % DEPTH else 1.0)
    per_row *= 0.0 if direct else bringing(parts, parted, half)
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
    stays, lines = _stays(target, n, n_steps, parts), lines_of(parts)

    def cost(height: int, panels: int, blocks: float, foreign: float, rate: float) -> float:
        width = min(n, panels * PANEL)
        reads = 1 / blocks if stays else 1.0
        cycles = block_cycles(height, -(-height // ROWS), width, n_steps, height * per_row, parts, rate, reads)
        return cycles + height * n_steps * lines * foreign * FOREIGN

    unit = PANEL if threads == 1 else ROWS
    panels = -(-n // PANEL)
    cut = _cut(m, unit, (-(-m // rows),), panels, -(-columns // PANEL), batch, threads, cost)
    alone = apart or direct or batch > 1 or panels > -(-columns // PANEL)
    held = _right_bytes(n, n_steps, parts) <= target.l2_bytes * _HELD
    own, shared = _shares(m, threads) if held and not alone else (0, 0)
    if own and own * ROWS + shared <= rows:
        block = cost(own * ROWS, panels, 1, 0, _SAME_BYTES_PER_CYCLE) + shared * per_row * _CONVERT[parts]
        width = -(-panels // threads) * PANEL
        block += block_cycles(shared, -(-shared // ROWS), width, n_steps, 0, parts, math.inf, 0)
        time = until_done([block] * threads, threads)
        if time < cut.time:
            return Plan(own * ROWS + shared, panels * PANEL, block * threads + SET_UP, time, chunk, shared)
    return Plan(-(-cut.rows // ROWS) * ROWS, cut.panels * PANEL, cut.total + SET_UP, cut.time, chunk)


def _shares(m: int, threads: int) -> tuple[int, int]:
    """Pairs of row tiles are dealt out to threads evenly: how many tiles each has, and the rows behind those of all. 0
    where nothing is left, or a block has too few tiles."""
    own = m // ROWS // threads // 2 * 2
    shared = m - own * ROWS * threads
    return (own, shared) if threads > 1 and shared and own + -(-shared // ROWS) > HEIGHT else (0, 0)


@functools.lru_cache(maxsize=1024)
def plan_window(
    target: Target, w: Window, n: int, parts: int, threads: int, share: float = 1.0, parted: bool = False,
    half: bool = False, sections: tuple[int, int] | None = None,
) -> Plan:  # fmt: skip
    """For pixels of an image (in their parts already when ``parted``), of whose steps of channels only a ``share`` is
    brought where they overlap. ``sections``: columns that have pixels of their own, and elements of such a pixel."""
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
    line = max(1, int(inner * chunks * DEPTH * 2 * parts * used * share))
    height = w.outputs[0]
    stays, lines = _stays(target, n, n_steps, parts), lines_of(parts)
    bring = share * bringing(parts, parted, half)
    panels = widest = -(-n // PANEL)
    room = _row_bytes(target, n, n_steps, parts)
    per, own_rows = n, 0.0  # columns with the same pixels
    if sections is not None:
        per, piece = sections
        bring *= min(1.0, DEPTH / piece * _PIECE / _CONVERT[1]) if piece < DEPTH else 1.0
        begin, step = _OWN_ROWS[per]
        own_rows = piece * (begin + n_steps * step)
        room = target.l2_bytes // 2
        widest = min(panels, max(1, room // (line * 2 * max(1, reach)) * per // PANEL))

    def cost(rows: int, panels: int, blocks: float, foreign: float, rate: float) -> float:
        width = min(n, panels * PANEL)
        tiles = -(-rows * inner // ROWS)
        beside = -(-width // per)
        brought = (rows + reach) * inner * chunks * used * bring * beside
        reads = 1 / blocks if stays else 1.0
        cycles = block_cycles(rows * outer, tiles, width, n_steps, brought, parts, rate, reads)
        if own_rows:
            cycles += -(-tiles // 2) * -(-width // PANEL) * own_rows
        read = min(rows + reach, height) * outer * chunks * used
        spilled = max(0, (rows + reach) * line * beside - target.l2_bytes * 3 // 4)
        read = int(read * share * beside) if sections else read
        return cycles + read * lines * foreign * FOREIGN + spilled * _SPILLED / rate

    line_of_all = line * -(-min(n, widest * PANEL) // per)
    room = max(1, room // line_of_all - reach)
    if room < 2 * reach:  # what is brought again for the next rows would be most of it
        room = max(room, min(2 * reach, target.l2_bytes * 5 // 8 // line_of_all - reach))
    least = -(-height // min(room, height))
    counts = range(least, min(least + 8, height + 1))  # other cuts may leave less of the tiles to padding
    cut = _cut(height, 1, counts, panels, widest, w.images, threads, cost)
    return Plan(cut.rows, cut.panels * PANEL, cut.total + SET_UP, cut.time)
