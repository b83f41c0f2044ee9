"""Whether and how to compute a convolution by Winograd's method: a cost model in cycles of the target, one thread.

A block of ``group`` tiles costs its products (as :func:`MNN.backends.cpu.products.register_tiles.step_cycles` counts
them, whole register tiles) and its transforms (arithmetic, loads and stores of whole vectors). Beside that U has to be
read: from memory for the first block, and again, from the third level, for every further one when it is larger than
half the second-level cache; most of the latter is hidden. Late layers with few tiles and many channels are bound by
these bytes, which is why the larger tiles lose there although they multiply least. (Two threads that read the same
columns of U at one time may bring it from memory together and gain 7 %, or each on its own and lose 40 %: nothing is
expected of it.) V and M of a block that is larger than the second-level cache travel to the third level and back.

Which tiles may be used at all is decided in :mod:`MNN.backends.cpu.winograd.sums`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from MNN.backends.cpu.inner_product.cost import has_inner_product
from MNN.backends.cpu.inner_product.iteration import halved_rows
from MNN.backends.cpu.products.load_balance import longest
from MNN.backends.cpu.products.register_steps import with_all_registers
from MNN.backends.cpu.products.register_tiles import PACKED, step_cycles
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.winograd.depth import depth_tile, depths_to_try
from MNN.backends.cpu.winograd.layout import Layout
from MNN.backends.cpu.winograd.points import filtering, supported
from MNN.backends.cpu.winograd.sums import Work, fixed_sums, name_of, partial_sums
from MNN.backends.cpu.winograd.tiles import INNER_TILES, blocks_to_try, deep_blocks, register_tiles
from MNN.backends.cpu.winograd.transform import operations
from MNN.ir.dtype import DType

_POSITIONS = (4, 6, 5, 7, 8, 9, 10)
_AS_EXACT = (4, 5, 6, 7, 9)
_STRIDED_LINE, _STRIDED_PLANE = (2, 3, 4, 5), (2, 3)
"""Outputs along a side with stride 2 and windows of three. Four in a plane would need 81 positions, whose V and M are
far away: it is never clearly the fastest."""
_STRIDED = 1.07
"""What all of a tile costs more with stride 2, measured."""
_WORTH_THE_ERROR = 0.8
"""Eight and ten positions, with their larger error, are considered where they take less than this share of time."""
_MEMORY_BYTES_PER_CYCLE = 8.0
_L3_BYTES_PER_CYCLE = 20.0
_INNER_WAITS, _NARROW = 1.2, 1.5
"""How much longer U's bytes take for inner products, with less arithmetic to hide them; for panels of one vector, where
a step of the sum is a single line."""
_INPUT, _OUTPUT = (0.9, 0.9), (0.6, 0.5)
"""Cycles of the transform of a tile and a vector of channels, measured: for each of its operations (see
:func:`MNN.backends.cpu.winograd.transform.operations`) and for each vector that is read or written."""
_SPLIT = {64: 1.45, 32: 2.4}
"""How much longer that takes where full vectors, of so many bytes, take two passes. (Those of 32 are stored in two
cycles, and 16 registers leave more to store on the way: 16 channels of 60 x 60 to 16, 64 of 40 x 40 to 24 by 5x5.)"""
_PER_REGISTER_TILE = 16.0
_UNHIDDEN_LATENCY = 0.12
"""Share of the products' time that tiles lose whose sums wait for each other all of the time; from two thirds of it."""
_PER_SUM = 1.0
"""Cycles that every further partial sum costs a vector: most of its loads, additions and stores are hidden."""
_FAR_BYTES_PER_CYCLE = 10.0
"""Images larger than the second-level cache, read and written once."""
_NOT_HIDDEN, _NOT_HIDDEN_AGAIN = 0.5, 0.35
"""Share of U's bytes, the first time and again, whose cycles do not overlap with arithmetic where that takes longer;
the other way round the first one holds. Measured in place, every size of block of every layer of four networks."""
_PER_TILE = 40.0
"""Cycles of a tile's table entries and addresses, in and out."""
_INNER_TILE, _INNER_SUM, _INNER_VECTOR = 60.0, 20.0, 2.0
"""Cycles of a register tile's start and end; of a further partial sum's, and of each of its vectors."""
_INNER_ROW, _INNER_VECTORS = 25.0, 5.0
"""Cycles to bring a row to size that is taken by inner products, and for each of its vectors."""
_FILTER, _FAR_FILTER, _TURNED = 0.8, 2.5, 2.0
"""Cycles for every number of transformed filters, where they are transformed in each run; where these do not fit the
second-level cache; and for every number of the filters, which are put in order before."""
_CHANNELS = 8
"""Channels below which nothing is gained."""


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
    inner_product: bool = False
    """By inner products, see :mod:`MNN.backends.cpu.winograd.code_inner_products`."""
    depths: int = 1
    """Results of a tile along a third axis (:mod:`MNN.backends.cpu.winograd.depth`)."""

    def name(self, work: Work) -> str:
        """As reports call it."""
        return name_of(work, self.mh, self.mw)


