"""Whether and how to compute a convolution by Winograd's method: a cost model in cycles of the target, one thread.

A block of ``group`` tiles costs its products (as :func:`MNN.kernels.contract_cost.step_cycles` counts them, whole
register tiles) and its transforms (arithmetic, loads and stores of whole vectors). Beside that U has to be read: from
memory for the first block, and again for every further one when it is larger than half the second-level cache. Late
layers with few tiles and many channels are bound by these bytes, which is why the larger tiles lose there although
they multiply least. V and M of a block that is larger than the second-level cache travel to the third level and back.

Which sizes may be used is decided by their error against that of plain fp32 sums (root mean square, for normal weights
and inputs behind a ReLU, 32 to 256 channels; in brackets with partial sums of 32 channels, or 16 in square ones):

====================  =====  ========================================
positions per side    1-D    2-D
====================  =====  ========================================
4                     0.9    0.7
5                            1.6 for 16 channels, 1.2 for 32
6                     1.6    2.4 (1.9 for 48 channels, 0.9 for 256)
                             [2.0 for 32 channels, 2.7 for 16]
7                            [5 taps: 1.9 for 48 channels, 2.0 for 64, 1.4 for 128]
8                     2.3 (3)  9 (5)
9                     [7 taps: 1.9 for 128 channels, 1.7 for 192, partial sums of 32]
10                    4.8 (2.3 to 3.8) [2.6 for 128 channels, 2.3 for 192]
====================  =====  ========================================
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

from MNN.ir.dtype import DType
from MNN.kernels.contract_cost import PACKED, step_cycles
from MNN.kernels.shares import longest
from MNN.kernels.winograd_layout import Layout
from MNN.kernels.winograd_points import filtering, supported
from MNN.kernels.winograd_transform import operations
from MNN.kernels.winograd_words import outputs_of
from MNN.targets.base import Target

CHUNK, SMALL_CHUNK = 32, 16
"""Channels of a partial sum where the error must be that of plain fp32 sums; of few channels smaller ones."""
_POSITIONS = (4, 6, 5, 7, 8, 9, 10)
_AS_EXACT = (4, 5, 6, 7, 9)
_WORTH_THE_ERROR = 0.8
"""Eight and ten positions, with their larger error, are considered where they take less than this share of time."""
_MEMORY_BYTES_PER_CYCLE = 8.0
_L3_BYTES_PER_CYCLE = 20.0
_INPUT, _OUTPUT = (0.9, 0.9), (0.6, 0.5)
"""Cycles of the transform of a tile and a vector of channels, measured: for each of its operations (see
:func:`MNN.kernels.winograd_transform.operations`) and for each vector that is read or written."""
_SPLIT = 1.45
"""How much longer that takes where full vectors take two passes."""
_PER_REGISTER_TILE = 16.0
_UNHIDDEN_LATENCY = 0.12
"""Share of the products' time that tiles lose whose sums wait for each other all of the time; from two thirds of it."""
_PER_SUM = 1.0
"""Cycles that every further partial sum costs a vector: most of its loads, additions and stores are hidden."""
_FAR_BYTES_PER_CYCLE = 10.0
"""Images larger than the second-level cache, read and written once."""
_NOT_HIDDEN = 0.5
"""Share of the lesser of arithmetic and memory that does not overlap with the other."""
_PER_TILE = 40.0
"""Cycles of a tile's table entries and addresses, in and out."""
_MOST_GROUPS = 12
_CHANNELS = 8
"""Channels below which nothing is gained."""


@dataclass(frozen=True)
class Work:
    """A convolution with stride 1: images, outputs, channels in and out, window."""

    images: int
    oh: int
    ow: int
    c: int
    n: int
    rh: int
    rw: int


@dataclass(frozen=True)
class Plan:
    """How to compute it: F(mh x mw), register tile, tiles and columns per block, channels per partial sum (0: all)."""

    mh: int
    mw: int
    mr: int
    nv: int
    group: int
    n_block: int
    chunk: int
    cycles: float

    def name(self, work: Work) -> str:
        """As reports call it."""
        if work.rh == 1 or work.rw == 1:
            return f"Winograd F({self.mh * self.mw},{work.rh * work.rw})"
        return f"Winograd F({self.mh}x{self.mw},{work.rh}x{work.rw})"


