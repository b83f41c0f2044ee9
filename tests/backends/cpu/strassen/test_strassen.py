"""Strassen's products against float64: odd extents, cut tiles and panels, epilogues, numbers that forbid them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.assembly import examine
from MNN.backends.cpu.products.register_tiles import pack_b
from MNN.backends.cpu.strassen.code import emit_strassen
from MNN.backends.cpu.strassen.cost import chunk_of
from MNN.backends.cpu.strassen.spec import StrassenSpec, tables
from MNN.backends.cpu.strassen.sums import LARGEST, StrassenSumsSpec
from MNN.backends.cpu.targets import Target, named_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from tests.backends.cpu import util

F32 = DType.F32
TARGETS = pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)


def run(
    target: Target,
    x: np.ndarray,
    w: np.ndarray,
    spec: StrassenSpec,
    operands: dict[str, np.ndarray],
    checked: bool,
    lda_gap: int = 3,
    rows_per_block: int = 8,
    pieces: int = 1,
    groups_per_block: int = 1,
) -> np.ndarray:
    """C of one product, its depth in ``pieces``; rows of A and C lie further apart than they are long."""
    (m, depth), n, parts = x.shape, w.shape[1], 2**spec.levels
    k, rows, nr = depth // parts, -(-m // parts), spec.nr(target)
    panels, tiles, chunk = -(-n // nr), -(-rows // spec.mr), k // pieces
    spec = replace(spec, piece=chunk * nr + 16)
    lda, ldc = depth + lda_gap, n + 2
    a = np.zeros((m, lda), np.float32)
    a[:, :depth] = x
    factors, flags = np.zeros(7**spec.levels * tiles * spec.mr * k, np.float32), np.full(tiles, 9, np.int32)
    numbers = {"lda": lda, "m": m, "rows": rows, "k": k, "chunk": chunk, "tiles": tiles}
    pointers = {name: v.ctypes.data for name, v in (("a", a), ("s", factors), ("flags", flags))}
    first = StrassenSumsSpec(spec.levels, spec.mr)
    util.call(first, target, {**pointers, **numbers}, tiles, [a, factors, flags], checked)
    stages, uses = tables(spec.levels, k, chunk, nr)
    c = np.full((m, ldc), 7, np.float32)
    rows_c = (np.arange(m) * ldc).astype(np.int32)
    arrays = {"a": a, "s": factors, "b": pack_b(w, nr), "c": c, "rows_c": rows_c, "stages": stages, "uses": uses}
    arrays |= {"flags": flags, **operands}
    arrays |= {f"rows{i}": rows_c for i, kind in enumerate(spec.operands) if kind in ("m", "mn")}
    mb = -(-rows_per_block // spec.mr) * spec.mr
    groups = -(-panels // parts)
    numbers |= {
        "n_stages": len(stages), "n_flags": tiles, "b_flags": 0, "n_b_flags": 0, "panel": depth * nr,
        "panels": panels, "groups": groups, "n": n, "mb": mb, "nb": groups_per_block,
    }  # fmt: skip
    slots = {name: v.ctypes.data for name, v in arrays.items()} | numbers
    blocks = -(-rows // mb) * -(-groups // groups_per_block)
    util.call(spec, target, slots, blocks, list(arrays.values()), checked)
    assert (c[:, n:] == 7).all(), "wrote past the columns"
    return c[:, :n]


def numbers(m: int, k: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)


LEVELS = pytest.mark.parametrize("levels", [1, 2])


@TARGETS
@LEVELS
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize(("m", "n", "k"), [(2, 1, 64), (9, 70, 64), (16, 128, 64), (23, 200, 192), (41, 97, 1088)])
def test_products(target: Target, m: int, n: int, k: int, checked: bool, levels: int) -> None:
    x, w = numbers(m, k, n)
    exact = x.astype(np.float64) @ w
    for tile in ((4, 2), (3, 1), (1, 3), (4, 3)):
        found = run(target, x, w, StrassenSpec(*tile, levels), {}, checked)
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6 * levels * np.abs(exact).max())


@TARGETS
@LEVELS
@pytest.mark.parametrize("pieces", [2, 3])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_the_depth_in_pieces(target: Target, levels: int, pieces: int, groups: int) -> None:
    """B's factors of the next piece, or of the next group's first one, are formed beside products of every piece; also
    where there are few rows to do so, and where blocks take several groups."""
    x, w = numbers(61, 384, 300)
    exact = x.astype(np.float64) @ w
    for rows in (2, 8, 100):
        spec = StrassenSpec(2, 2, levels)
        found = run(target, x, w, spec, {}, True, rows_per_block=rows, pieces=pieces, groups_per_block=groups)
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6 * levels * np.abs(exact).max())


@LEVELS
def test_products_are_seven_eighths(levels: int) -> None:
    """Each stage has seven products, and in all as many uses as Strassen's algorithm has."""
    stages, uses = tables(levels, 64, 32, 16)
    assert len(uses) == 7 * len(stages) == 2 * 7**levels
    assert uses[:, 0].sum() == 2 * 12**levels


