"""Convolutions whose filters are computed at run time, as those of networks that are trained are: of any rank, groups,
strides and dilations, filters turned, reversed and out of order, with numbers that bf16 holds exactly, so that nothing
but the order of sums may differ."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.low_precision import storage
from MNN.backends.cpu.products.dot import group_of
from MNN.backends.cpu.targets import host_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import cheap_tiles, check

TOLERANCE = 1e-4
"""Of the largest result: Winograd's method in f32."""
WAYS = ("pairs", "all", "tiles")


def rounded(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random numbers that bf16 has."""
    bits = rng.normal(size=shape).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return np.ascontiguousarray(bits).view(np.float32).reshape(shape)


class Case:
    """A convolution with drawn sizes; its filters are an input that is turned on the way."""

    def __init__(self, seed: int, deep: bool = False) -> None:
        rng = np.random.default_rng(seed)
        rank = 2 if deep else int(rng.choice([1, 2, 2, 2, 3]))
        groups = 1 if deep else int(rng.choice([1, 1, 1, 2, 3]))
        per_in = int(rng.choice([1, 2, 3, 5, 8, 16, 31, 33]))
        per_out = int(rng.choice([1, 3, 16, 17, 40, 67]))
        self.kernel = [int(rng.choice([1, 2, 3, 3, 5])) for _ in range(rank)]
        if not deep and rng.random() < 0.2:
            groups, per_in, per_out = int(rng.choice([5, 16, 37])), 1, 1
        if deep:  # more than a panel's share of the second-level cache, in many taps or in one
            per_in, per_out, self.kernel = [(63, 40, [24, 24]), (50_001, 7, [1, 1])][seed % 2]
        self.strides = [int(rng.choice([1, 1, 2])) for _ in range(rank)]
        self.dilations = [int(rng.choice([1, 1, 2])) for _ in range(rank)]
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        more = 3 if deep else 13
        sizes = [r + int(rng.integers(0, more)) for r in reach]
        self.groups, self.per_in, self.per_out = groups, per_in, per_out
        self.pads = [int(rng.integers(0, 2)) for _ in range(2 * rank)]
        self.turned, self.reversed = bool(rng.random() < 0.4 and groups == 1), bool(rng.random() < 0.4)
        self.x = rounded(rng, int(rng.choice([1, 2, 5])), groups * per_in, *sizes)
        shape = (per_in, per_out) if self.turned else (groups * per_out, per_in)
        self.w = rounded(rng, *shape, *self.kernel)

    def build(self, b: Builder, x: Tensor, w: Tensor) -> Tensor:
        w = b.op("mul", w, b.like(0.5, w))
        if self.reversed:
            spatial = w.shape[2:]
            starts = [0, 0, *(n - 1 for n in spatial)]
            w = b.slice(w, starts, w.shape, [1, 1, *(-1 for _ in spatial)])
        if self.turned:
            w = b.permute(w, (1, 0, *range(2, w.rank)))
        return b.conv(x, w, self.strides, self.dilations, self.groups, self.pads)


@contextlib.contextmanager
def way(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if name == "tiles":
        cheap_tiles(monkeypatch)
    with restricted(without=("Winograd", "AMX")) if name == "pairs" else contextlib.nullcontext():
        yield


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("seed", range(10))
def test_filters_are_those_of_the_reference(seed, how, monkeypatch):
    case = Case(seed)
    with way(how, monkeypatch):
        check(case.build, case.x, case.w, tol=TOLERANCE, threads=1 + seed % 2, precision="low")


@pytest.mark.parametrize("seed", range(2))
def test_long_sums_in_parts(seed):
    case = Case(seed, deep=True)
    with restricted(without=("Winograd", "AMX")):
        program = check(case.build, case.x, case.w, tol=TOLERANCE, precision="low")
    target = host_target()
    if storage(target, "low") is DType.BF16 and group_of(target, DType.BF16) > 1:
        kernels = [c.kernel for c in program.commands if c.kernel is not None and hasattr(c.kernel, "group")]
        assert {k.group for k in kernels} == {2}
        assert len(kernels) > 1, "the sums are short for this processor's cache"
