"""Choices for Strassen's products, from a cost model: how many levels, and the register tile.

Beside the multiply-adds of all products count: what they lose because their operands come from further away than the
plain product's (``late``), vectors of a tile that are added to C (``use``) and stored (``store``), and A's factors.
B's factors are formed between the steps of the sums, as far as there are enough of these; the rest is counted.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from MNN.backends.cpu.products.register_steps import fills_registers, with_all_registers
from MNN.backends.cpu.products.register_tiles import MEMORY_BYTES_PER_CYCLE, PACKED, few_sums, step_cycles, tiles
from MNN.backends.cpu.strassen.code import TURNS, UNROLL
from MNN.backends.cpu.strassen.sums import COUNT
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

Choice = tuple[int, int, int]
"""Rows and vectors of a register tile, and levels."""
_TOLERANCE = 1.03
_USUAL = ((8, 3), (9, 3), (10, 2), (14, 2), (7, 3), (6, 2), (5, 2), (4, 2))
"""Tiles with few addresses and few loads; another one must be better by ``_TOLERANCE``."""
PASSED_ON, KEPT, FAR_PASSED_ON = 4.5, 1.5, 3.0
"""Cycles per number of A that another thread has to do with: where all threads read all of its factors (cut by
columns), where each reads those that it wrote (cut by rows), and where they are far from all. With two threads, 196
rows, depth 512 and 512 columns, the sums take 38 us or 11 us, and the plain product is 4 % slower. Where A is large
beside C (depth 1024, 256 columns) it is 4 % faster."""
_USES = 12 / COUNT
"""Quarters of C that a product is added to."""
_BUFFERS = 0.5
"""Of the second-level cache, for B's factors of a stage and of the next."""
_LEAST_CHUNK = 192
"""Depth of a stage that is not cut further for a factor of B to fit half the first-level cache."""
_FORM = 6.0
"""Cycles of a vector of a factor of B where nothing hides it."""
_ROWS = 0.25
"""Of the second-level cache, for C's tiles of a group of panels."""


@dataclass(frozen=True)
class _Losses:
    """What is lost beside the products, measured: shares of their time, cycles of a vector added to C and stored,
    and cycles of a set of vectors of A for all factors, near and far."""

    late: tuple[float, float]
    use: float
    store: float
    sums: tuple[float, float]
    far_sums: tuple[float, float]
    vector: float = 0.0
    """Cycles of a step for each vector of B, which the multiply-adds do not hide."""


_LOSSES = {16: _Losses((0.09, 0.085), 3.5, 5.0, (70.0, 700.0), (75.0, 900.0))}
"""By floats in a vector; pairs are for one level and two. The plain product, which meets its operands in order, loses
0.1. Measured on AVX512 (beside the plain product's time, 197 rows, depth 768): one level 0.90 with 3072 columns and
0.94 with 768, two levels 0.84 and 0.89; within networks a little less is won."""
_OTHERS = _Losses((0.02, 0.07), 2.2, 6.0, (40.0, 250.0), (45.0, 500.0), 0.2)
"""On AVX2, there 0.98 and 0.99 (one level), 0.93 and 0.97 (two levels)."""


