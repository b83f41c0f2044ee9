"""Strassen's products chosen by the compiler: where, how exact, and what infinities do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.strassen import cost as strassen_cost
from MNN.backends.cpu.strassen.spec import StrassenSpec
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check

rng = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _starts_cost_little(without_tiles: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on processors whose plain products are further from their peak, so that these sizes are large enough, whose
    threads have one cache, and which have no units for additions. Rates and caches are not this machine's."""
    library = shared_library(cache=True)
    monkeypatch.setattr(
        library, "target", replace(library.target, fma_per_cycle=1.0, l1_bytes=32 << 10, l2_bytes=1 << 20)
    )
    cheap = replace(strassen_cost._OTHERS, late=(0.0, 0.0), sums=(30.0, 180.0), far_sums=(30.0, 180.0), vector=0.0)
    monkeypatch.setattr(strassen_cost, "_LOSSES", {})
    for name in ("PASSED_ON", "FAR_PASSED_ON", "KEPT"):
        monkeypatch.setattr(strassen_cost, name, 0.0)
    monkeypatch.setattr(strassen_cost, "_OTHERS", cheap)
    strassen_cost.choose_strassen.cache_clear()
    with restricted(without=["inner products"]):
        yield
    strassen_cost.choose_strassen.cache_clear()


def randn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def uses(program: object) -> int:
    return sum(isinstance(c.kernel, StrassenSpec) for c in program.commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("m", "n", "k"), [(197, 768, 768), (128, 640, 1024), (99, 1000, 512)])
def test_large_products_are_strassens(m: int, n: int, k: int, threads: int) -> None:
    w, bias = randn(k, n) / np.float32(np.sqrt(k)), randn(n)

    def build(b: Builder, x, rest):
        y = b.op("add", b.matmul(x, b.const(w)), b.const(bias))
        return b.op("add", y, rest)

    program = check(build, randn(m, k), randn(m, n), threads=threads, precision="high", tol=2e-6)
    assert uses(program) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rest", ["bias", "bias and a sum", "nothing"])
def test_deep_products(threads: int, rest: str) -> None:
    """Panels of the whole depth would not stay near."""
    m, n, k = 197, 520, 4096
    w, bias = randn(k, n) / np.float32(np.sqrt(k)), randn(n)

    def build(b: Builder, x, more):
        y = b.matmul(x, b.const(w))
        if rest == "nothing":
            return y
        y = b.op("add", y, b.const(bias))
        return b.op("max", b.op("add", y, more), b.like(0.0, y)) if rest != "bias" else y

    program = check(build, randn(m, k), randn(m, n), threads=threads, precision="high", tol=4e-6)
    assert uses(program) >= 1


def test_threads_leave_products_with_few_columns_to_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PASSED_ON", "FAR_PASSED_ON", "KEPT"):
        monkeypatch.setattr(strassen_cost, name, 1e3)
    w = randn(768, 768) / np.float32(np.sqrt(768))

    def build(b: Builder, x):
        return b.matmul(x, b.const(w))

    for threads in (1, 2):
        program = check(build, randn(197, 768), threads=threads, precision="high", tol=2e-6)
        assert uses(program) == (threads == 1)


def test_pointwise_convolutions_are_strassens() -> None:
    w = randn(512, 512, 1, 1) / np.float32(20)

    def build(b: Builder, x):
        return b.op("max", b.conv(x, b.const(w), (1, 1), (1, 1), 1, (0, 0, 0, 0)), b.like(0.0, x))

    program = check(build, randn(2, 512, 14, 14), precision="high", tol=3e-6)
    assert uses(program) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_many_rows_are_multiplied_in_parts(threads: int) -> None:
    """Sums of a part of A have to stay near; the last part is the smaller one, of an odd number of rows."""
    w, bias = randn(256, 512, 1, 1) / np.float32(20), randn(1, 256, 1, 1)

    def build(b: Builder, x, rest):
        y = b.conv(x, b.const(w), (1, 1), (1, 1), 1, (0, 0, 0, 0))
        y = b.op("add", b.op("add", y, b.const(bias)), rest)
        return b.op("max", y, b.like(0.0, y))

    x, rest = randn(3, 512, 29, 29), randn(3, 256, 29, 29)
    program = check(build, x, rest, threads=threads, precision="high", tol=3e-6)
    assert uses(program) > 1


@pytest.mark.parametrize("where", ["rows", "weights"])
def test_infinities_stay_where_they_are(where: str) -> None:
    x, w = randn(200, 768), randn(768, 768)
    (x if where == "rows" else w)[150, 40] = np.inf

    def build(b: Builder, x):
        y = b.matmul(x, b.const(w))
        return b.op("min", b.op("max", y, b.like(-100.0, y)), b.like(100.0, y))

    program = check(build, x, precision="high", tol=1e-5)
    assert uses(program) == (where == "rows")


def test_weights_with_an_outlier_are_multiplied_plainly() -> None:
    """One huge weight whose factors are zero must not drown what the others give."""
    x, w = randn(200, 768), randn(768, 768)
    x[:, 40], w[40, 150] = 0, 1e20
    assert uses(check(lambda b, x: b.matmul(x, b.const(w)), x, precision="high", tol=1e-5)) == 0


def test_equal_columns_give_equal_results() -> None:
    w = randn(512, 1000)
    w[:, 700] = w[:, 3]
    program = check(lambda b, x: b.matmul(x, b.const(w)), randn(169, 512), precision="high", tol=1e-4)
    assert uses(program) == 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("m", "n", "k"), [(199, 1000, 768), (601, 1030, 1024)])
def test_two_levels(m: int, n: int, k: int, threads: int) -> None:
    """Rows and panels that are no multiple of four; the plain result of infinite numbers, too."""
    w, x = randn(k, n) / np.float32(np.sqrt(k)), randn(m, k)
    for bad in (False, True):
        if bad:
            x[m // 2, 7] = np.inf
        program = check(lambda b, x: b.matmul(x, b.const(w)), x, threads=threads, precision="high", tol=3e-6)
        assert {c.kernel.levels for c in program.commands if isinstance(c.kernel, StrassenSpec)} == {2}


def test_small_products_are_not() -> None:
    assert uses(check(lambda b, x: b.matmul(x, b.const(randn(64, 64))), randn(40, 64), precision="high")) == 0


def test_one_row_of_a_large_product_is_not() -> None:
    w = randn(4096, 4096) / np.float32(64)
    program = check(lambda b, x: b.matmul(x, b.const(w)), randn(1, 4096), precision="high", tol=1e-5)
    assert uses(program) == 0


def test_threads_that_sum_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows are enough for both, blocks are cut by rows: factors of A stay with the thread that formed them."""
    monkeypatch.setattr(strassen_cost, "PASSED_ON", 9.0)
    w = randn(512, 512, 1, 1) / np.float32(20)

    def build(b: Builder, x):
        return b.conv(x, b.const(w), (1, 1), (1, 1), 1, (0, 0, 0, 0))

    program = check(build, randn(1, 512, 14, 14), threads=2, precision="high", tol=3e-6)
    (command,) = (c for c in program.commands if isinstance(c.kernel, StrassenSpec))
    assert command.args["mb"] < command.args["rows"]
    assert command.args["nb"] == command.args["groups"]
