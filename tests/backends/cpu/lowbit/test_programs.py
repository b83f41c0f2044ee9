"""Products with compressed weights within programs: epilogues, orders, matrix units."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN
from MNN.backends.cpu.lowbit.emit_strips import LANES
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.backends.cpu.lowbit.strips import StripTilesSpec
from MNN.backends.cpu.targets.base import host_target
from MNN.compiler.open.plan import SMALL
from MNN.ir.dtype import DType
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


def vectors_fit_tiles() -> bool:
    """Whether vectors are as wide as tiles: always where there are matrix units."""
    return host_target().lanes(DType.F32) == LANES


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


@pytest.mark.parametrize("rows", [3, 31, 100])
def test_matrix_units_take_many_rows(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)
    w = weight(96, 128)
    program = check(lambda b, x: product(b, x, w), randn(rows, 128), tol=3e-5)
    assert any(isinstance(c.kernel, StripTilesSpec) for c in program.commands) == (rows == 100 and vectors_fit_tiles())


@pytest.mark.parametrize("precision", ["normal", "low"])
def test_few_rows_have_a_range_without_matrix_units(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows beside many in one range would run with the kernels of many."""
    if not host_target().broadcast_operand:
        pytest.skip("such a range ends elsewhere on this processor")
    cheap_tiles(monkeypatch)
    codes = np.random.default_rng(0).integers(0, 256, (96, 4, 16)).astype(np.uint8)
    scales = randn(96 * 4)
    node = helper.make_node("MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", K=128, N=96, bits=4,
                            block_size=32)  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", k]) for n, k in (("x", 128), ("y", 96)))
    held = [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scales, "scales")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], held), opset_imports=opsets, ir_version=9)
    session = MNN.load(model.SerializeToString(), precision=precision, threads=1)
    weights = (codes[..., None] >> np.array([0, 4]) & 15).reshape(96, 4, 32).astype(np.float64) - 8
    weights = (weights * scales.reshape(96, 4, 1)).reshape(96, 128)
    for rows in (9, 300, 2, 30, SMALL.most + 1, 301, 17):
        given = randn(rows, 128)
        found, want = session.run({"x": given})["y"], given @ weights.T
        assert np.abs(found - want).max() <= (1e-5 if precision == "normal" else 2e-2) * np.abs(want).max()
        kernels = [c.kernel for p in session.plans_used() for part in p.bound.parts() for c in part.program.commands]
        assert any(isinstance(k, StripTilesSpec) for k in kernels) == (rows > SMALL.most and vectors_fit_tiles()), rows
