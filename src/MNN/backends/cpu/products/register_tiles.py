"""Choices for contractions, from a cost model of the target: the register tile; and the packing of B.

The model counts cycles of one step of the sum (one k) for a tile of ``mr`` rows and ``nv`` vectors, as the largest of

- arithmetic: ``mr * nv`` FMAs over the target's FMA units, and no less than the latency of one FMA (each sum waits for
  its own previous step);
- loads: ``nv`` vectors of B and ``mr`` scalars of A over the load units. More than 8 rows whose distance is a
  multiple of 4096 bytes fall into one set of an 8-way first-level cache and come from the second level, at three
  cycles a line;
- issue: all of these and the loop's own instructions over the processor's width;
- B's stream: a panel larger than half the first-level cache comes from the second level.

A tile also costs its start and end (tables, stores, the slower store of cut tiles). Rows and columns of padding cost
as much as real ones, which is what decides between tiles for the small extents of networks; the same goes for what
threads cannot share evenly. No product is faster than B's bytes come from memory, which is all that counts for a matrix
times few vectors.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.products.dot8 import in_halves
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_ISSUE_WIDTH = 5.0
_L2_BYTES_PER_CYCLE = {(16, 32): 32.0, (32, 32): 16.0}
_USUAL_L2_BYTES_PER_CYCLE = 11.0
"""By registers and bytes of a vector; measured on products. (2x5 vectors of 32 bytes, five cycles a step, lose nothing
to panels of 38 KB.)"""
MEMORY_BYTES_PER_CYCLE = 10.0
_L1_WAYS = 8
_L1_PERIOD = 4096
_MAX_ROWS, _MAX_VECTORS = 14, 8
_TOLERANCE = {DType.I32: 1.005}
_USUAL_TOLERANCE = 1.03
"""A usual tile that is this close to the best is taken instead, so that a network needs fewer different kernels. Sums
of bytes are near what processors can multiply, and what a tile loses shows (8x3 vectors for 512 and 1024 columns: 3 to
5 %)."""
KEPT = 1.2
"""The same for a tile whose kernel is compiled."""
PACKED = 1.5
"""The same for one for which weights are packed, too: packing them again takes as long as a hundred such losses, and
memory for as long as both are in use."""
_FEW_SUMS = 0.3
"""What tiles lose whose sums wait for each other all of the time, from two thirds of it: on AVX2 4 % with 10 sums, 6 %
with 9, beside 12."""
_ALL_LOADS = 1.2
"""What loads cost where every multiply-add has one, twice a cycle."""
_ALL_BROADCASTS = 1.2
"""What arithmetic costs there where full vectors of 32 bytes take two passes: to put a scalar into all lanes takes a
unit that multiplies (12 multiply-adds with 12 scalars take 14.8 cycles, with 6 of them 12)."""
_LANES_OF_HALF = 10
"""Rows from which on LLVM moves vectors of A about, where lanes of f16 are taken."""
_WAITING = 0.1
"""What arithmetic costs behind memory: among tiles that wait for memory alike, the one with least work is best."""
_JOINED_LINE = 8.0
"""Cycles of every line in a row of bytes that have something added which lies as they do (a residual connection), where
results are finished beside products: tiles of two vectors ask for each line of both tensors twice (14x2 instead of 6x4
vectors: 8 to 27 cycles a row more)."""
_LINE = 64
_WHOLE_ENDS = 20.0
"""What a row of a tile of one vector costs more, whose results are finished behind products instead of beside them,
where processors can do that: 14x1 vectors of bytes are 3 % behind 6x4, at 576 steps."""
_NARROWER, _EVEN_ROWS = 1.03, 2520
"""How much must be gained by vectors of half the width, with so many rows, which suit all tiles."""
_SINGLE_TILES = 1.03
"""What it costs to deal out tiles one by one, where neither rows nor columns of tiles are even."""


def pack_b(matrix: npt.NDArray[np.generic], nr: int, group: int = 1) -> npt.NDArray[np.generic]:
    """Packs B ``[K, N]`` into panels ``[ceil(N / nr), K, nr]``, columns past N zero: ldb = nr, panel = K * nr.

    With a ``group``: ``[ceil(N / nr), ceil(K / group), nr, group]``, zeros past K.
    """
    k, n = matrix.shape
    if group > 1:
        padded = np.zeros((-(-k // group) * group, n), matrix.dtype)
        padded[:k] = matrix
        return pack_b(padded.reshape(-1, group, n).transpose(0, 2, 1).reshape(-1, n * group), nr * group)
    panels = -(-n // nr)
    packed = np.zeros((panels, k, nr), dtype=matrix.dtype)
    whole = n // nr
    packed[:whole] = matrix[:, : whole * nr].reshape(k, whole, nr).transpose(1, 0, 2)
    if whole < panels:
        packed[whole, :, : n - whole * nr] = matrix[:, whole * nr :]
    return packed


def _fits(target: Target, mr: int, nv: int, acc: DType) -> bool:
    """Whether the tile's sums, B's vectors, what holds A's scalars (and products, without FMA) fit the registers.

    One register is left over, since LLVM's allocator starts to spill when none is; see
    :mod:`MNN.backends.cpu.products.register_steps`."""
    if target.lane_operand:
        extra = nv + mr + 1
        if acc is DType.F16:  # a lane of f16 must lie in one of the first 16 registers
            extra += 2 if mr < _LANES_OF_HALF else target.vector_registers
    elif nv == 1 and target.broadcast_operand:
        extra = 2
    else:
        extra = nv + 2 + (not target.has_fma)
    if acc is DType.I32 and in_halves(target):
        extra += nv + 1
    return mr * nv + extra <= target.vector_registers


def step_cycles(target: Target, acc: DType, k: int, mr: int, nv: int) -> float:
    """Cycles of one step of the sum in a tile; see the module."""
    products = mr * nv
    arithmetic = products / target.fma_per_cycle
    if not target.lane_operand:  # else small tiles are summed in several parts
        arithmetic = max(arithmetic, target.fma_latency)
    rows = mr / target.lanes(acc) if target.lane_operand else mr
    spilled = max(0, mr + 3 - target.general_registers)
    passes = 2 if target.split_vectors and not target.broadcast_operand else 1
    loads = (rows + passes * nv + spilled) / target.loads_per_cycle
    if nv == 1 and passes > 1:
        arithmetic *= _ALL_BROADCASTS
    if nv == 1 and target.broadcast_operand and target.vector_bytes < 64:
        loads *= _ALL_LOADS
    if mr > _L1_WAYS and k * acc.size % _L1_PERIOD == 0:
        loads = max(loads, 3.0 * mr)
    separate = 0 if target.has_fma else products + mr
    issue = (products + separate + rows + nv + spilled + 3) / _ISSUE_WIDTH
    width = nv * target.vector_bytes
    rate = _L2_BYTES_PER_CYCLE.get((target.vector_registers & ~1, target.vector_bytes), _USUAL_L2_BYTES_PER_CYCLE)
    stream = width / rate if width * k > target.l1_bytes // 2 else 0.0
    # It never hides completely, but behind products of bytes (14x1 instead of 6x4 vectors, 256 steps: 4 % slower).
    return max(arithmetic, loads, issue, stream) + (0.0 if acc is DType.I32 else 0.04 * stream)


def tile_cycles(target: Target, acc: DType, k: int, mr: int, nv: int, joined: bool = False) -> float:
    """Cycles of a whole tile with ``k`` steps; ``joined``: results have something added that lies as they do."""
    ends = 24.0 + 2 * mr + 2 * mr * nv
    if acc is DType.I32 and target.separate_adders:
        ends += _WHOLE_ENDS * mr if nv == 1 else 0.0
        ends += _JOINED_LINE * mr * -(-nv * target.lanes(acc) // _LINE) if joined else 0.0
    return k * step_cycles(target, acc, k, mr, nv) * few_sums(target, mr, nv) + ends


def few_sums(target: Target, mr: int, nv: int) -> float:
    """How much longer a step takes where few sums wait for each other."""
    waiting = 0.0 if target.lane_operand else target.fma_latency * target.fma_per_cycle / (mr * nv)
    return 1.0 + _FEW_SUMS * max(0.0, min(waiting, 1.0) - 2 / 3)


def _costs(
    target: Target, m: int, n: int, k: int, acc: DType, threads: int, joined: bool = False
) -> dict[tuple[int, int], float]:
    return {row[0]: _cost(m, threads, *row) for row in _rows(target, acc, n, k, joined) if row[0][0] <= m}


_Row = tuple[tuple[int, int], int, float, float, bool, float]


@functools.lru_cache(maxsize=1024)
def _rows(target: Target, acc: DType, n: int, k: int, joined: bool = False) -> tuple[_Row, ...]:
    """What every tile costs as far as it does not depend on the rows, which change with the input's size: the tile,
    its panels, cycles of a tile and of a cut one, whether the last panel is cut, cycles to read B."""
    found = []
    for mr, nv in _all_tiles(target, acc):
        nr = nv * target.lanes(acc)
        panels = -(-n // nr)
        work = tile_cycles(target, acc, k, mr, nv, joined)
        memory = panels * nr * k * acc.size / MEMORY_BYTES_PER_CYCLE
        found.append(((mr, nv), panels, work, 6.0 * mr * nv, n % nr != 0, memory))
    return tuple(found)


@functools.lru_cache(maxsize=1024)
def _per_row(target: Target, acc: DType, n: int, k: int, joined: bool = False) -> float:
    """Cycles of a row below which no tile comes, however many rows there are."""
    rows = _rows(target, acc, n, k, joined)
    return min((1.0 + _WAITING) * panels * work / tile[0] for tile, panels, work, *_ in rows)


def _cost(
    m: int, threads: int, tile: tuple[int, int], panels: int, work: float, stub: float, narrow: bool, memory: float
) -> float:
    """Cycles of all threads together, while the longest of them works."""
    mr = tile[0]
    rows = -(-m // mr)
    cut = (panels if m % mr else 0) + (rows if narrow else 0)
    tiles: float = rows * panels
    if threads > 1:
        by_rows, by_columns = -(-rows // threads) * panels, rows * -(-panels // threads)
        tiles = threads * min(by_rows, by_columns, -(-rows * panels // threads) * _SINGLE_TILES)
    return with_memory(tiles * work + cut * stub, memory)


def with_memory(compute: float, memory: float) -> float:
    """Cycles of arithmetic that waits for memory now and then."""
    return max(compute, memory) + _WAITING * compute


@functools.lru_cache(maxsize=1024)
def narrower(target: Target, n: int, k: int, acc: DType = DType.F32) -> bool:
    """Whether a product of ``n`` columns has less work in vectors of half the width, because fewer are for padding.

    It does not depend on the rows, so that weights are packed alike for all sizes of the input.
    """
    if not target.split_vectors or acc is not DType.F32:
        return False
    n, k = max(n, 1), max(k, 1)
    whole, half = (min(_costs(t, _EVEN_ROWS, n, k, acc, 1).values()) for t in (target, target.narrowed()))
    return half * _NARROWER < whole


@functools.lru_cache(maxsize=4096)
def choose_tile(
    target: Target, m: int, n: int, k: int, acc: DType = DType.F32, threads: int = 1, joined: bool = False
) -> tuple[int, int]:
    """The register tile (mr, nv) for a product of ``m`` x ``n`` with ``k`` (all taps) products per sum; ``joined``: see
    :func:`tile_cycles`."""
    m, n, k = max(m, 1), max(n, 1), max(k, 1)
    costs = _costs(target, m, n, k, acc, threads, joined)
    limit = min(costs.values()) * _TOLERANCE.get(acc, _USUAL_TOLERANCE)
    usual = [t for t in _usual(target, n) if t in costs and costs[t] <= limit]
    return usual[0] if usual else min(costs, key=lambda t: costs[t])


def known_tile(
    target: Target,
    m: int,
    n: int,
    k: int,
    acc: DType,
    earlier: tuple[int, int] | None,
    made: Collection[tuple[int, int]],
    spare: float,
    threads: int = 1,
    packed: bool = False,
    joined: bool = False,
) -> tuple[int, int] | None:
    """The same among tiles for which there are kernels; None where another is worth compiling a kernel for.

    The one taken ``earlier``, for another ``m``, is kept while it is close to the best; else the best of those that
    were ``made``, of which those as wide as the earlier one come first: where B is ``packed`` for their width, they may
    be further from the best. ``spare`` cycles are always close.
    """
    m, n, k = max(m, 1), max(n, 1), max(k, 1)
    if earlier is not None and earlier[0] <= m:
        rows, per_row = _rows(target, acc, n, k, joined), _per_row(target, acc, n, k, joined)
        row = next((row for row in rows if row[0] == earlier), None)
        if row is not None and _cost(m, threads, *row) <= KEPT * m * per_row:  # no tile is better than that
            return earlier
    costs = _costs(target, m, n, k, acc, threads, joined)
    least = min(costs.values())
    limit = max(least * (PACKED if earlier is None and not packed else KEPT), least + spare)
    near = {t: costs[t] for t in made if t in costs and costs[t] <= limit}
    if earlier is None:
        return min(near, key=lambda t: near[t], default=None)
    if costs.get(earlier, limit + 1) <= limit:
        return earlier
    if packed:
        most = max(least * PACKED, limit)
        near |= {t: costs[t] for t in (*made, earlier) if t[1] == earlier[1] and costs.get(t, most + 1) <= most}
    return min(near, key=lambda t: (t[1] != earlier[1], near[t]), default=None)


def best_tiles(
    target: Target, m: int, n: int, k: int, acc: DType = DType.F32, threads: int = 1
) -> list[tuple[int, int]]:
    """All register tiles for a product, the cheapest first."""
    m, n, k = max(m, 1), max(n, 1), max(k, 1)
    costs = _costs(target, m, n, k, acc, threads)
    return sorted(costs, key=lambda tile: costs[tile])


def tiles(target: Target, m: int, acc: DType = DType.F32) -> list[tuple[int, int]]:
    """Register tiles (mr, nv) that fit the target, of at most ``m`` rows."""
    return [tile for tile in _all_tiles(target, acc) if tile[0] <= m]


@functools.cache
def _all_tiles(target: Target, acc: DType) -> tuple[tuple[int, int], ...]:
    sizes = itertools.product(range(1, _MAX_VECTORS + 1), range(1, _MAX_ROWS + 1))
    return tuple((mr, nv) for nv, mr in sizes if _fits(target, mr, nv, acc))


@functools.lru_cache(maxsize=4096)
def contract_cycles(target: Target, m: int, n: int, k: int, acc: DType = DType.F32) -> float:
    """Estimated cycles, on one thread, of a product of ``m`` x ``n`` with ``k`` products per sum."""
    tile, (m, n, k) = choose_tile(target, m, n, k, acc), (max(m, 1), max(n, 1), max(k, 1))
    return _cost(m, 1, *next(row for row in _rows(target, acc, n, k) if row[0] == tile))


def _usual(target: Target, n: int) -> tuple[tuple[int, int], ...]:
    """Tiles to prefer for ``n`` columns where they are as good as any, per width of the register file."""
    if target.lane_operand:
        return ((8, 2), (5, 4), (4, 4), (2, 4), (1, 8))
    if target.vector_registers >= 32 and target.vector_bytes < 64:  # only more than one panel is asked for ahead
        alone = ((9, 3),) if n <= 3 * target.lanes(DType.F32) else ()
        return (*alone, (5, 5), (8, 3), (8, 2))
    if target.vector_registers >= 32:
        return ((8, 3), (6, 4), (8, 2), (7, 3), (10, 2), (14, 1), (1, 4), (1, 8))
    return ((6, 2), (4, 3), (5, 2), (4, 2), (1, 4))
