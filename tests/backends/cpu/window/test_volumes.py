"""Pooling and filters per channel over three axes on the window kernel, in programs."""

from __future__ import annotations

import numpy as np
import pytest

from MNN import model
from MNN.backends.cpu.targets import host_target
from MNN.backends.cpu.window.byte_rows import has_byte_rows
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.backends.cpu.products import test_lane_groups as convolutions
from tests.compiler.checks import check

SEEDS = range(8)


@pytest.mark.parametrize("precision", ["high", "low"])
@pytest.mark.parametrize("op", ["dot", "max", "sum"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_windows(seed: int, op: str, precision: str) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    kernel, strides, dilations = (tuple(int(k) for k in rng.integers(1, most, rank)) for most in (5, 4, 3))
    c, batch = int(rng.integers(1, 70)), int(rng.integers(1, 3))
    sizes = [(k - 1) * d + 1 + int(rng.integers(0, 9)) for k, d in zip(kernel, dilations, strict=True)]
    x = rng.standard_normal((batch, c, *sizes)).astype(np.float32)
    w = (rng.standard_normal((c, 1, *kernel)) / np.sqrt(np.prod(kernel))).astype(np.float32)
    bias = rng.standard_normal((c, *(1,) * rank)).astype(np.float32)
    pads = [int(p) for p in rng.integers(0, 2, 2 * rank)]

    def build(b: Builder, x: Tensor) -> Tensor:
        x = b.op("mul", x, b.const(np.float32(0.5)))  # lies with channels innermost, and in ``low`` as bf16
        if op == "dot":
            y = b.conv(x, b.const(w), strides, dilations, c, pads)
        else:
            y = b.window(op, b.pad(x, (0, 0, *pads[:rank]), (0, 0, *pads[rank:]), 0), kernel, strides, dilations)
        y = b.op("add", y, b.const(bias))
        return b.op("mul", y, b.op("tanh", y))

    program = check(build, x, threads=1 + seed % 2, precision=precision, tol=2e-2 if precision == "low" else 1e-5)
    found = [command.kernel for command in program.commands if isinstance(command.kernel, WindowSpec)]
    if c > 1 or op != "dot":
        several = [k for k in kernel[:-1] if k > 1]
        assert [spec.planes for spec in found] == [len(several) > 1]
        assert all(spec.epilogue is not None for spec in found)


def test_volumes_of_bytes() -> None:
    """Windows of several planes, four rows of bytes at a time where there are enough channels."""
    rng, used = np.random.default_rng(3), 0
    for c in (64, 81, 130, 96, 50, 20, 63, 33, 128, 48):
        kind = "u8" if c != 96 else "i8"
        made, given, feed = convolutions._model(rng, kind, (c, 1, 1), 3)
        loaded = model.load(made, cache=False)
        (found,) = loaded.run(feed).values()
        away = np.abs(found.astype(int) - convolutions._expected(feed["x"], given))
        assert away.max() <= 1
        assert (away > 0).mean() < 1e-3
        kernels = [command.kernel for p in loaded.plans_used() for command in p.bound.program.commands]
        used += sum(isinstance(kernel, WindowSpec) and kernel.planes and kernel.fours for kernel in kernels)
    assert used >= 2 or not has_byte_rows(host_target())
