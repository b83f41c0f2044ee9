"""Copies of a product's rows do not lie a multiple of 2048 bytes apart, where they would share few sets of a cache."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("depth", "apart"), [(1024, 1040), (1016, 1016), (512, 528)])
def test_transposed_rows_are_spaced(depth: int, apart: int) -> None:
    x, w, y = Value("x", DType.F32, (depth, 24)), Value("w", DType.F32, (depth, 40)), Value("y")
    node = Node("MatMul", "product", [x, w], [y], {"transposeA": True})
    executor = Executor(Graph("spaced", [x, w], [y], [node]), Config(precision="high"))
    feeds = {v: RNG.normal(size=v.shape).astype(np.float32) for v in (x, w)}
    (found,) = executor.run(feeds, [y])
    exact = feeds[x].astype(np.float64).T @ feeds[w]
    assert np.abs(found - exact).max() < 1e-5 * np.abs(exact).max()
    commands = [c for part in executor.plan(feeds, [y]).bound.parts() for c in part.program.commands]
    turned = [c.args["out_row"] for c in commands if type(c.kernel).__name__ == "TransposeSpec"]
    assert turned == [apart]
