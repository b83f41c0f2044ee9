"""The largest and smallest elements of rows within programs."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.loops.topk import TopKSpec
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor, TopK
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check


def hard(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of which many are equal, zeros of both signs, infinities and NaN among them."""
    x = rng.integers(-3, 4, shape).astype(np.float32)
    x[rng.random(shape) < 0.1] = -0.0
    for odd in (np.nan, np.inf, -np.inf, -np.nan, 1e-42):
        x[rng.random(shape) < 0.04] = odd
    return x


@pytest.mark.parametrize("seed", range(12))
def test_random_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 130))
    k, shape = int(rng.integers(1, min(n, 64) + 1)), (*rng.integers(1, 6, int(rng.integers(1, 4))).tolist(), n)
    largest, places = bool(seed % 2), (DType.I32, DType.I64)[seed % 3 == 0]
    dtype = (DType.F32, DType.F16, DType.BF16)[seed % 4 % 3]
    x = hard(rng, *shape).astype(dtype.numpy)

    def build(b: Builder, x: Tensor) -> Tensor:
        out = (*shape[:-1], k)
        return b.emit(TopK([x], axis=len(shape) - 1, largest=largest), (dtype, out), (places, out))[1]

    program = check(build, x, threads=1 + seed % 2)
    assert any(isinstance(c.kernel, TopKSpec) for c in program.commands)


def test_other_orders_and_axes() -> None:
    x = hard(np.random.default_rng(0), 7, 5, 20)

    def build(b: Builder, x: Tensor, axis: int, k: int) -> Tensor:
        turned = b.permute(x, (1, 2, 0))
        out = tuple(k if i == axis else n for i, n in enumerate(turned.shape))
        return b.emit(TopK([turned], axis=axis), (DType.F32, out), (DType.I64, out))[1]

    check(lambda b, x: build(b, x, 2, 3), x)
    check(lambda b, x: build(b, x, 1, 3), x, hosts=1)
