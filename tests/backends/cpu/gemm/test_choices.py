"""Which tiles and blocks contractions take: that they fit, and how work is shared between threads."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.assembly import examine
from MNN.backends.cpu.gemm.code import many_rows
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products import register_tiles as contract_cost
from MNN.backends.cpu.products.blocks import choose_blocks, choose_grain
from MNN.backends.cpu.products.load_balance import longest, split_evenly
from MNN.backends.cpu.products.register_tiles import best_tiles, choose_tile, known_tile, narrower
from MNN.backends.cpu.targets import named_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import BodyBuilder, body_of

F32 = DType.F32


@pytest.mark.parametrize("name", ["sse4.1", "avx2", "avx512", "neon"])
def test_choices_fit(name: str) -> None:
    target = named_target(name)
    for m in (1, 2, 5, 49, 128, 196, 197, 3136, 12544):
        for n in (1, 16, 24, 96, 1000, 3072):
            for k in (1, 9, 64, 1024, 4608):
                for threads in (1, 2, 8):
                    mr, nv = choose_tile(target, m, n, k, threads=threads)
                    assert mr <= m
                    assert mr * nv + nv <= target.vector_registers
                    nr = nv * target.lanes(F32)
                    mb, nb, ub = choose_blocks(target, m, n, k, threads, (mr, nv))
                    assert mb % ub == ub % mr == nb % nr == 0
                    blocks = -(-m // ub) * -(-n // nb)
                    assert m * n * k < 1e7 or blocks >= min(threads, -(-n // nr))


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_get_equal_shares(threads: int) -> None:
    """Of products of small networks no thread gets much more than its part."""
    target = named_target("avx512")
    for m, n, k in [(196, 480, 80), (196, 112, 672), (49, 160, 960), (49, 1280, 320), (784, 40, 120), (12544, 16, 27)]:
        mr, nv = choose_tile(target, m, n, k, threads=threads)
        nr = nv * target.lanes(F32)
        _, nb, ub = choose_blocks(target, m, n, k, threads, (mr, nv))
        rows, panels = -(-m // mr), -(-n // nr)
        assert nb == nr
        most = longest(rows, ub // mr, panels, 1, threads)
        assert most <= (1.02 if threads == 2 else 1.1) * rows * panels / threads
        plain = choose_blocks(target, m, n, k, threads, (mr, nv), packed=False)
        assert plain[0] == plain[2]  # panels of these are packed block by block


@pytest.mark.parametrize(
    ("rows", "high", "panels", "wide", "threads"),
    [(5, 2, 7, 3, 2), (5, 1, 5, 1, 2), (9, 4, 3, 3, 3), (1, 1, 9, 2, 4), (6, 6, 2, 2, 2)],
)
def test_longest_counts_tiles(rows: int, high: int, panels: int, wide: int, threads: int) -> None:
    sizes = [min(high, rows - i) * min(wide, panels - j) for i in range(0, rows, high) for j in range(0, panels, wide)]
    ends = [len(sizes) * t // threads for t in range(threads + 1)]
    assert longest(rows, high, panels, wide, threads) == max(sum(sizes[a:b]) for a, b in itertools.pairwise(ends))


def test_pieces_make_equal_runs() -> None:
    assert split_evenly(28, 8, 1) == 4
    assert split_evenly(28, 8, 1, 2) == 7  # two pieces each; with pieces of 4 it would be 3 and 4
    assert split_evenly(392, 8, 14, 2) == 98
    assert split_evenly(16, 8, 1, 2) == 2
    assert split_evenly(1, 8, 4, 3) == 4


def test_small_products_are_not_shared() -> None:
    target = named_target("avx512")
    assert choose_grain(target, 1, 24, 72, (1, 2), 1, 2) == 2
    assert choose_grain(target, 1, 240, 960, (1, 1), 1, 15) < 8  # much to read
    assert choose_grain(target, 8, 16, 16, (8, 1), 64, 64) > 1  # each of many is small


def test_tiles_stay_as_wide_as_weights_are_packed() -> None:
    """Sizes of pictures from 128 to 416: where a tile is within a half of the best, weights are not packed again."""
    target = named_target("avx512")
    n, k, made, first = 1024, 512, [(9, 3), (6, 4), (5, 4)], (14, 2)
    again = 0
    for side in range(4, 14):
        m = side * side
        tile = known_tile(target, m, n, k, F32, first, [*made, first], 0.0, packed=True)
        assert tile is not None
        assert tile[1] == first[1]
        loose = known_tile(target, m, n, k, F32, first, [*made, first], 0.0)
        again += loose is None or loose[1] != first[1]
    assert again  # without weights that are packed, other tiles would be taken
    worst = best_tiles(target, 3, n, k)[-1]
    assert known_tile(target, 3, n, k, F32, worst, [worst], 0.0, packed=True) is None


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["avx2", "avx512", "neon"])
def test_what_is_kept_at_a_glance_is_close_to_the_best(name: str, threads: int) -> None:
    """No tile is better than the bound that saves looking at all of them."""
    target, rng = named_target(name), np.random.default_rng(0)
    kept = 0
    for _ in range(300):
        m, n, k = (int(2 ** rng.uniform(0, top)) for top in (14, 11, 12))
        costs = contract_cost._costs(target, m, n, k, F32, threads)
        bound = m * contract_cost._per_row(target, F32, n, k)
        assert bound <= min(costs.values()) * (1 + 1e-9)
        earlier = list(costs)[int(rng.integers(len(costs)))]
        found = known_tile(target, m, n, k, F32, earlier, [], 0.0, threads)
        assert (found == earlier) == (costs[earlier] <= contract_cost.KEPT * min(costs.values()))
        kept += costs[earlier] <= contract_cost.KEPT * bound
    assert kept


def test_when_vectors_are_of_half_the_width() -> None:
    split = dataclasses.replace(named_target("avx512"), split_vectors=True, fma_per_cycle=1.0)
    assert narrower(split, 24, 96)  # one and a half vectors
    assert narrower(split, 40, 120)
    assert not narrower(split, 32, 96)
    assert not narrower(split, 960, 160)
    assert not narrower(named_target("avx512"), 24, 96)  # half of a vector would take as long as a whole one
    assert choose_tile(split.narrowed(), 784, 24, 96) == (9, 3)


def test_when_rows_are_many() -> None:
    target = named_target("avx2")
    assert many_rows(target, (6, 2), 3136, 64)
    assert not many_rows(target, (6, 2), 49, 64)
    assert not many_rows(target, (1, 4), 3136, 64)
    assert not many_rows(target, (12, 1), 3136, 64)  # asks for nothing anyway
    wide = named_target("avx512")
    assert many_rows(wide, (14, 2), 12544, 64)
    assert not many_rows(dataclasses.replace(wide, fetches_ahead=True), (14, 2), 12544, 64)


@pytest.mark.parametrize("name", ["avx512", "avx2"])
def test_results_of_shallow_products_stay_in_the_first_level_cache(name: str) -> None:
    """Lines of which every panel writes a part; not where one panel has all columns, or all fits the second level."""
    target = named_target(name)
    tile = (4, 2)
    nr = tile[1] * target.lanes(DType.F32)
    m = target.l2_bytes // 16
    for n, k in ((3 * nr + 5, 4), (5 * nr, 24)):
        mb, nb, _ = choose_blocks(target, m, n, k, 1, tile)
        assert mb * (n + k) * 4 <= max(target.l1_bytes, 4 * tile[0] * (n + k) * 4)
        assert nb >= n
    assert choose_blocks(target, m, nr, 4, 1, tile)[0] > 1000
    assert choose_blocks(target, 100, 3 * nr, 4, 1, tile)[0] == 100


def test_lines_of_bytes_that_panels_write_parts_of_stay_in_the_first_level_cache() -> None:
    """A line of each row, not whole rows: so that a panel of B serves more rows."""
    target, tile, m, n, k = named_target("avx2"), (4, 2), 3136, 256, 16
    words, whole = (choose_blocks(target, rows, n, k, 1, tile)[0] for rows in (m, m // 2))
    rows = choose_blocks(target, m, n, k, 1, tile, written=1)[0]
    assert words < rows <= target.l1_bytes // 2 // 64
    assert choose_blocks(target, m // 8, n, k, 1, tile, written=1)[0] == m // 8  # all in the second-level cache
    assert whole == words


@pytest.mark.parametrize("tile", [(7, 2), (5, 3), (3, 5), (2, 7)])
def test_bytes_that_are_taken_apart_leave_registers_for_sums(tile: tuple[int, int]) -> None:
    """Where 16-bit values are multiplied: two steps at once would be taken apart before the first is summed."""
    target = named_target("avx512")
    spec = ContractSpec.of(DType.U8, DType.I8, DType.I32, DType.I32, *tile, True, None, (), 4)
    hot = examine(toolchain.assembly(spec.emit(target), target, False), "x86").hot
    assert hot is not None
    assert hot.vector_spills == 0


@pytest.mark.parametrize("tile", [(4, 2), (6, 1)])
@pytest.mark.parametrize("long", [False, True])
def test_pairs_of_bytes_leave_registers_for_sums(tile: tuple[int, int], long: bool) -> None:
    """Neither a second row of weights nor constants of a residual connection take them."""
    target = named_target("avx2")

    def added(b: BodyBuilder, total: int, other: int, scale: int) -> int:
        rounded = b("round", b("mul", b.cast(total, F32), scale))
        for i in range(4):
            rounded = b("fma", rounded, b.const(0.3 + i, F32), b.const(0.7 + i, F32))
        return b.cast(b("fma", b.cast(other, F32), b.const(0.9, F32), rounded), DType.I32)

    body = body_of([DType.I32, DType.U8, F32], added) if long else None
    operands = ("mn", "n") if long else ()
    spec = ContractSpec.of(
        DType.U8, DType.I8, DType.I32, DType.I32, *tile, True, body, operands, 4, byte_pairs=True
    )  # fmt: skip
    hot = examine(toolchain.assembly(spec.emit(target), target, spec.shaped), "x86").hot
    assert hot is not None
    assert sum(hot.kinds.values()) > 40
    assert hot.vector_spills == 0
