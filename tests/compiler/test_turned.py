"""Weights that are a transposed view are packed from where they lie; narrow results that run another way."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.amx.emission import emit_weights as amx_weights
from MNN.backends.cpu.packing import weights
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.compiler.checks import cheap_tiles


def product(m: int, k: int, n: int, precision: str, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Runs one, compares, and gives what was packed as it lies."""
    rng = np.random.default_rng(m)
    w = rng.standard_normal((n, k)).astype(np.float32)
    x, y = Value("x", DType.F32, (m, k)), Value("y", DType.F32)
    node = Node("MatMul", "m", [x, Value("w", DType.F32, w.shape, w)], [y], {"transposeB": True})
    used: list[object] = []
    as_it_lies = weights.as_it_lies
    for module in (weights, amx_weights):
        monkeypatch.setattr(module, "as_it_lies", lambda e, t: used.append(t) or as_it_lies(e, t))
    data = rng.standard_normal((m, k)).astype(np.float32)
    found = Session(Graph("g", [x], [y], [node]), Config(precision=precision, cache=False)).run({"x": data})["y"]
    tolerance = 1e-5 if precision == "high" else 3e-2
    np.testing.assert_allclose(found, data @ w.T, atol=tolerance * (np.abs(data) @ np.abs(w.T)).max())
    return used


@pytest.mark.parametrize("precision", ["high", "low"])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 70, 37), (5, 64, 100), (40, 33, 130), (3, 1, 20), (3, 20, 1)])
def test_products(m: int, k: int, n: int, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = product(m, k, n, precision, monkeypatch)
    if precision == "high" and min(k, n) > 1:
        assert used


@pytest.mark.parametrize("precision", ["high", "normal", "low"])
def test_products_on_tiles(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)
    assert product(40, 33, 130, precision, monkeypatch)


@pytest.mark.parametrize(("kind", "sizes"), [(np.int16, (37, 21, 33)), (np.int8, (5, 70, 65)), (np.int16, (3, 90, 91))])
def test_narrow_results_in_another_order(kind: type[np.integer], sizes: tuple[int, ...]) -> None:
    """Rounded where they lie, and put in order then."""
    scale, bounds = np.float32(0.01), np.iinfo(kind)
    x, turned, y = Value("x", DType.F32, sizes), Value("t", DType.F32), Value("y")
    operands = [
        Value("s", DType.F32, (), np.asarray(scale)),
        Value("z", DType.of(np.zeros((), kind)), (), np.zeros((), kind)),
    ]
    nodes = [
        Node("Permute", "p", [x], [turned], {"dims": [2, 0, 1]}),
        Node("QuantizeLinear", "q", [turned, *operands], [y]),
    ]
    data = np.random.default_rng(sizes[0]).normal(size=sizes).astype(np.float32)
    found = Session(Graph("g", [x], [y], nodes), Config(threads=1, cache=False)).run({"x": data})["y"]
    wanted = np.clip(np.rint(data / scale), bounds.min, bounds.max).astype(kind).transpose(2, 0, 1)
    np.testing.assert_array_equal(found, wanted)
