"""Which products the compiler gives weights of 24 bits, and that they are as exact as others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.base.program import Program
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.packing import weights
from MNN.backends.cpu.packing.weights24 import has_weights24, pays
from MNN.backends.cpu.targets import host_target
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check

pytestmark = [
    pytest.mark.usefixtures("without_tiles"),
    pytest.mark.skipif(not has_weights24(host_target()), reason="no instruction that puts bytes in place"),
]


def randn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def w24(program: Program) -> list[bool]:
    return [c.kernel.w24 for c in program.commands if isinstance(c.kernel, ContractSpec)]


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of all sizes count as far away, as those of a large model do."""
    monkeypatch.setattr(weights, "pays", lambda target, nbytes: True)


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("precision", ["high", "normal"])
@pytest.mark.parametrize("threads", [1, 2])
def test_classifier(threads: int, precision: str) -> None:
    w, bias = randn(320, 250), randn(250)

    def build(b: Builder, x: Tensor) -> Tensor:
        return b.op("max", b.op("add", b.matmul(x, b.const(w)), b.const(bias)), b.const(np.zeros((), np.float32)))

    assert w24(check(build, randn(1, 320), threads=threads, precision=precision, tol=2e-6)) == [True]
    assert w24(check(build, randn(2, 320), threads=threads, precision=precision, tol=2e-6)) == [False]


@pytest.mark.usefixtures("far")
def test_convolution_of_one_pixel() -> None:
    """As in squeeze-and-excite blocks; windows of more pixels and odd weights are left as they are."""
    for shape, value, expected in (((168, 672, 1, 1), 1.0, True), ((168, 672, 1, 1), 1e3, False)):
        w = randn(*shape) / 10
        w[3, 4, 0, 0] = value

        def build(b: Builder, x: Tensor, w: np.ndarray = w) -> Tensor:
            return b.conv(x, b.const(w), (1, 1), (1, 1), 1, (0, 0, 0, 0))

        assert w24(check(build, randn(1, 672, 1, 1), tol=3e-6)) == [expected]

    def window(b: Builder, x: Tensor) -> Tensor:
        return b.conv(x, b.const(randn(64, 128, 3, 3) / 10), (1, 1), (1, 1), 1, (0, 0, 0, 0))

    assert True not in w24(check(window, randn(1, 128, 3, 3), tol=3e-6))


def test_where_weights_lie() -> None:
    """Those that a cache holds from run to run are read as they are; how large it is, is the processor's affair."""
    for split, l2, nbytes, expected in [
        (False, 1 << 20, 1 << 20, False), (False, 1 << 20, 2 << 20, True), (False, 4 << 20, 2 << 20, False),
        (True, 1 << 20, 2 << 20, False), (True, 1 << 20, 64 << 20, True),
    ]:  # fmt: skip
        target = dataclasses.replace(host_target(), split_vectors=split, l2_bytes=l2)
        assert pays(target, nbytes) is expected

    def near(b: Builder, x: Tensor) -> Tensor:
        return b.matmul(x, b.const(randn(512, 100)))

    assert w24(check(near, randn(1, 512))) == [False]


@pytest.mark.usefixtures("far")
def test_small_and_batched_weights() -> None:
    def small(b: Builder, x: Tensor) -> Tensor:
        return b.matmul(x, b.const(randn(64, 64)))

    def batched(b: Builder, x: Tensor) -> Tensor:
        return b.matmul(x, b.const(randn(4, 256, 64)))

    assert w24(check(small, randn(1, 64))) == [False]
    assert True not in w24(check(batched, randn(4, 1, 256)))
