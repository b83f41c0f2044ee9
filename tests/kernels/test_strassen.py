"""Strassen's products against float64: odd extents, cut tiles and panels, epilogues, numbers that forbid them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.kernels import toolchain
from MNN.kernels.assembly import examine
from MNN.kernels.contract_cost import pack_b
from MNN.kernels.strassen import LARGEST, SUM_ROWS, StrassenSpec, StrassenSumsSpec, product_table
from MNN.targets import Target, named_target
from tests.kernels import util

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
) -> np.ndarray:
    """C of one product; rows of A and C lie further apart than they are long."""
    (m, depth), n = x.shape, w.shape[1]
    k, half, nr = depth // 2, -(-m // 2), spec.nr(target)
    panels = -(-n // nr)
    lda, lds, ldc = depth + lda_gap, k + 5, n + 2
    a = np.zeros((m, lda), np.float32)
    a[:, :depth] = x
    sums, flags = np.zeros((5, half, lds), np.float32), np.full(-(-half // SUM_ROWS), 9, np.int32)
    first = StrassenSumsSpec()
    slots = {"a": a, "s": sums, "flags": flags}
    numbers = {"lda": lda, "lds": lds, "k": k, "m": m, "half": half}
    pointers = {name: v.ctypes.data for name, v in slots.items()}
    util.call(first, target, {**pointers, **numbers}, flags.size, list(slots.values()), checked)
    table, own, plain = product_table(m, half, lda, lds, k, nr, panels, depth * nr)
    c = np.full((m, ldc), 7, np.float32)
    rows = (np.arange(m) * ldc).astype(np.int32)
    arrays = {"a": a, "s": sums, "b": pack_b(w, nr), "c": c, "rows_c": rows, "products": table, "flags": flags}
    arrays |= operands
    arrays |= {f"rows{i}": rows for i, kind in enumerate(spec.operands) if kind in ("m", "mn")}
    mb = -(-rows_per_block // spec.mr) * spec.mr
    pairs = -(-panels // 2)
    numbers = {
        "n_products": own, "n_plain": plain, "n_flags": flags.size, "lda": lda, "lds": lds, "panel": depth * nr,
        "b_flags": 0, "n_b_flags": 0,
        "panels": panels, "pairs": pairs, "k": k, "m": m, "half": half, "n": n, "mb": mb, "nb": 1,
    }  # fmt: skip
    slots_c = {name: v.ctypes.data for name, v in arrays.items()} | numbers
    util.call(spec, target, slots_c, -(-half // mb) * pairs, list(arrays.values()), checked)
    assert (c[:, n:] == 7).all(), "wrote past the columns"
    return c[:, :n]


def numbers(m: int, k: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)


@TARGETS
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize(("m", "n", "k"), [(2, 1, 32), (9, 70, 64), (16, 128, 32), (23, 200, 96), (41, 97, 1056)])
def test_products(target: Target, m: int, n: int, k: int, checked: bool) -> None:
    x, w = numbers(m, k, n)
    exact = x.astype(np.float64) @ w
    for tile in ((4, 2), (3, 1), (1, 3)):
        found = run(target, x, w, StrassenSpec(*tile), {}, checked)
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6 * np.abs(exact).max())


def gelu() -> Body:
    return body_of(
        [F32, F32],
        lambda b, s, bias: b("mul", b("add", s, bias), b("erf", b("mul", b("add", s, bias), b.const(0.7071, F32)))),
    )


@TARGETS
def test_long_epilogues(target: Target) -> None:
    """They are stored out of line."""
    rng = np.random.default_rng(3)
    x, w, bias = (rng.standard_normal(s).astype(np.float32) for s in ((21, 64), (64, 75), (75,)))
    t = x.astype(np.float64) @ w + bias
    exact = t * np.vectorize(math.erf)(t * np.float64(np.float32(0.7071)))
    for checked in (False, True):
        found = run(target, x, w, StrassenSpec(3, 2, epilogue=gelu(), operands=("n",)), {"op0": bias}, checked)
        np.testing.assert_allclose(found, exact, rtol=0, atol=4e-6 * np.abs(exact).max())


@pytest.mark.parametrize("tile", [(9, 3), (8, 3)])
def test_constants_of_the_epilogue_take_no_registers_from_the_sums(tile: tuple[int, int]) -> None:
    target = named_target("avx512")
    spec = StrassenSpec(*tile, epilogue=gelu(), operands=("n",))
    hot = examine(toolchain.assembly(spec.emit(target), target, spec.shaped), "x86").hot
    assert hot is not None
    assert hot.vector_spills == 0


def residual() -> Body:
    return body_of([F32, F32, F32], lambda b, s, bias, r: b("max", b("add", b("add", s, bias), r), b.const(0, F32)))


@TARGETS
def test_epilogue_reads_each_operand_once(target: Target) -> None:
    """C is the memory of the residual: rows and panels that both halves hold must be stored once."""
    m, n, k = 13, 5 * target.lanes(F32) + 1, 64
    x, w = numbers(m, k, n)
    rng = np.random.default_rng(1)
    bias, other = rng.normal(size=n).astype(np.float32), rng.normal(size=(m, n + 2)).astype(np.float32)
    spec = StrassenSpec(3, 2, epilogue=residual(), operands=("n", "mn"))
    exact = np.maximum(x.astype(np.float64) @ w + bias + other[:, :n], 0)
    for checked in (False, True):
        found = run(target, x, w, spec, {"op0": bias, "op1": other}, checked)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)


@TARGETS
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, LARGEST * 1e20])
def test_large_numbers_take_the_plain_way(target: Target, bad: float) -> None:
    """They stay in their own rows, and large finite results are what plain sums give."""
    m, n, k = 40, 50, 64
    x, w = numbers(m, k, n)
    w = np.abs(w)
    x[25, 50] = bad
    found = run(target, x, w, StrassenSpec(4, 2), {}, True)
    with np.errstate(all="ignore"):
        exact = (x.astype(np.float64) @ w).astype(np.float32)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-4)


@TARGETS
def test_error_is_that_of_plain_sums(target: Target) -> None:
    """At most twice the error of sums one by one, over many results."""
    x, w = numbers(64, 512, 96)
    exact = x.astype(np.float64) @ w
    one_by_one = np.zeros(exact.shape, np.float32)
    for i in range(512):
        one_by_one += x[:, i : i + 1] * w[i]
    found = run(target, x, w, StrassenSpec(4, 2), {}, False)
    assert np.abs(found - exact).std() <= 2 * np.abs(one_by_one - exact).std()