Tiles = dict[tuple[int, int], tuple[int, int]]
"""The register tile that was taken first, by the outputs of a tile."""


def plans(
    target: Target,
    work: Work,
    threads: int,
    precision: str,
    earlier: Tiles | None = None,
    only: str = "",
    sizable: bool = False,
) -> list[Plan]:
    """The best plan for every size of tile that the precision (``high`` or another) allows; none where none fits.

    Register tiles taken ``earlier``, for images of another size, are kept while they are close to the best. With
    ``only`` the name of a plan, it alone.
    """
    earlier = {} if earlier is None else earlier
    inner_product = (
        sizable and inner_product_applies(target) and not work.fixed and work.c % target.lanes(DType.F32) == 0
    )
    if work.c < _CHANNELS or work.n < _CHANNELS or work.rh * work.rw == 1:
        return []
    found: list[Plan] = []
    least = math.inf
    if work.stride > 1:
        return _strided_plans(target, work, threads, precision == "high", earlier, only, inner_product)
    for positions, mh, mw in _sizes(work.rh, work.rw, work.fixed, work.taps, only):
        chunk = fixed_sums(work, positions) if work.fixed else partial_sums(work, positions, precision == "high")
        if chunk is None:
            continue
        inner = partial_sums(work, positions, precision == "high", True) if inner_product else None
        plan = _best_of_both(target, work, threads, mh, mw, chunk, earlier.get((mh, mw)), inner)
        if only or positions in _AS_EXACT or plan.cycles < _WORTH_THE_ERROR * least:
            found.append(plan)
            least = min(least, plan.cycles if positions != 9 else least)
    return found


@functools.lru_cache(maxsize=256)
def _sizes(rh: int, rw: int, fixed: bool, taps: int, only: str) -> tuple[tuple[int, int, int], ...]:
    """Positions per side and outputs of the tiles that there are for a window; the one of the name ``only``, if any."""
    work, found = Work(1, 1, 1, 1, 1, rh, rw, fixed, taps=taps), []
    for positions in _POSITIONS:
        mh, mw = (positions - r + 1 if r > 1 else 1 for r in (rh, rw))
        if supported(mh, rh) and supported(mw, rw) and only in ("", name_of(work, mh, mw)):
            found.append((positions, mh, mw))
    return tuple(found)


def filter_cycles(target: Target, work: Work, plan: Plan) -> float:
    """What the transformation of filters takes in a run in which they may be others."""
    sides = filtering(plan.mh, work.rh, work.stride), filtering(plan.mw, work.rw, work.stride)
    numbers = work.taps * work.c * work.n
    found = math.prod(side.factors for side in sides) * numbers
    return found * (_FILTER if 4 * found <= target.l2_bytes else _FAR_FILTER) + _TURNED * numbers


