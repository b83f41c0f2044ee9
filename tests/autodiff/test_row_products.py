"""Gradients of a matrix that several products have, such as those of a sequence's steps: one product over all rows."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.autodiff.backward import gradients
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor
from tests.compiler.checks import built, check


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_products(seed: int) -> None:
    """Some steps have as many rows as are not worth copying; matrices lie as they do or are turned."""
    rng = np.random.default_rng([29, 3, seed])
    outer = ((), (1,), (3,))[seed % 3]
    k, n = (int(size) for size in rng.integers(8, 40, 2))
    turned, few = bool(seed % 2), k * n // (k + n)
    rows = [int(size) for size in rng.integers(1, few, int(rng.integers(2, 7)))] + [few + 9] * int(rng.integers(3))
    w = rng.normal(size=(*outer, n, k) if turned else (*outer, k, n)).astype(np.float32)
    xs, gs = ([rng.normal(size=(*outer, m, size)).astype(np.float32) for m in rows] for size in (k, n))
    right = sum(x.astype(np.float64).swapaxes(-1, -2) @ g for x, g in zip(xs, gs, strict=True))
    right = right.swapaxes(-1, -2) if turned else right

    def build(b: Builder, given: Tensor, *others: Tensor) -> Tensor:
        matrix = b.permute(given, [*range(len(outer)), len(outer) + 1, len(outer)]) if turned else given
        outputs = [b.matmul(x, matrix) for x in others[: len(rows)]]
        return b.op("mul", gradients(b, outputs, others[len(rows) :], [given])[0], b.const(np.float32(1)))

    _, _, (found,), numbers = built(build, w, *xs, *gs)
    assert np.abs(numbers[found] - right).max() <= 1e-5 * np.abs(right).max()
    check(build, w, *xs, *gs, precision="high", tol=1e-5)


def test_steps_are_one_product() -> None:
    """What is left of the steps is put together; their own products are of no use."""
    b = Builder()
    w, xs = Tensor(DType.F32, (32, 64)), [Tensor(DType.F32, (4, 32)) for _ in range(6)]
    outputs = [b.matmul(x, w) for x in xs]
    (found,) = gradients(b, outputs, [Tensor(DType.F32, (4, 64)) for _ in xs], [w])
    product = found.producer
    while isinstance(product, (p.Permute, p.Reshape)):
        product = product.inputs[0].producer
    assert isinstance(product, p.MatMul)
    assert [t.shape for t in product.inputs] in ([(32, 24), (24, 64)], [(64, 24), (24, 32)])


@pytest.mark.parametrize("sizes", [(48, 80, 130), (96, 80, 200)])
def test_products_share_the_panels_of_a_right_side(sizes: tuple[int, int, int]) -> None:
    """A right side that is computed is packed once, however many products it is in; on matrix units, the larger one is
    packed for these."""
    m, k, n = sizes
    rng = np.random.default_rng(5)
    x, y = Value("x", DType.F32, (5, m, k)), Value("y", DType.F32, (k, n))
    w, outputs = Value("w"), []
    nodes = [Node("UnaryOp", "tanh", [y], [w], {"opType": "TANH"})]
    for i in range(5):
        at, step, out = Value(f"i{i}", DType.I32, (), np.int32(i)), Value(f"s{i}"), Value(f"o{i}")
        nodes += [Node("GatherV2", f"take{i}", [x, at], [step], {"axis": 0}), Node("MatMul", f"m{i}", [step, w], [out])]
        outputs.append(out)
    executor = Executor(Graph("steps", [x, y], outputs, nodes), Config(precision="high"))
    feeds = {x: rng.normal(size=x.shape).astype(np.float32), y: rng.normal(size=y.shape).astype(np.float32)}
    for i, found in enumerate(executor.run(feeds, outputs)):
        want = feeds[x][i].astype(np.float64) @ np.tanh(feeds[y].astype(np.float64))
        assert np.abs(found - want).max() <= 1e-5 * np.abs(want).max()
    commands = executor.plan(feeds, outputs).bound.program.commands
    products = [c for c in commands if isinstance(c.kernel, (ContractSpec, AmxSpec))]
    assert len(products) == 5
    assert all(isinstance(c.kernel, AmxSpec) or c.kernel.b_packed for c in products)
    assert len({c.args["b"].buffer for c in products}) == 1
