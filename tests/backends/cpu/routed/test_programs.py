"""Products with a matrix chosen for every row: which rows go where is random, lopsided, or all to one."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lowbit.int8 import Int8Spec
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.builder import Builder
from MNN.ops.linear.routed import routed_matmul
from tests.compiler.checks import check

SEEDS = range(6)


def choices(rng: np.random.Generator, count: int, shape: tuple[int, ...], kind: int) -> np.ndarray:
    """Random ones; all the same; of a few matrices alone; or different ones in every row, as routers choose."""
    if kind == 1:
        return np.full(shape, rng.integers(count), np.int64)
    if kind == 2:
        return rng.choice(rng.integers(0, count, 2), shape).astype(np.int32)
    if kind == 3:
        order = [rng.permutation(count)[: shape[-1]] for _ in range(int(np.prod(shape[:-1])))]
        return np.array(order, np.int64).reshape(*shape[:-1], -1)
    return rng.integers(0, count, shape).astype(np.int64)


def draw(seed: int) -> tuple[np.random.Generator, int, int, int, np.ndarray, np.ndarray]:
    """Rows ``[batch, tokens, 1 or choices, k]`` and what each chooses ``[batch, tokens, choices]``."""
    rng = np.random.default_rng(seed)
    count, batch, tokens, several = (int(rng.integers(1, most + 1)) for most in (24, 2, 50, 6))
    several = min(several, count)
    k, n = 32 * int(rng.integers(1, 7)), int(rng.integers(1, 200))
    index = choices(rng, count, (batch, tokens, several), seed % 4)
    x = rng.standard_normal((batch, tokens, 1 if seed % 2 else index.shape[-1], k)).astype(np.float32)
    return rng, count, n, k, x, index


@pytest.mark.parametrize("seed", SEEDS)
def test_floats(seed: int) -> None:
    rng, count, n, k, x, index = draw(seed)
    kind = (DType.F32, DType.BF16, DType.F16)[seed % 3]
    weight = rng.standard_normal((count * n, k)).astype(kind.numpy)

    def build(b: Builder, x: Tensor, index: Tensor) -> Tensor:
        return routed_matmul(b, x, index, b.const(weight), count)

    program = check(build, x, index, threads=1 + seed % 2)
    assert any(isinstance(c.kernel, ContractSpec) for c in program.commands)


def quantized(rng: np.random.Generator, rows: int, k: int, bits: int, kind: int) -> QuantizedArray:
    """Without zero points, with whole ones, and with any offsets."""
    half, blocks = 1 << (bits - 1), int(rng.choice([d for d in (1, 2, 3, k // 32) if k // 32 % d == 0]))
    values = rng.integers(-half, half, (rows, k)).astype(np.int8)
    values[0, :2] = -half, half - 1
    scale = rng.uniform(0.01, 0.1, (rows, blocks)).astype(np.float16).astype(np.float32)
    points = rng.integers(1 - half, half, (rows, blocks)) if kind == 1 else rng.uniform(-half, half, (rows, blocks))
    offset = (scale * points).astype(np.float32) if kind else None
    if kind == 2:  # code 0 stands for a number of f16, too, so that nothing is lost where rows are rounded
        offset = (scale * (points - half)).astype(np.float16).astype(np.float32) + half * scale
    return QuantizedArray.of(values, scale, offset, bits, (rows, k))


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_few_bits(seed: int, bits: int) -> None:
    rng, count, n, k, x, index = draw(100 + seed)
    weight = quantized(rng, count * n, k, bits, seed % 3)

    def build(b: Builder, x: Tensor, index: Tensor) -> Tensor:
        return routed_matmul(b, x, index, weight, count)

    program = check(build, x, index, threads=1 + seed % 2)
    assert any(isinstance(c.kernel, CompressedSpec) for c in program.commands)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_bytes(seed: int, bits: int) -> None:
    """Rows that are whole numbers of 8 bits lose nothing when they are rounded."""
    rng, count, n, k, x, index = draw(200 + seed)
    weight = quantized(rng, count * n, k, bits, seed % 3)
    x = rng.integers(-127, 128, x.shape).astype(np.float32)
    x[..., :: k // weight.scale.shape[1]] = 127.0

    def build(b: Builder, x: Tensor, index: Tensor) -> Tensor:
        return routed_matmul(b, x, index, weight, count)

    program = check(build, x, index, threads=1 + seed % 2, precision="low", tol=2e-5)
    assert any(isinstance(c.kernel, (Int8Spec, CompressedSpec)) for c in program.commands)
