"""Inner products chosen by the compiler: where, with what around them, and for several sizes."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.inner_product.cost import has_inner_product
from MNN.backends.cpu.inner_product.spec import InnerProductSpec
from MNN.backends.cpu.strassen.spec import StrassenSpec
from MNN.backends.cpu.targets import host_target
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check

pytestmark = pytest.mark.usefixtures("without_tiles")

rng = np.random.default_rng(6)
FASTER = has_inner_product(host_target())


def randn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def uses(program: object) -> int:
    return sum(isinstance(c.kernel, InnerProductSpec) for c in program.commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 192, 128), (75, 330, 190)])
def test_products(m: int, n: int, k: int, threads: int) -> None:
    w, bias = randn(k, n), randn(n)

    def build(b: Builder, x, rest):
        y = b.op("add", b.matmul(x, b.const(w)), b.const(bias))
        return b.op("max", b.op("add", y, rest), b.const(np.zeros((), np.float32)))

    program = check(build, randn(m, k), randn(m, n), threads=threads, precision="high", tol=2e-6)
    assert uses(program) == FASTER


@pytest.mark.parametrize("kind", ["infinite", "large"])
def test_other_weights_are_multiplied_plainly(kind: str) -> None:
    w = randn(128, 96)
    w[3, 5] = {"infinite": np.inf, "large": 1e30}[kind]

    def build(b: Builder, x):
        return b.matmul(x, b.const(w))

    x = np.abs(randn(64, 128))
    assert uses(check(build, x, precision="high", tol=2e-6)) == 0


@pytest.mark.parametrize("kind", ["bank of filters", "of one sign", "one of many"])
def test_weights_that_must_not_be_mixed_up(kind: str) -> None:
    """Sums hold nothing of loud numbers elsewhere in the row, and none is below zero that cannot be."""
    m, n, k = 62, 128, 512
    spectrum = np.abs(randn(m, k)) * np.float32(10.0) ** -np.linspace(0, 9, k, dtype=np.float32)
    if kind == "of one sign":
        w = np.abs(randn(k, n)) * (np.arange(k)[:, None] // 4 >= np.arange(n)).astype(np.float32) + np.float32(1e-9)
    else:
        width = 8 if kind == "bank of filters" else 1
        distance = np.abs(np.arange(k)[:, None] - 4 * np.arange(n))
        w = np.maximum(width - distance, 0).astype(np.float32) * np.where(np.arange(n) % 2, 1, -1).astype(np.float32)

    def build(b: Builder, x):
        return b.matmul(x, b.const(w))

    program = check(build, spectrum, precision="high", tol=2e-6)
    assert not any(isinstance(c.kernel, (InnerProductSpec, StrassenSpec)) for c in program.commands)
