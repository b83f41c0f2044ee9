"""Gradients of what works along rows are one pass over them, whichever operator it was, and need no copies of it."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor

RNG = np.random.default_rng(0)
ROWS, COLUMNS = 37, 129
X, WEIGHT = (RNG.normal(size=(ROWS, COLUMNS)).astype(np.float32) for _ in range(2))
SCALE = RNG.normal(size=COLUMNS).astype(np.float32)


def centred(x: np.ndarray) -> np.ndarray:
    return x - x.mean(1, keepdims=True)


def layer_norm(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    root = np.sqrt(x.var(1, keepdims=True) + 1e-5)
    normal, slope = centred(x) / root, g * SCALE
    return (centred(slope) - normal * (slope * normal).mean(1, keepdims=True)) / root


def root_mean_square(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    root = np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)
    slope = g * SCALE
    return slope / root - x * (slope * x).mean(1, keepdims=True) / root**3


def softmax(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    y = e / e.sum(1, keepdims=True)
    return y * (g - (g * y).sum(1, keepdims=True))


def log_softmax(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return g - e / e.sum(1, keepdims=True) * g.sum(1, keepdims=True)


CASES = {
    "LayerNorm": (layer_norm, {"axes": [-1], "epsilon": 1e-5}, True),
    "RMSNorm": (root_mean_square, {"axes": [-1], "epsilon": 1e-5, "useRMSNorm": True}, True),
    "Softmax": (softmax, {"axis": 1}, False),
    "LogSoftmax": (log_softmax, {"axis": 1}, False),
}


@pytest.mark.parametrize("name", CASES)
def test_one_pass(name: str) -> None:
    wanted, attributes, scaled = CASES[name]
    x, weight = Value("x", DType.F32, X.shape), Value("weight", DType.F32, X.shape)
    y, product, loss, slope = Value("y"), Value("product"), Value("loss"), Value("slope")
    axes = Value("axes", DType.I64, (2,), np.array([0, 1]))
    scale = [Value("scale", DType.F32, SCALE.shape, SCALE)] if scaled else []
    nodes = [
        Node("LayerNorm" if scaled else name, "rows", [x, *scale], [y], attributes),
        Node("BinaryOp", "weigh", [y, weight], [product], {"opType": "MUL"}),
        Node("Reduction", "sum", [product, axes], [loss], {"operation": "SUM"}),
        Node("Gradient", "gradient", [loss, x], [slope], {"activationMemory": -1}),
    ]
    executor = Executor(Graph("gradient", [x, weight], [slope], nodes), Config(precision="high"))
    feeds = {x: X, weight: WEIGHT}
    (found,) = executor.run(feeds, [slope])
    exact = wanted(WEIGHT.astype(np.float64), X.astype(np.float64))
    assert np.abs(found - exact).max() < 1e-5 * np.abs(exact).max()
    commands = [c for part in executor.plan(feeds, [slope]).bound.parts() for c in part.program.commands]
    back = [type(c.kernel).__name__ for c in commands if "gradient" in c.origin]
    assert back == ["RowSpec"]


def test_the_largest_keeps_its_own_gradient() -> None:
    """Beside a softmax of the same numbers, which takes it off before its exponentials: that one has no gradient."""
    ties = RNG.integers(-3, 4, X.shape).astype(np.float32)
    x, weight = Value("x", DType.F32, X.shape), Value("weight", DType.F32, X.shape)
    axis, axes = Value("axis", DType.I64, (1,), np.array([1])), Value("axes", DType.I64, (2,), np.array([0, 1]))
    top, y, scaled, product, loss, slope = (Value(n) for n in ("top", "y", "scaled", "product", "loss", "slope"))
    nodes = [
        Node("Softmax", "rows", [x], [y], {"axis": 1}),
        Node("Reduction", "largest", [x, axis], [top], {"operation": "MAXIMUM", "keepDims": True}),
        Node("BinaryOp", "scale", [y, top], [scaled], {"opType": "MUL"}),
        Node("BinaryOp", "weigh", [scaled, weight], [product], {"opType": "MUL"}),
        Node("Reduction", "sum", [product, axes], [loss], {"operation": "SUM"}),
        Node("Gradient", "gradient", [loss, x], [slope], {"activationMemory": -1}),
    ]
    executor = Executor(Graph("gradient", [x, weight], [slope], nodes), Config(precision="high"))
    (found,) = executor.run({x: ties, weight: WEIGHT}, [slope])
    given, w = ties.astype(np.float64), WEIGHT.astype(np.float64)
    m = given.max(1, keepdims=True)
    e, largest = np.exp(given - m), given == m
    along = (w * e).sum(1, keepdims=True) / e.sum(1, keepdims=True) / largest.sum(1, keepdims=True)
    exact = softmax(w * m, given) + largest * along
    assert np.abs(found - exact).max() < 1e-5 * np.abs(exact).max()