Tiles = dict[tuple[int, int], tuple[int, int]]
"""The register tile that was taken first, by the outputs of a tile."""


def plans(
    target: Target, work: Work, threads: int, precision: str, earlier: Tiles | None = None, only: str = ""
) -> list[Plan]:
    """The best plan for every size of tile that the precision (``high`` or another) allows; none where none fits.

    Register tiles taken ``earlier``, for images of another size, are kept while they are close to the best. With
    ``only`` the name of a plan, it alone.
    """
    earlier = {} if earlier is None else earlier
    if work.c < _CHANNELS or work.n < _CHANNELS or work.rh * work.rw == 1:
        return []
    found: list[Plan] = []
    least = math.inf
    for positions in _POSITIONS:
        mh, mw = (positions - r + 1 if r > 1 else 1 for r in (work.rh, work.rw))
        if not (supported(mh, work.rh) and supported(mw, work.rw)):
            continue
        if only and only != Plan(mh, mw, 0, 0, 0, 0, 0, 0.0).name(work):
            continue
        chunk = partial_sums(work, positions, precision == "high")
        if chunk is None:
            continue
        plan = _best(target, work, threads, mh, mw, chunk, earlier.get((mh, mw)))
        if only or positions in _AS_EXACT or plan.cycles < _WORTH_THE_ERROR * least:
            found.append(plan)
            least = min(least, plan.cycles if positions != 9 else least)
    return found