def test_pieces_of_the_depth_are_whole_vectors_and_near() -> None:
    target = named_target("avx512")
    for k, nr in ((768, 32), (192, 48), (16, 16), (16 * 37, 64), (4096, 32)):
        chunk = chunk_of(target, k, nr)
        assert k % chunk == 0
        assert chunk % 16 == 0
        assert chunk == 16 or 2 * 7 * 4 * chunk * nr <= target.l2_bytes


def gelu() -> Body:
    return body_of(
        [F32, F32],
        lambda b, s, bias: b("mul", b("add", s, bias), b("erf", b("mul", b("add", s, bias), b.const(0.7071, F32)))),
    )


@TARGETS
@LEVELS
def test_long_epilogues(target: Target, levels: int) -> None:
    """They are stored out of line."""
    rng = np.random.default_rng(3)
    x, w, bias = (rng.standard_normal(s).astype(np.float32) for s in ((21, 64), (64, 75), (75,)))
    t = x.astype(np.float64) @ w + bias
    exact = t * np.vectorize(math.erf)(t * np.float64(np.float32(0.7071)))
    for checked in (False, True):
        found = run(target, x, w, StrassenSpec(3, 2, levels, epilogue=gelu(), operands=("n",)), {"op0": bias}, checked)
        np.testing.assert_allclose(found, exact, rtol=0, atol=4e-6 * np.abs(exact).max())


@pytest.mark.parametrize(("tile", "name"), [((9, 3, 1), "avx512"), ((10, 2, 2), "avx512"), ((8, 3, 2), "avx512")])
def test_constants_of_the_epilogue_take_no_registers_from_the_sums(tile: tuple[int, int, int], name: str) -> None:
    target = named_target(name)
    spec = StrassenSpec(*tile, piece=9232, epilogue=gelu(), operands=("n",))
    hot = examine(toolchain.assembly(spec.emit(target), target, spec.shaped), "x86").hot
    assert hot is not None
    assert hot.vector_spills == 0


def residual() -> Body:
    return body_of([F32, F32, F32], lambda b, s, bias, r: b("max", b("add", b("add", s, bias), r), b.const(0, F32)))


@TARGETS
@LEVELS
def test_epilogue_reads_each_operand_once(target: Target, levels: int) -> None:
    """C is the memory of the residual: rows and panels past the last, which repeat it, must not be stored."""
    m, n, k = 13, 5 * target.lanes(F32) + 1, 64
    x, w = numbers(m, k, n)
    rng = np.random.default_rng(1)
    bias, other = rng.normal(size=n).astype(np.float32), rng.normal(size=(m, n + 2)).astype(np.float32)
    spec = StrassenSpec(3, 2, levels, epilogue=residual(), operands=("n", "mn"))
    exact = np.maximum(x.astype(np.float64) @ w + bias + other[:, :n], 0)
    for checked in (False, True):
        found = run(target, x, w, spec, {"op0": bias, "op1": other}, checked)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * levels)


@TARGETS
@LEVELS
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, LARGEST * 1e20])
def test_large_numbers_take_the_plain_way(target: Target, bad: float, levels: int) -> None:
    """They stay in their own rows, and large finite results are what plain sums give."""
    m, n, k = 43, 150, 64
    x, w = numbers(m, k, n)
    w = np.abs(w)
    x[25, 50] = bad
    found = run(target, x, w, StrassenSpec(5, 2, levels), {}, True)
    with np.errstate(all="ignore"):
        exact = (x.astype(np.float64) @ w).astype(np.float32)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-4)


@TARGETS
@LEVELS
def test_error_is_that_of_plain_sums(target: Target, levels: int) -> None:
    """At most twice the error of sums one by one, over many results; three times at two levels, where the roundings of
    factors weigh (2.1 here, 2.0 at depth 1024, 1.2 at 3072)."""
    x, w = numbers(64, 512, 96)
    exact = x.astype(np.float64) @ w
    one_by_one = np.zeros(exact.shape, np.float32)
    for i in range(512):
        one_by_one += x[:, i : i + 1] * w[i]
    found = run(target, x, w, StrassenSpec(4, 2, levels), {}, False)
    assert np.abs(found - exact).std() <= (1 + levels) * np.abs(one_by_one - exact).std()


def test_nothing_is_asked_for_in_vain() -> None:
    """Where asking again costs, only A is asked for, and there is other code: another key."""
    usual, spec = named_target("avx2"), StrassenSpec(5, 2)
    other = replace(usual, asks_in_vain=True)
    assert usual.key() != other.key()
    texts = [emit_strassen(spec, t) for t in (usual, other)]
    assert ["i32 2, i32 1)" in text for text in texts] == [True, False]  # the second-level cache
    assert "i32 3, i32 1)" in texts[1]


@TARGETS
def test_products_that_ask_for_nothing_are_the_same(target: Target) -> None:
    x, w = numbers(61, 384, 300)
    found = [run(t, x, w, StrassenSpec(2, 2), {}, True, pieces=2) for t in (target, replace(target, asks_in_vain=True))]
    np.testing.assert_array_equal(*found)
