"""Convolutions that the compiler gives to Winograd's method: choices by precision, layouts, epilogues, threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from MNN.backends.base.candidates import restricted
from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.program import Program
from MNN.backends.cpu.gemm.rotated_groups import choose_rotated
from MNN.backends.cpu.products.register_tiles import contract_cycles
from MNN.backends.cpu.targets import host_target, named_target
from MNN.backends.cpu.winograd.cost import plans
from MNN.backends.cpu.winograd.fixed import applies
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.backends.cpu.winograd.sums import Work, partial_sums
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check

pytestmark = pytest.mark.usefixtures("without_tiles")


@pytest.fixture(autouse=True)
def _no_inner_products() -> Iterator[None]:
    """As on processors without units for additions, where products have one rival less."""
    with restricted(without=["inner products"]):
        yield


def randn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def specs(program: Program) -> list[WinogradSpec]:
    return [c.kernel for c in program.commands if isinstance(c.kernel, WinogradSpec)]


def conv(b: Builder, x: Tensor, n: int, kernel: tuple[int, ...], pads: tuple[int, ...], stride: int = 1) -> Tensor:
    weights = randn(n, x.shape[1], *kernel) / np.float32(np.sqrt(x.shape[1] * np.prod(kernel)))
    ones = (1,) * len(kernel)
    return b.conv(x, b.const(weights), (stride,) * len(kernel), ones, 1, pads)


@pytest.mark.parametrize("precision", ["high", "normal"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "n", "kernel", "pads", "stride"),
    [
        ((2, 64, 15, 18), 48, (3, 3), (1, 1, 1, 1), 1),
        ((1, 64, 14, 14), 64, (3, 3), (0, 0, 0, 0), 1),
        ((1, 50, 21, 16), 33, (3, 3), (2, 0, 1, 1), 1),
        ((1, 128, 17, 17), 64, (1, 7), (0, 3, 0, 3), 1),
        ((1, 128, 17, 17), 64, (7, 1), (3, 0, 3, 0), 1),
        ((1, 48, 20, 20), 64, (5, 5), (2, 2, 2, 2), 1),
        ((2, 64, 90), 64, (3,), (1, 1), 1),
        ((2, 64, 29, 36), 80, (3, 3), (1, 1, 1, 1), 2),
        ((1, 130, 41, 40), 129, (3, 3), (0, 2, 1, 0), 2),
        ((2, 128, 181), 128, (3,), (0, 0), 2),
    ],
)
def test_residual_block(
    shape: tuple[int, ...],
    n: int,
    kernel: tuple[int, ...],
    pads: tuple[int, ...],
    stride: int,
    precision: str,
    threads: int,
) -> None:
    """A convolution with bias, a residual and ReLU in its epilogue."""

    def build(b: Builder, x: Tensor) -> Tensor:
        y = conv(b, x, n, kernel, pads, stride)
        bias = b.const(randn(n, *(1,) * len(kernel)))
        other = b.op("tanh", y)
        y = b.op("add", b.op("add", y, bias), other)
        return b.op("max", y, b.const(np.zeros((), np.float32)))

    program = check(build, randn(*shape), threads=threads, precision=precision, tol=2e-5)
    found = specs(program)
    assert found, [c.choice for c in program.commands]
    chosen = next(c.choice for c in program.commands if isinstance(c.kernel, WinogradSpec))
    assert chosen is not None
    assert "Winograd" in chosen.name
    assert "implicit GEMM" in chosen.rejected


@pytest.mark.skipif(not applies(host_target(), 64), reason="no products of pairs of 16 bits")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "n", "kernel", "pads"),
    [
        ((2, 64, 15, 18), 48, (3, 3), (1, 1, 1, 1)),
        ((1, 72, 21, 16), 33, (3, 3), (2, 0, 1, 1)),
        ((1, 128, 17, 17), 64, (1, 7), (0, 3, 0, 3)),
        ((1, 48, 20, 20), 64, (5, 5), (2, 2, 2, 2)),
    ],
)
def test_fixed_point_in_low(
    shape: tuple[int, ...], n: int, kernel: tuple[int, ...], pads: tuple[int, ...], threads: int
) -> None:
    def build(b: Builder, x: Tensor) -> Tensor:
        y = conv(b, b.op("max", x, b.const(np.zeros((), np.float32))), n, kernel, pads)
        y = b.op("add", y, b.const(randn(n, 1, 1)))
        return b.op("add", conv(b, y, 32, (1, 1), (0, 0, 0, 0)), b.const(randn(32, 1, 1)))

    program = check(build, randn(*shape), threads=threads, precision="low", tol=2e-2)
    (spec,) = specs(program)
    assert spec.fixed
    assert spec.out is DType.BF16


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_groups_of_channels(seed: int, threads: int) -> None:
    """Drawn groups with windows along one to three axes: a bias, a residual and a number for each pixel behind them."""
    draw = np.random.default_rng(seed)
    axes = int(draw.integers(1, 4))
    groups, per_in, per_out = (int(n) for n in draw.integers((2, 8, 8), (6, 40, 40)))
    sides = [int(n) for n in draw.integers(*((16, 60) if axes == 1 else (4, 18)), axes)]
    pads = tuple(int(n) for n in draw.integers(0, 2, 2 * axes))
    stride = 1 if axes == 3 else int(draw.integers(1, 3))
    shape = int(draw.integers(1, 3)), groups * per_in, *sides
    w = draw.normal(size=(groups * per_out, per_in, *(3,) * axes)) / np.sqrt(per_in * 3**axes)
    precision = str(draw.choice(["high", "normal"]))

    def build(b: Builder, x: Tensor) -> Tensor:
        y = b.conv(x, b.const(w.astype(np.float32)), (stride,) * axes, (1,) * axes, groups, pads)
        y = b.op("add", b.op("add", y, b.const(randn(groups * per_out, *(1,) * axes))), b.op("tanh", y))
        return b.op("mul", y, b.const(randn(*y.shape[2:])))

    with restricted(without=["implicit GEMM", "GEMM"]):
        program = check(build, randn(*shape), threads=threads, precision=precision, tol=2e-5)
    assert all(s.grouped for s in specs(program))
    assert specs(program)


@pytest.mark.parametrize(("c", "size"), [(16, 14), (24, 28), (36, 29)])
def test_small_groups_are_multiplied_less(c: int, size: int) -> None:
    """Where windows move by one, the method is chosen for groups as networks have them, exact ones too."""
    w = randn(4 * c, c, 3, 3) / np.float32(3 * np.sqrt(c))

    def build(b: Builder, x: Tensor) -> Tensor:
        return b.conv(x, b.const(w), (1, 1), (1, 1), 4, (1, 1, 1, 1))

    (spec,) = specs(check(build, randn(1, 4 * c, size, size), precision="high"))
    assert spec.grouped


def test_residual_is_fused() -> None:
    def build(b: Builder, x: Tensor, other: Tensor) -> Tensor:
        return b.op("max", b.op("add", conv(b, x, 64, (3, 3), (1, 1, 1, 1)), other), b.const(np.zeros((), np.float32)))

    (spec,) = specs(check(build, randn(1, 64, 17, 13), randn(1, 64, 17, 13)))
    assert spec.operands == ("mn",)


@pytest.mark.parametrize(
    ("stride", "dilation", "groups", "c"), [(3, 1, 1, 64), (2, 2, 1, 64), (1, 1, 16, 64), (1, 1, 1, 3)]
)
def test_where_it_does_not_apply(stride: int, dilation: int, groups: int, c: int) -> None:
    def build(b: Builder, x: Tensor) -> Tensor:
        w = b.const(randn(64, c // groups, 3, 3))
        return b.conv(x, w, (stride, stride), (dilation, dilation), groups, (1, 1, 1, 1))

    assert not specs(check(build, randn(1, c, 16, 16)))


def test_weights_with_an_outlier_are_multiplied_plainly() -> None:
    """One huge weight must not drown what the others give in its tile: its rounding error would."""
    x, w = randn(1, 64, 16, 16), randn(64, 64, 3, 3)
    x[0, 5], w[7, 5, 1, 2] = 0, 1e20

    def build(b: Builder, x: Tensor) -> Tensor:
        return b.conv(x, b.const(w), (1, 1), (1, 1), 1, (1, 1, 1, 1))

    assert not specs(check(build, x))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1e6])
def test_what_counts_as_an_outlier(value: float) -> None:
    w = randn(64, 64)
    assert ConstantPool().even(("normal",), w)
    assert ConstantPool().even(("nothing",), 0 * w)
    w[3, 4] = value
    assert not ConstantPool().even(("one",), w)


def test_precision_bounds_the_tiles() -> None:
    """``high`` takes partial sums from six positions on and nothing with the error of eight in a plane."""
    work = Work(1, 70, 70, 64, 64, 3, 3)
    assert [partial_sums(work, n, True) for n in (4, 6, 8)] == [0, 32, None]
    assert [partial_sums(dataclasses.replace(work, c=c), 6, True) for c in (48, 47, 32, 31)] == [32, 16, 16, None]
    assert [partial_sums(work, n, False) for n in (4, 6, 8, 9, 10)] == [0, 0, 32, None, None]
    line = dataclasses.replace(work, rh=1, rw=7, c=128)
    assert [partial_sums(line, n, True) for n in (8, 9, 10)] == [32, 32, None]
    assert partial_sums(dataclasses.replace(line, c=127), 9, True) is None
    assert partial_sums(dataclasses.replace(line, rw=5), 9, False) is None
    assert [partial_sums(dataclasses.replace(work, c=c), 5, True) for c in (15, 16, 31, 256)] == [None, 0, 0, 0]
    wide = dataclasses.replace(work, rh=5, rw=5)
    assert [partial_sums(dataclasses.replace(wide, c=c), 7, True) for c in (47, 48, 96)] == [None, 16, 32]
    assert partial_sums(work, 7, False) is None
    for name in ("sse4.1", "avx2", "avx512", "neon"):
        for precision in ("high", "normal"):
            for threads in (1, 2):
                for plan in plans(named_target(name), work, threads, precision):
                    assert plan.cycles > 0
                    assert plan.n_block % (plan.nv * named_target(name).lanes(DType.F32)) == 0
                    assert plan.group >= 1


def test_transforms_take_longer_where_units_take_half_vectors() -> None:
    """Of 8 channels and windows of 7x7 they are most of the time, and the products alone take less (measured on Zen 1:
    20 million cycles, Winograd's 26); of 64 channels and windows of 3x3 they are not."""
    rates = {"split_vectors": True, "fma_per_cycle": 1.0, "fma_latency": 5}
    target = dataclasses.replace(named_target("avx2"), **rates)
    rotated = choose_rotated(target, 8, 8, 32, 49)
    assert rotated is not None
    plain = -(-40 * 32 // rotated.rows) * (32 // rotated.panel.groups) * rotated.cycles
    assert min(p.cycles for p in plans(target, Work(1, 40, 32, 8, 8, 7, 7, groups=32), 1, "normal")) > plain
    best = min(p.cycles for p in plans(target, Work(1, 40, 40, 64, 64, 3, 3), 1, "normal"))
    assert best < contract_cycles(target, 1600, 64, 9 * 64) / 2


def test_weights_in_few_tiles_and_many_channels_are_not_multiplied() -> None:
    """Where the bytes of U decide, the smaller transform is taken."""
    target = named_target("avx512")
    best = min(plans(target, Work(1, 7, 7, 512, 512, 3, 3), 1, "normal"), key=lambda p: p.cycles)
    assert (best.mh, best.mw) == (2, 2)
    best = min(plans(target, Work(1, 56, 56, 64, 64, 3, 3), 1, "normal"), key=lambda p: p.cycles)
    assert (best.mh, best.mw) == (4, 4)


@pytest.mark.parametrize("name", ["avx2", "neon"])
@pytest.mark.parametrize(("size", "tiles"), [(14, 16), (20, 25), (28, 49)])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_padding_count(name: str, size: int, tiles: int, threads: int) -> None:
    """Register tiles are chosen so that few of their rows are padding."""
    for plan in plans(named_target(name), Work(1, size, size, 128, 128, 3, 3), threads, "high"):
        if plan.mh == 4:
            rows = sum(-(-min(plan.group, tiles - i) // plan.mr) * plan.mr for i in range(0, tiles, plan.group))
            assert rows <= 1.08 * tiles, plan
