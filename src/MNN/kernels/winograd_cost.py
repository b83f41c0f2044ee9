"""Whether and how to compute a convolution by Winograd's method: a cost model in cycles of the target, one thread.

A block of ``group`` tiles costs its products (as :func:`MNN.kernels.contract_cost.step_cycles` counts them, whole
register tiles) and its transforms (arithmetic, loads and stores of whole vectors). Beside that U has to be read: from
memory for the first block, and again for every further one when it is larger than half the second-level cache. Late
layers with few tiles and many channels are bound by these bytes, which is why the larger tiles lose there although
they multiply least. V and M of a block that is larger than the second-level cache travel to the third level and back.

What F(m, r) may be used where is decided by its error against that of plain fp32 sums (measured for inputs behind a
ReLU and normal weights, 16 to 512 channels): F(2x2, 3x3) 0.7 times, F(4x4, 3x3) 2.1 to 2.4 times, with partial sums
of 32 channels 1.8 (64 channels) to 0.7 times (512); F(6x6, 3x3) about 9 times.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from MNN.ir.dtype import DType
from MNN.kernels.contract_cost import step_cycles
from MNN.kernels.winograd_layout import Layout
from MNN.kernels.winograd_points import filtering
from MNN.kernels.winograd_transform import operations
from MNN.targets.base import Target

CHUNK = 32
"""Channels of a partial sum where the error must be that of plain fp32 sums."""
_FEWEST_FOR_F4 = 48
"""Channels from which F(4, 3) with partial sums is within twice the error of plain fp32 sums."""
_WORTH_THE_ERROR = 0.88
"""F(6, 3), with 4 times the error of F(4, 3), is considered where it takes less than this share of the time."""
_MEMORY_BYTES_PER_CYCLE = 8.0
_L3_BYTES_PER_CYCLE = 20.0
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


def plans(target: Target, work: Work, threads: int, precision: str) -> list[Plan]:
    """The best plan for every size of tile that the precision (``high`` or another) allows; none where none fits."""
    if work.c < _CHANNELS or work.n < _CHANNELS:
        return []
    found = []
    for m in _sizes(work, precision == "high"):
        mh, mw = m if work.rh > 1 else 1, m if work.rw > 1 else 1
        chunk = CHUNK if precision == "high" and m > 2 and work.c >= _FEWEST_FOR_F4 and mh * mw > m else 0
        plan = _best(target, work, threads, mh, mw, chunk)
        if m < 6 or plan.cycles < _WORTH_THE_ERROR * min(f.cycles for f in found):
            found.append(plan)
    return found


def _sizes(work: Work, high: bool) -> Iterator[int]:
    window = max(work.rh, work.rw)
    if window != 3 or min(work.rh, work.rw) not in (1, 3):
        return
    yield 2
    if not high or work.c >= _FEWEST_FOR_F4:
        yield 4
    if not high:
        yield 6


@functools.lru_cache(maxsize=4096)
def _best(target: Target, work: Work, threads: int, mh: int, mw: int, chunk: int) -> Plan:
    tiles = work.images * -(-work.oh // mh) * -(-work.ow // mw)
    best: Plan | None = None
    for mr, nv in register_tiles(target):
        nr = nv * target.lanes(DType.F32)
        panels = -(-work.n // nr)
        for group in _groups(tiles, mr):
            blocks = -(-tiles // group)
            for parts in {1, min(panels, -(-2 * threads // blocks))} if threads > 1 else {1}:
                n_block = -(-panels // parts) * nr
                cycles = _cycles(target, work, threads, tiles, Plan(mh, mw, mr, nv, group, n_block, chunk, 0))
                if best is None or cycles < best.cycles * 0.995:
                    best = Plan(mh, mw, mr, nv, group, n_block, chunk, cycles)
    assert best is not None
    return best


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


def _cycles(target: Target, work: Work, threads: int, tiles: int, plan: Plan) -> float:
    f_h, f_w = filtering(plan.mh, work.rh), filtering(plan.mw, work.rw)
    positions, lanes = f_h.positions * f_w.positions, target.lanes(DType.F32)
    nr = plan.nv * lanes
    blocks, parts = -(-tiles // plan.group), -(-work.n // plan.n_block)
    columns = min(plan.n_block, -(-work.n // nr) * nr)
    into, out = (float(x) for x in operations(f_h, f_w))
    moved_in = max(into / 1.5, 1.5 * positions * (1 / target.loads_per_cycle + 1))
    outputs = plan.mh * plan.mw
    moved_out = max(out / 1.5, positions / target.loads_per_cycle * 2) + 3.0 * outputs
    registers = plan.mr * plan.nv
    sums = -(-work.c // plan.chunk) if plan.chunk else 1
    per_register_tile = (
        work.c * step_cycles(target, DType.F32, work.c, plan.mr, plan.nv)
        + 16
        + 2 * plan.mr
        + (2.0 + 3.0 * (sums - 1)) * registers
        + 8.0 * (sums - 1)
    )
    block = positions * -(-plan.group // plan.mr) * (columns // nr) * per_register_tile
    block += plan.group * (-(-work.c // lanes) * moved_in + -(-columns // lanes) * moved_out + _PER_TILE)
    scratch = Layout(lanes, positions, plan.mr, nr).bytes(plan.group, work.c, columns, outputs)
    if scratch > 0.8 * target.l2_bytes:
        block += 2 * scratch / (2 * _L3_BYTES_PER_CYCLE)
    u = 4.0 * positions * work.c * -(-work.n // nr) * nr
    memory = u / _MEMORY_BYTES_PER_CYCLE
    if u > target.l2_bytes / 2:
        memory += (blocks - 1) * u / _L3_BYTES_PER_CYCLE
    rounds = -(-blocks * parts // threads) * threads
    cut = (tiles - (blocks - 1) * plan.group) / plan.group  # the last block may be smaller
    arithmetic = block * (rounds - (1 - cut if rounds == blocks * parts else 0))
    return max(arithmetic, memory) + _NOT_HIDDEN * min(arithmetic, memory)