def _strided_plans(
    target: Target, work: Work, threads: int, high: bool, earlier: Tiles, only: str, inner_product: bool
) -> list[Plan]:
    """The same for strides of 2, in f32 with one sum each."""
    found = []
    windows = {work.rh, work.rw}
    for m in _STRIDED_PLANE if windows == {3} else _STRIDED_LINE[: 3 if high else 4] if windows == {1, 3} else ():
        mh, mw = (m if r > 1 else 1 for r in (work.rh, work.rw))
        if only in ("", name_of(work, mh, mw)):
            chunk = fixed_sums(work, 0) or 0 if work.fixed else 0
            inner = chunk if inner_product else None
            found.append(_best_of_both(target, work, threads, mh, mw, chunk, earlier.get((mh, mw)), inner))
    return found


def int16_plans(
    target: Target, work: Work, threads: int, sizes: Iterable[tuple[int, int]], earlier: Tiles | None = None
) -> list[Plan]:
    """The plans for bytes (:mod:`MNN.backends.cpu.winograd.int16`) with tiles of these ``sizes``. Pairs of channels
    cost what channels of f32 do."""
    pairs, earlier = replace(work, c=-(-work.c // 2), bytes=True), earlier or {}
    return [_best(target, pairs, threads, mh, mw, 0, earlier.get((mh, mw)), True) for mh, mw in sizes]


def inner_product_applies(target: Target) -> bool:
    """Whether inner products are faster between transforms: they need registers for tiles of many sums."""
    return has_inner_product(target) and target.vector_registers >= 32


def _best_of_both(
    target: Target,
    work: Work,
    threads: int,
    mh: int,
    mw: int,
    chunk: int,
    earlier: tuple[int, int] | None,
    inner: int | None,
) -> Plan:
    """The best plan with plain products in partial sums of ``chunk`` channels or, where they are possible, inner
    products in partial sums of ``inner``; these have register tiles of their own, by which one taken ``earlier`` is
    told."""
    kinds = (False, True) if earlier is None else (earlier in INNER_TILES,)
    found = [
        _best(target, work, threads, mh, mw, sums, earlier, inner_product=kind)
        for kind in (kinds if inner is not None else (False,))
        for sums in [chunk if inner is None or not kind else inner]
    ]
    return min(found, key=lambda plan: plan.cycles)


@functools.lru_cache(maxsize=4096)
def _best(
    target: Target,
    work: Work,
    threads: int,
    mh: int,
    mw: int,
    chunk: int,
    earlier: tuple[int, int] | None = None,
    int16: bool = False,
    inner_product: bool = False,
) -> Plan:
    plane = work.images * -(-work.oh // mh) * -(-work.ow // mw)
    far = _far_cycles(target, work)
    sizes = mh, work.rh, mw, work.rw
    best: tuple[float, int, int, int, int, int] | None = None
    kept: tuple[float, int, int, int, int, int] | None = None
    rows = plane * work.depths
    registers = target if work.fixed or int16 else with_all_registers(target)
    options = INNER_TILES if inner_product else register_tiles(registers, work.n)
    if earlier in options and -(-rows // earlier[0]) * earlier[0] <= PACKED * rows:
        options = (earlier,)  # only padding makes a tile better for one size than for another
    for mr, nv in options:
        rates = _rates(target, work.c, work.n, sizes, work.fixed, work.stride, mr, nv, chunk, inner_product, work.taps)
        nr, panels = rates.layout.nr, rates.panels
        for depths in depths_to_try(work.depths) if work.taps > 1 else (1,):
            tiles, shape = plane * -(-work.depths // depths), _shape(work, depths)
            for group in blocks_to_try(tiles, mr) if work.taps == 1 else deep_blocks(tiles, depths, mr, inner_product):
                blocks = -(-tiles // group)
                wanted = (1, *(-(-blocks_each * threads // blocks) for blocks_each in (1, 2))) if threads > 1 else (1,)
                for width in {-(-panels // min(panels, count)) for count in wanted}:
                    if work.groups == 1:
                        cycles = _cycles(target, rates, threads, tiles, group, width, far, shape)
                    else:
                        cycles = far + _of_groups(target, rates, threads, tiles, group, width, shape, work.groups)
                    if best is None or cycles < best[0] * 0.995:
                        best = cycles, mr, nv, group, width * nr, depths
                    if (mr, nv) == earlier and (kept is None or cycles < kept[0] * 0.995):
                        kept = cycles, mr, nv, group, width * nr, depths
    assert best is not None
    cycles, mr, nv, group, n_block, depths = kept if kept is not None and kept[0] <= PACKED * best[0] else best
    cycles *= _STRIDED if work.stride > 1 else 1.0
    return Plan(mh, mw, mr, nv, group, n_block, chunk, cycles, inner_product, depths)


def _shape(work: Work, depths: int) -> tuple[int, int]:
    """Slices of the input, and results, of a tile along a third axis."""
    return (len(depth_tile(depths, work.taps, work.step, work.dilation).slices), depths) if work.taps > 1 else (1, 1)


@functools.cache
def _operations(mh: int, rh: int, mw: int, rw: int, stride: int) -> tuple[float, float]:
    """Vector operations of both transforms of a tile: fractions take long to count, and to find in tables."""
    into, out = operations(filtering(mh, rh, stride), filtering(mw, rw, stride))
    return float(into), float(out)


class _Rates(NamedTuple):
    """What does not depend on the size of the images: cycles of a row of register tiles (all positions, one panel), to
    bring its rows to size, and of a tile's transforms (in, and out per vector of columns), how V and M lie, how deep
    sums are, panels of columns, U's bytes, and whether by inner products."""

    per_panel: float
    prepare: float
    per_tile: float
    per_vector: float
    layout: Layout
    depth: int
    outputs: int
    panels: int
    u: float
    inner_product: bool


@functools.lru_cache(maxsize=1024)
def _rates(
    target: Target,
    c: int,
    n: int,
    sizes: tuple[int, int, int, int],
    fixed: bool,
    stride: int,
    mr: int,
    nv: int,
    chunk: int,
    inner_product: bool,
    taps: int,
) -> _Rates:
    mh, rh, mw, rw = sizes
    filterings = filtering(mh, rh, stride), filtering(mw, rw, stride)
    positions, lanes = math.prod(f.positions for f in filterings), target.lanes(DType.F32)
    nr = nv * lanes
    into, out = _operations(mh, rh, mw, rw, stride)
    outputs = mh * mw
    read = math.prod(f.inputs for f in filterings)
    passes = _SPLIT.get(target.vector_bytes, 1.0) if target.split_vectors else 1.0
    moved_in = passes * (_INPUT[0] * into + _INPUT[1] * (positions + read) / 2)
    moved_out = passes * (_OUTPUT[0] * out + _OUTPUT[1] * (positions + outputs))
    depth, size = (-(-c // 2), 2.0) if fixed else (c, 4.0)
    sums = -(-depth // chunk) if chunk else 1
    waiting = target.fma_latency * target.fma_per_cycle / (mr * nv)
    late = 1.0 if target.lane_operand else 1.0 + _UNHIDDEN_LATENCY * max(0.0, min(waiting, 1.0) - 2 / 3)
    per_register_tile = (
        taps * (depth * step_cycles(target, DType.F32, depth, mr, nv) * late + _PER_REGISTER_TILE)
        + _PER_SUM * (taps * sums - 1) * mr * nv
    )
    prepare = 0.0
    if inner_product:
        halved = len(halved_rows(mr))
        pair = nv * max(2.0 * halved, 2.0 * mr - halved) / target.fma_per_cycle
        per_register_tile = taps * (depth / 2 * pair + _INNER_TILE)
        per_register_tile += (taps * sums - 1) * (_INNER_SUM + _INNER_VECTOR * mr * nv)
        prepare = positions * halved * (_INNER_ROW + _INNER_VECTORS * -(-depth // lanes))
    panels = -(-n // nr)
    u = size * math.prod(f.factors for f in filterings) * taps * c * panels * nr
    layout, per_tile = Layout(lanes, positions, mr, nr), -(-c // lanes) * moved_in + _PER_TILE
    return _Rates(
        positions * per_register_tile, prepare, per_tile, moved_out, layout, depth, outputs, panels, u, inner_product
    )  # fmt: skip


def _far_cycles(target: Target, work: Work) -> float:
    """Cycles to read and write images that are larger than the second-level cache."""
    through = work.c * work.stride**2 * work.step + 2 * work.n  # what is written is read first
    images = (1.0 if work.bytes else 4.0) * work.groups * work.images * work.depths * work.oh * work.ow * through
    return images / _FAR_BYTES_PER_CYCLE if images > target.l2_bytes else 0.0


def _cycles(
    target: Target,
    rates: _Rates,
    threads: int,
    tiles: int,
    group: int,
    width: int,
    far: float,
    shape: tuple[int, int] = (1, 1),
) -> float:
    """Cycles for so many tiles, in blocks of a ``group`` of them and ``width`` panels, and ``far`` for the images.

    ``shape``: slices of the input of a tile, and its results, along a third axis.
    """
    layout, u, (slices, depths) = rates.layout, rates.u, shape
    blocks, parts, columns = -(-tiles // group), -(-rates.panels // width), width * layout.nr
    per_row = width * rates.per_panel + rates.prepare * slices / depths
    per_tile = slices * rates.per_tile + depths * -(-columns // layout.lanes) * rates.per_vector
    scratch = layout.bytes(group * slices, group * depths, rates.depth, columns, rates.outputs)
    if scratch + u > 0.8 * target.l2_bytes:
        per_tile += (2 if scratch > 0.8 * target.l2_bytes else 1) * scratch / _L3_BYTES_PER_CYCLE / group
    rows = _register_tiles(tiles, group, depths, layout.mr, rates.inner_product)  # whole ones
    rows = longest(rows, _register_tiles(group, group, depths, layout.mr, rates.inner_product), parts, 1, threads)
    arithmetic = threads * (per_row * rows + per_tile * longest(tiles, group, parts, 1, threads)) + far
    first, again = u / _MEMORY_BYTES_PER_CYCLE, 0.0
    if rates.inner_product:
        first *= threads * _INNER_WAITS * (_NARROW if layout.nr == layout.lanes else 1.0)  # all read it at one time
    if u > target.l2_bytes / 2:
        again = (blocks - 1) * u / (2 * _L3_BYTES_PER_CYCLE)  # U is read in order, which hides best
    if first + again > arithmetic:
        return first + again + _NOT_HIDDEN * arithmetic
    return arithmetic + _NOT_HIDDEN * first + _NOT_HIDDEN_AGAIN * again


def _of_groups(
    target: Target, rates: _Rates, threads: int, tiles: int, group: int, width: int, shape: tuple[int, int], groups: int
) -> float:
    """The same for ``groups`` of channels, one after the other."""
    blocks = groups * -(-tiles // group) * -(-rates.panels // width)
    uneven = threads * -(-blocks // threads) / blocks
    return groups * uneven * _cycles(target, rates, 1, tiles, group, width, 0.0, shape)


def _register_tiles(tiles: int, group: int, depths: int, mr: int, inner_product: bool) -> int:
    """Rows of register tiles for so many tiles, in blocks of a ``group`` of them."""
    if depths == 1:
        return -(-tiles // mr)
    blocks, rest = divmod(tiles, group)
    unit = mr if inner_product else 1
    return sum(count * -(-(-(-part // unit) * unit * depths) // mr) for count, part in ((blocks, group), (1, rest)))