def word_plans(target: Target, work: Work, threads: int, earlier: Tiles | None = None) -> list[Plan]:
    """The plan for bytes (:mod:`MNN.kernels.winograd_words`), whose pairs of channels cost what channels of f32 do."""
    mh, mw = outputs_of(work.rh), outputs_of(work.rw)
    pairs = replace(work, c=work.c // 2)
    return [_best(target, pairs, threads, mh, mw, 0, (earlier or {}).get((mh, mw)))]


def partial_sums(work: Work, positions: int, high: bool) -> int | None:
    """Channels per partial sum with so many positions per side (0: all); None when the error were too large."""
    plane, taps = work.rh > 1 and work.rw > 1, max(work.rh, work.rw)
    if positions <= (4 if plane else 6):
        return 0
    if positions == 5:  # where six have too large an error
        return 0 if plane and taps == 3 and high and 16 <= work.c < 32 else None
    if positions == 7 and (not plane or min(work.rh, work.rw) < 5):
        return None
    if positions > 8 and (plane or taps < {9: 7, 10: 5}[positions]):
        return None
    if not high:
        return 0 if positions == 6 else CHUNK
    if plane:
        fewest = {6: 32, 7: 48}.get(positions)
    else:
        fewest = {8: 64 if taps >= 5 else 128, 9: 128}.get(positions)
    if fewest is None or work.c < fewest:
        return None
    return SMALL_CHUNK if plane and work.c < {6: 48, 7: 96}[positions] else CHUNK


@functools.lru_cache(maxsize=4096)
def _best(
    target: Target, work: Work, threads: int, mh: int, mw: int, chunk: int, earlier: tuple[int, int] | None = None
) -> Plan:
    tiles = work.images * -(-work.oh // mh) * -(-work.ow // mw)
    best: Plan | None = None
    kept: Plan | None = None
    options = register_tiles(target)
    if earlier in options and -(-tiles // earlier[0]) * earlier[0] <= PACKED * tiles:
        options = (earlier,)  # only padding makes a tile better for one size than for another
    for mr, nv in options:
        nr = nv * target.lanes(DType.F32)
        panels = -(-work.n // nr)
        for group in _groups(tiles, mr):
            blocks = -(-tiles // group)
            for parts in {1, min(panels, -(-2 * threads // blocks))} if threads > 1 else {1}:
                n_block = -(-panels // parts) * nr
                cycles = _cycles(target, work, threads, tiles, Plan(mh, mw, mr, nv, group, n_block, chunk, 0))
                if best is None or cycles < best.cycles * 0.995:
                    best = Plan(mh, mw, mr, nv, group, n_block, chunk, cycles)
                if (mr, nv) == earlier and (kept is None or cycles < kept.cycles * 0.995):
                    kept = Plan(mh, mw, mr, nv, group, n_block, chunk, cycles)
    assert best is not None
    return kept if kept is not None and kept.cycles <= PACKED * best.cycles else best


def register_tiles(target: Target) -> tuple[tuple[int, int], ...]:
    """Rows and vectors of register tiles, those to prefer first."""
    if target.lane_operand:
        return ((8, 2), (5, 4), (4, 4), (4, 2))
    if target.vector_registers >= 32:
        return ((8, 2), (6, 4), (8, 3), (4, 4), (5, 4), (7, 3))
    return ((6, 2), (4, 2), (5, 2), (3, 2))


def _groups(tiles: int, mr: int) -> list[int]:
    """Sizes of blocks to try: tiles in nearly equal parts, in whole register tiles."""
    units = -(-tiles // mr)
    parts = [q for q in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512) if q <= units]
    return sorted({-(-units // q) * mr for q in parts if -(-units // q) * mr <= max(128, mr) or q == parts[-1]})[
        -_MOST_GROUPS:
    ]


@functools.cache
def _operations(mh: int, rh: int, mw: int, rw: int) -> tuple[float, float]:
    """Vector operations of both transforms of a tile: fractions that are counted take long."""
    into, out = operations(filtering(mh, rh), filtering(mw, rw))
    return float(into), float(out)


def _cycles(target: Target, work: Work, threads: int, tiles: int, plan: Plan) -> float:
    positions, lanes = (plan.mh + work.rh - 1) * (plan.mw + work.rw - 1), target.lanes(DType.F32)
    nr = plan.nv * lanes
    blocks, parts = -(-tiles // plan.group), -(-work.n // plan.n_block)
    columns = min(plan.n_block, -(-work.n // nr) * nr)
    into, out = _operations(plan.mh, work.rh, plan.mw, work.rw)
    outputs = plan.mh * plan.mw
    passes = _SPLIT if target.split_vectors else 1.0
    moved_in = passes * (_INPUT[0] * into + _INPUT[1] * positions)
    moved_out = passes * (_OUTPUT[0] * out + _OUTPUT[1] * (positions + outputs))
    sums = -(-work.c // plan.chunk) if plan.chunk else 1
    waiting = target.fma_latency * target.fma_per_cycle / (plan.mr * plan.nv)
    late = 1.0 if target.lane_operand else 1.0 + _UNHIDDEN_LATENCY * max(0.0, min(waiting, 1.0) - 2 / 3)
    per_register_tile = (
        work.c * step_cycles(target, DType.F32, work.c, plan.mr, plan.nv) * late
        + _PER_REGISTER_TILE
        + _PER_SUM * (sums - 1) * plan.mr * plan.nv
    )
    per_row = positions * (columns // nr) * per_register_tile
    per_tile = -(-work.c // lanes) * moved_in + -(-columns // lanes) * moved_out + _PER_TILE
    scratch = Layout(lanes, positions, plan.mr, nr).bytes(plan.group, work.c, columns, outputs)
    u = 4.0 * positions * work.c * -(-work.n // nr) * nr
    if scratch + u > 0.8 * target.l2_bytes:
        per_tile += (2 if scratch > 0.8 * target.l2_bytes else 1) * scratch / _L3_BYTES_PER_CYCLE / plan.group
    memory = u / _MEMORY_BYTES_PER_CYCLE
    if u > target.l2_bytes / 2:
        memory += (blocks - 1) * u / (2 * _L3_BYTES_PER_CYCLE)  # U is read in order, which hides best
    rows = longest(-(-tiles // plan.mr), plan.group // plan.mr, parts, 1, threads)  # of register tiles, whole ones
    arithmetic = threads * (per_row * rows + per_tile * longest(tiles, plan.group, parts, 1, threads))
    images = 4.0 * work.images * work.oh * work.ow * (work.c + 2 * work.n)  # what is written is read first
    if images > target.l2_bytes:
        arithmetic += images / _FAR_BYTES_PER_CYCLE
    return max(arithmetic, memory) + _NOT_HIDDEN * min(arithmetic, memory)
