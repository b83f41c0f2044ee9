"""Products with compressed weights within programs: epilogues, orders, matrix units."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.ir.prims import Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.builder import Builder
from MNN.ops.linear.compressed import compressed_matmul
from tests.compiler.checks import cheap_tiles, check

pytestmark = pytest.mark.usefixtures("without_tiles")


def weight(n: int, k: int, blocks: int = 2) -> QuantizedArray:
    rng = np.random.default_rng(n)
    values, scale = rng.integers(-8, 8, (n, k)).astype(np.int8), rng.uniform(0.01, 0.1, (n, blocks)).astype(np.float32)
    return QuantizedArray.of(values, scale, (scale * rng.integers(-7, 8, (n, blocks))).astype(np.float32), 4, (n, k))


def randn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def product(b: Builder, x: Tensor, w: QuantizedArray) -> Tensor:
    found = compressed_matmul(b, x, w)
    assert found is not None
    return found


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_what_follows_is_fused(rows: int) -> None:
    w, bias = weight(70, 64), randn(70)

    def build(b: Builder, x: Tensor, more: Tensor) -> Tensor:
        return b.op("add", b.op("max", b.op("add", product(b, x, w), b.const(bias)), b.const(np.float32(0))), more)

    program = check(build, randn(rows, 64), randn(rows, 70))
    assert [type(c.kernel) for c in program.commands] == [CompressedSpec]


@pytest.mark.parametrize("rows", [2, 20])
def test_heads_are_written_in_the_order_that_is_wanted(rows: int) -> None:
    w = weight(48, 64)

    def build(b: Builder, x: Tensor) -> Tensor:
        heads = b.reshape(product(b, x, w), (1, rows, 4, 12))
        return b.op("mul", b.permute(heads, (0, 2, 1, 3)), b.const(np.float32(2)))

    check(build, randn(1, rows, 64))


def test_a_left_side_that_lies_otherwise_is_copied() -> None:
    w = weight(33, 32)
    check(lambda b, x: product(b, b.permute(x, (1, 0)), w), randn(32, 5))


@pytest.mark.parametrize("rows", [3, 100])
def test_matrix_units_take_many_rows(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)
    w = weight(96, 128)
    program = check(lambda b, x: product(b, x, w), randn(rows, 128), tol=3e-5)
    assert any(isinstance(c.kernel, AmxSpec) for c in program.commands) == (rows == 100)