def chunk_of(target: Target, k: int, nr: int) -> int:
    """How much of the depth ``k`` of a part is a stage: equal pieces of whole vectors whose factors of B stay near."""
    lanes = target.lanes(DType.F32)
    near = max(_LEAST_CHUNK, target.l1_bytes // (2 * 4 * nr))
    most = min(near, int(_BUFFERS * target.l2_bytes) // (2 * COUNT * 4 * nr))
    units = k // lanes
    return next((k // p for p in range(1, units) if units % p == 0 and k // p <= most), lanes)


def most_rows(target: Target, levels: int, nr: int, mr: int) -> int:
    """Rows of a part in a block, whose tiles of C stay near."""
    return max(1, int(_ROWS * target.l2_bytes) // ((1 << 2 * levels) * nr * 4 * mr)) * mr


@functools.lru_cache(maxsize=4096)
def _step(target: Target, k: int, mr: int, nv: int) -> float:
    asked = 1.0 + nv * target.vector_bytes / 64  # lines of A and B, ahead
    return max(step_cycles(target, DType.F32, k, mr, nv), (mr + nv + asked) / target.loads_per_cycle)


def unhidden(tile: tuple[int, int], tiles: int) -> float:
    """Register tiles that could be computed in the time that forming B's factors adds to ``tiles`` of them."""
    mr, nv = tile
    return _FORM / mr * (1.15 - min(1.0, COUNT * tiles / (TURNS * UNROLL * nv)))


def applies(target: Target, n: int, k: int, levels: int) -> bool:
    """Whether the parts of the depth are whole vectors, and there are columns for all parts."""
    lanes = target.lanes(DType.F32)
    return k % ((1 << levels) * lanes) == 0 and n >= (1 << levels) * lanes


def _cycles(target: Target, m: int, n: int, k: int, tile: Choice, threads: int) -> float:
    mr, nv, levels = tile
    lanes, parts, products = target.lanes(DType.F32), (1 << levels), int(COUNT**levels)
    lost = _LOSSES.get(lanes, _OTHERS)
    rows, depth, panels = -(-m // parts), k // parts, -(-n // (nv * lanes))
    down, groups = -(-rows // mr), -(-panels // parts)
    chunk = chunk_of(target, depth, nv * lanes)
    uses = depth / chunk * (_USES**levels * mr * nv * lost.use + 70)
    vectors = 1 if fills_registers(target, mr, nv) else nv  # such steps have the fewest loads
    step = _step(target, 4096 + lanes, mr, nv) * (1 + lost.late[levels - 1]) * few_sums(target, mr, nv)
    step += vectors * lost.vector
    work = products * (depth * step + uses)
    work += parts * parts * mr * nv * lost.store + 100
    near = _near(target, m, k, levels)
    sums = rows * depth / lanes * (lost.sums if near else lost.far_sums)[levels - 1]
    memory = panels * nv * lanes * k * 4 / MEMORY_BYTES_PER_CYCLE
    found = []
    for by_rows, by_columns in {(1, threads), (threads, 1)}:
        high, wide = -(-down // by_rows), -(-groups // by_columns)
        formed = threads * wide * unhidden((mr, nv), high) * products * depth * mr * nv
        other = passed(target, m, k, levels, threads, by_rows > 1)
        found.append(max(threads * high * wide * work, memory) + formed + other)
    return min(found) + sums


def _near(target: Target, m: int, k: int, levels: int) -> bool:
    """Whether A and its factors stay near, part by part."""
    return (1 + (COUNT / 4) ** levels) * 4 * m * k <= 2.5 * target.l2_bytes


def passed(target: Target, m: int, k: int, levels: int, threads: int, by_rows: bool) -> float:
    """Cycles, of all threads, for what passes between them on its way from A to the products."""
    each = FAR_PASSED_ON if not _near(target, m, k, levels) else KEPT if by_rows else PASSED_ON
    return (1 - 1 / threads) * m * k * each * float((COUNT / 4) ** (levels - 1))


@functools.lru_cache(maxsize=1024)
def choose_strassen(
    target: Target, m: int, n: int, k: int, earlier: Choice | None = None, threads: int = 1
) -> tuple[Choice, float]:
    """The best tile and levels for a product of ``m`` x ``n`` with ``k`` products per sum; the cycles of all threads.

    What was taken ``earlier``, for another ``m``, is kept while it is close to the best.
    """
    best, best_cycles, kept = (1, 1, 1), float("inf"), float("inf")
    for levels in (1, 2):
        if not applies(target, n, k, levels):
            continue
        wide = with_all_registers(target) if levels == 1 else target  # B's factors of two levels would not stay near
        for mr, nv in tiles(wide, -(-m // (1 << levels))):
            if nv > 4:
                continue
            cycles = _cycles(target, m, n, k, (mr, nv, levels), threads)
            if (mr, nv) not in _USUAL and not fills_registers(target, mr, nv):
                cycles *= _TOLERANCE
            if (mr, nv, levels) == earlier:
                kept = cycles
            if cycles < best_cycles:
                best, best_cycles = (mr, nv, levels), cycles
    if earlier is not None and kept <= PACKED * best_cycles:
        return earlier, kept
    return best, best_cycles
