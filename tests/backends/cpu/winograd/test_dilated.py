"""Dilated convolutions by Winograd's method: what lies between taps are images of their own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.winograd.axes import phases
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check

pytestmark = pytest.mark.usefixtures("without_tiles")


@pytest.fixture(autouse=True)
def _no_plain_products() -> Iterator[None]:
    with restricted("Winograd"):
        yield


@pytest.mark.parametrize("seed", range(20))
def test_every_result_is_in_one_phase(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, dilations = rng.integers(1, 9, 2), rng.integers(1, 5, 2)
    found = np.zeros(sizes, int)
    for part in phases([int(n) for n in sizes], [int(d) for d in dilations]):
        assert min(*part.counts, *part.sizes) > 0
        for at in np.ndindex(*part.counts, *part.sizes):
            place = np.array(at[:2]) + part.first + np.array(at[2:]) * part.dilations
            found[tuple(place)] += 1
    assert (found == 1).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_drawn_convolutions(seed: int, threads: int) -> None:
    """Along one to three axes, in groups and of pictures that are smaller than the dilation; a bias, a residual and a
    number for each pixel behind them."""
    rng = np.random.default_rng([seed, 7])
    axes, groups = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    ins, outs = (int(n) * 8 for n in rng.integers(1, 5, 2))
    kernel = tuple([int(k) for k in rng.integers(2, 4, axes)])
    dilations = tuple([int(d) for d in rng.integers(1, 5, axes)])
    sides = [int(n) + (k - 1) * d for n, k, d in zip(rng.integers(2, 14, axes), kernel, dilations, strict=True)]
    pads = tuple([int(p) for p in rng.integers(0, 3, 2 * axes)])
    x = rng.normal(size=(int(rng.integers(1, 3)), groups * ins, *sides)).astype(np.float32)
    w = (rng.normal(size=(groups * outs, ins, *kernel)) / np.sqrt(ins * np.prod(kernel))).astype(np.float32)
    bias = rng.normal(size=(groups * outs, *(1,) * axes)).astype(np.float32)

    def build(b: Builder, x: Tensor) -> Tensor:
        y = b.conv(x, b.const(w), (1,) * axes, dilations, groups, pads)
        pixels = rng.normal(size=y.shape[2:]).astype(np.float32)
        return b.op("mul", b.op("add", b.op("add", y, b.const(bias)), b.op("tanh", y)), b.const(pixels))

    precision = ("high", "normal", "low")[seed % 3]
    program = check(build, x, threads=threads, precision=precision, tol=2e-2 if precision == "low" else 2e-5)
    assert [c for c in program.commands if isinstance(c.kernel, WinogradSpec)]


@pytest.mark.parametrize("seed", range(4))
def test_integers_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, dilations = [int(n) for n in rng.integers(9, 20, 2)], tuple([int(d) for d in rng.integers(1, 5, 2)])
    x = rng.integers(0, 256, (1, 64, *sizes)).astype(np.uint8)
    w = rng.integers(-9, 10, (48, 64, 3, 3)).astype(np.int8) * 4

    def build(b: Builder, x: Tensor) -> Tensor:
        return b.conv(x, b.const(w), (1, 1), dilations, 1, (1, 2, 1, 0))

    check(build, x, tol=0)


def test_dilated_convolutions_of_networks_are_multiplied_less() -> None:
    """With no restriction, sizes as segmentation has them."""
    w = (np.random.default_rng(0).normal(size=(64, 64, 3, 3)) / 24).astype(np.float32)

    def build(b: Builder, x: Tensor) -> Tensor:
        return b.conv(x, b.const(w), (1, 1), (2, 2), 1, (2, 2, 2, 2))

    x = np.random.default_rng(1).normal(size=(1, 64, 33, 33)).astype(np.float32)
    with restricted():
        program = check(build, x, precision="high")
    assert [c for c in program.commands if isinstance(c.kernel, WinogradSpec)]
