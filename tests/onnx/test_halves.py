"""ONNX's operators that are several here, of f16: squares and logarithms of sums that it has no numbers for."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import MNN

WANTED = {
    "ReduceL2": lambda x: np.sqrt((x * x).sum(1, keepdims=True)),
    "ReduceSumSquare": lambda x: (x * x).sum(1, keepdims=True),
    "ReduceLogSum": lambda x: np.log(x.sum(1, keepdims=True)),
    "ReduceLogSumExp": lambda x: np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)) + x.max(1)[:, None],
}


def run(op: str, x: np.ndarray, **attrs: object) -> np.ndarray:
    node = helper.make_node(op, ["x"], ["y"], **attrs)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, None if n == "y" else x.shape) for n in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (found,) = MNN.load(model.SerializeToString()).run({"x": x}).values()
    assert found.dtype == np.float16
    return found.astype(np.float64)


@pytest.mark.parametrize(("op", "large"), [("ReduceL2", 900), ("ReduceL2", 1e-4), ("ReduceSumSquare", 0.002),
                                           ("ReduceLogSum", 9000), ("ReduceLogSumExp", 60)])  # fmt: skip
def test_reductions_of_halves(op: str, large: float) -> None:
    x = (np.random.default_rng(1).uniform(0.5, 1, (3, 40)) * large).astype(np.float16)
    np.testing.assert_allclose(run(op, x, axes=[1]), WANTED[op](x.astype(np.float64)), rtol=2e-3)


def test_equal_numbers_of_halves_deviate_by_nothing() -> None:
    x = np.random.default_rng(2).normal(0, 500, (2, 3, 5, 5)).astype(np.float16)
    x[:, 1] = 7
    found = run("MeanVarianceNormalization", x)
    wide = x.astype(np.float64)
    mean, std = (f((0, 2, 3), keepdims=True) for f in (wide.mean, wide.std))
    np.testing.assert_allclose(found, (wide - mean) / (std + 1e-9), atol=2e-3)
