"""Mixtures of experts as graphs: choices of a router, of any length, and what is not a choice."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.errors import MNNError, RunError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.runtime.config import Config
from MNN.runtime.session import Session

COUNT, K, N, MOST = 11, 64, 40, 3


def graph(weight: np.ndarray | QuantizedArray) -> Graph:
    """The router's best experts of every row, and the row's products with them."""
    x, scores = Value("x", DType.F32, ("rows", 1, K)), Value("scores", DType.F32, ("rows", COUNT))
    most = Value("most", DType.I32, (1,), np.array([MOST], np.int32))
    values, index, y = Value("values"), Value("index"), Value("y")
    held = Value("weight", DType.F32, weight.shape, weight)
    nodes = [
        Node("TopKV2", "router", [scores, most], [values, index]),
        Node("RoutedMatMul", "experts", [x, held, index], [y], {"count": COUNT}),
    ]
    return Graph("mixture", [x, scores], [y, index], nodes)


def wanted(x: np.ndarray, weight: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.einsum("rk,rcnk->rcn", x[:, 0].astype(np.float64), weight.reshape(COUNT, N, K)[index])


@pytest.mark.parametrize("precision", ["high", "low"])
@pytest.mark.parametrize("bits", [0, 4])
def test_any_number_of_rows(bits: int, precision: str) -> None:
    rng = np.random.default_rng(bits)
    weight: np.ndarray | QuantizedArray = rng.standard_normal((COUNT * N, K)).astype(np.float32)
    if bits:
        scale = rng.uniform(0.1, 0.2, (COUNT * N, 2)).astype(np.float32)
        weight = QuantizedArray.of(rng.integers(-8, 8, (COUNT * N, K)).astype(np.int8), scale, None, 4, (COUNT * N, K))
    session = Session(graph(weight), Config(precision=precision, cache=False))
    numbers = weight.dequantize() if isinstance(weight, QuantizedArray) else weight
    for rows in (1, 2, 3, 5, 17, 40, 90, 130, 200, 1, 33):
        x, scores = rng.standard_normal((rows, 1, K)).astype(np.float32), rng.standard_normal((rows, COUNT))
        if rows == 17:
            scores[:] = scores[0]  # all rows to the same experts
        found = session.run({"x": x, "scores": scores.astype(np.float32)})
        index = np.argsort(-scores, axis=1)[:, :MOST]
        np.testing.assert_array_equal(found["index"], index)
        want = wanted(x, numbers, index)
        error = np.abs(found["y"] - want).max() / np.abs(want).max()
        assert error < (1e-5 if precision == "high" else 2e-2)


def test_what_is_no_expert_is_an_error() -> None:
    x, index, y = Value("x", DType.F32, ("rows", K)), Value("index", DType.I64, ("rows",)), Value("y")
    weight = np.ones((COUNT * N, K), np.float32)
    held = Value("weight", DType.F32, weight.shape, weight)
    one = Graph("routed", [x, index], [y], [Node("RoutedMatMul", "experts", [x, held, index], [y], {"count": COUNT})])
    session = Session(one, Config(cache=False))
    rows = np.ones((4, K), np.float32)
    assert session.run({"x": rows, "index": np.array([0, 10, 3, 3])})["y"].shape == (4, N)
    for wrong in (-1, COUNT, 1 << 40):
        with pytest.raises(RunError, match=r"experts|index"):
            session.run({"x": rows, "index": np.array([0, wrong, 3, 3])})
    assert (session.run({"x": rows, "index": np.array([0, 10, 3, 3])})["y"] == K).all()


def test_matrices_may_be_computed() -> None:
    rng = np.random.default_rng(0)
    x, index, w, y = Value("x", DType.F32, (5, 2, K)), Value("i", DType.I32, (5, 2)), Value("w", DType.F32), Value("y")
    w.shape = (COUNT * N, K)
    one = Graph("routed", [x, w, index], [y], [Node("RoutedMatMul", "experts", [x, w, index], [y], {"count": COUNT})])
    data, weight = rng.standard_normal((5, 2, K)).astype(np.float32), rng.standard_normal((COUNT * N, K))
    chosen = rng.integers(0, COUNT, (5, 2)).astype(np.int32)
    found = Session(one, Config(cache=False)).run({"x": data, "w": weight.astype(np.float32), "i": chosen})["y"]
    want = np.einsum("rck,rcnk->rcn", data, weight.reshape(COUNT, N, K)[chosen])
    np.testing.assert_allclose(found, want, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "rows", "count"), [((4, K), (COUNT * N, K - 1), COUNT), ((4, K), (COUNT * N, K), 7), ((K,), (N, K), 1)]
)
def test_sizes_that_do_not_fit(shape: tuple[int, ...], rows: tuple[int, int], count: int) -> None:
    x, index, y = Value("x", DType.F32, shape), Value("index", DType.I64, shape[:-1]), Value("y")
    held = Value("weight", DType.F32, rows, np.zeros(rows, np.float32))
    one = Graph("routed", [x, index], [y], [Node("RoutedMatMul", "experts", [x, held, index], [y], {"count": count})])
    with pytest.raises(MNNError, match=r"experts.*matrices"):
        Session(one, Config(cache=False)).run({"x": np.zeros(shape, np.float32), "index": np.zeros(shape[:-1], int)})
