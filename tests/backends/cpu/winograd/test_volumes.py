"""Windows with taps along three axes by Winograd's method: taps of the third one are summed between the transforms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.products.dot8 import uses_int16_dot
from MNN.backends.cpu.targets import host_target
from MNN.backends.cpu.winograd.axes import choose_axes
from MNN.backends.cpu.winograd.cost import inner_product_applies, plans
from MNN.backends.cpu.winograd.depth import depth_tile
from MNN.backends.cpu.winograd.fixed import applies
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.backends.cpu.winograd.sums import Work
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check
from tests.processors.processors import processors

pytestmark = pytest.mark.usefixtures("without_tiles")
SEEDS = range(6)


@pytest.fixture(autouse=True)
def _no_plain_products() -> Iterator[None]:
    with restricted("Winograd"):
        yield


def block(rng: np.random.Generator, c: int, n: int, integers: bool = False) -> tuple[np.ndarray, np.ndarray, object]:
    """Random inputs, and a convolution of them with bias, a residual sum and ReLU, unless of integers."""
    kernel = (int(rng.integers(2, 5)), 3, 3)
    side = 1 if integers else int(rng.integers(1, 3))
    strides, dilations = (int(rng.integers(1, 4)), side, side), (int(rng.integers(1, 4)), 1, 1)
    out = [int(k) for k in rng.integers((1, 3, 3), (9, 20, 20))]
    pads = [int(p) for p in rng.integers(0, 3, 6)]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [
        (o - 1) * s + k - pads[a] - pads[a + 3] for a, (o, s, k) in enumerate(zip(out, strides, spans, strict=True))
    ]
    sizes = [max(size, 1) for size in sizes]
    out = [
        (m + pads[a] + pads[a + 3] - k) // s + 1 for a, (m, k, s) in enumerate(zip(sizes, spans, strides, strict=True))
    ]
    batch = int(rng.integers(1, 3))
    if integers:
        x = rng.integers(0, 256, (batch, c, *sizes)).astype(np.uint8)
        w = rng.integers(-127, 128, (n, c, *kernel)).astype(np.int8)
        return x, np.zeros(0, np.float32), lambda b, x: b.conv(x, b.const(w), strides, dilations, 1, pads)
    x = rng.standard_normal((batch, c, *sizes)).astype(np.float32)
    other = rng.standard_normal((batch, n, *out)).astype(np.float32)
    w = (rng.standard_normal((n, c, *kernel)) / np.sqrt(c * np.prod(kernel))).astype(np.float32)
    bias = rng.standard_normal((n, 1, 1, 1)).astype(np.float32)

    def build(b: Builder, x: Tensor, other: Tensor) -> Tensor:
        y = b.op("add", b.conv(x, b.const(w), strides, dilations, 1, pads), b.const(bias))
        return b.op("max", b.op("add", y, other), b.const(np.zeros((), np.float32)))

    return x, other, build


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("precision", ["high", "normal", "low"])
def test_random_blocks(seed: int, precision: str) -> None:
    rng = np.random.default_rng(seed)
    whole = bool(rng.integers(0, 2))
    c, n = (int(k) * 16 for k in rng.integers(2, 9, 2)) if whole else (int(k) for k in rng.integers(20, 90, 2))
    x, other, build = block(rng, c, n)
    program = check(
        build, x, other, precision=precision, threads=1 + seed % 2, tol=2e-2 if precision == "low" else 2e-5
    )  # type: ignore[arg-type]
    (spec,) = [c.kernel for c in program.commands if isinstance(c.kernel, WinogradSpec)]
    assert spec.deep
    assert "mn" in spec.operands
    if precision == "low":
        assert spec.fixed == (spec.x is DType.BF16 and applies(host_target(), c))
    elif not whole:
        assert not spec.inner_product


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_are_exact(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On processors that multiply bytes as numbers of 16 bits."""
    monkeypatch.setenv("MNN_TARGET", processors().get("avx2", ""))
    if not uses_int16_dot(host_target(), 1 << 20):
        pytest.skip("bytes are multiplied as they are")
    rng = np.random.default_rng(seed)
    x, _, build = block(rng, 64, int(rng.integers(16, 70)), integers=True)
    program = check(build, x, threads=1 + seed % 2, tol=0)  # type: ignore[arg-type]
    found = [c.kernel for c in program.commands if isinstance(c.kernel, WinogradSpec)]
    assert [spec.deep and spec.x is DType.I16 for spec in found] == [True]


@pytest.mark.skipif(not inner_product_applies(host_target()), reason="inner products do not pay here")
def test_inner_products_are_taken() -> None:
    rng = np.random.default_rng(1)
    w = (rng.standard_normal((64, 64, 3, 3, 3)) / 40).astype(np.float32)
    ones = (1, 1, 1)
    x = rng.standard_normal((1, 64, 5, 22, 22)).astype(np.float32)
    program = check(lambda b, x: b.conv(x, b.const(w), ones, ones, 1, (1,) * 6), x, tol=2e-5, precision="high")
    found = [c.kernel for c in program.commands if isinstance(c.kernel, WinogradSpec)]
    assert [spec.deep and spec.inner_product for spec in found] == [True]


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 3, 4])
@pytest.mark.parametrize("taps", [2, 3, 5])
def test_results_of_a_tap_read_neighbours(stride: int, dilation: int, taps: int) -> None:
    for results in range(1, 9):
        tile = depth_tile(results, taps, stride, dilation)
        assert len(set(tile.slices)) == len(tile.slices), "a slice is transformed once"
        for k in range(taps):
            for z in range(results):
                assert tile.slices[tile.taps[k] + z] == z * stride + k * dilation
        assert set(tile.slices) == {z * stride + k * dilation for z in range(results) for k in range(taps)}


def test_axes() -> None:
    """Tiles lie along the axes that windows have taps along; the first of three is summed."""
    found = {kernel: choose_axes(kernel) for kernel in ((3, 3, 3), (1, 3, 3), (3, 1, 1), (3, 1, 3), (3, 3), (3,))}
    told = {k: (a.depth, a.row, a.column, a.others) for k, a in found.items() if a is not None}
    assert told == {
        (3, 3, 3): (0, 1, 2, ()),
        (1, 3, 3): (None, 1, 2, (0,)),
        (3, 1, 1): (None, 0, 2, (1,)),
        (3, 1, 3): (None, 0, 2, (1,)),
        (3, 3): (None, 0, 1, ()),
        (3,): (None, None, 0, ()),
    }
    assert choose_axes((3, 3, 3, 3)) is None


def test_slices_are_transformed_for_several_results() -> None:
    """Tiles of one result along the third axis would transform every slice once for each tap."""
    for work in (Work(1, 56, 56, 64, 64, 3, 3, depths=16, taps=3), Work(1, 14, 14, 256, 256, 3, 3, depths=4, taps=3)):
        assert min(plans(host_target(), work, 1, "high"), key=lambda plan: plan.cycles).depths > 1
