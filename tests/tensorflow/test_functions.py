"""Functions of graphs that are made here, where they are hard: ends of distributions, borders of intervals, and what
nodes do not say."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from MNN.frontends.tensorflow import load
from MNN.frontends.tensorflow.messages import new
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session

_TYPES = {np.dtype(k): n for k, n in (("f4", 1), ("f8", 2), ("i4", 3), ("i8", 9))}


def _run(op: str, fed: list[Any], kept: list[Any], output: str = "y", **types: type) -> np.ndarray:
    """``op`` of arrays that are fed, then of constants; ``types`` are its attributes."""
    graph, feeds = new("GraphDef"), {}
    for i, a in enumerate([*fed, *kept]):
        node = graph.node.add(name=f"v{i}", op="Placeholder" if i < len(fed) else "Const")
        array = np.asarray(a, order="C")
        node.attr["dtype"].type = _TYPES[array.dtype]
        if i < len(fed):
            feeds[node.name] = array
            shape = node.attr["shape"].shape
        else:
            tensor = node.attr["value"].tensor
            tensor.dtype, tensor.tensor_content, shape = _TYPES[array.dtype], array.tobytes(), tensor.tensor_shape
        shape.SetInParent()
        for size in np.shape(a):
            shape.dim.add(size=size)
    made = graph.node.add(name="y", op=op, input=[node.name for node in graph.node])
    for key, kind in types.items():
        made.attr[key].type = _TYPES[np.dtype(kind)]
    if output != "y":
        graph.node.add(name="z", op="Identity", input=[output]).attr["T"].type = 1
    loaded = load(graph.SerializeToString())
    optimize(loaded)
    found: np.ndarray = next(iter(Session(loaded, Config(precision="high")).run(feeds).values()))
    return found


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_quantiles_of_small_shares(kind: type) -> None:
    p = 10 ** -np.random.default_rng(1).uniform(0, 37, 200)
    p = np.concatenate([p, 1 - p[p > 1e-6]]).astype(kind)
    wanted = [NormalDist().inv_cdf(float(v)) for v in p if v < 1]
    np.testing.assert_allclose(_run("Ndtri", [p[p < 1]], [], T=kind), wanted, 4 * np.finfo(kind).eps, 1e-12)
    ends = _run("Ndtri", [np.asarray([0, 1, -0.1, 1.1], kind)], [], T=kind)
    np.testing.assert_array_equal(ends, np.asarray([-np.inf, np.inf, np.nan, np.nan], kind))


def test_zeta_of_bases_below_zero() -> None:
    """Against the sum itself, whose rest is that of a base above 0."""
    rng = np.random.default_rng(2)
    s, base = rng.integers(2, 8, 60).astype(float), rng.integers(-90, 0, 60) + rng.uniform(0.1, 0.9, 60)
    rest = _run("Zeta", [s, base + 90], [], T=np.float64)
    terms = ((base[:, None] + np.arange(90)) ** -s[:, None]).sum(1)
    np.testing.assert_allclose(_run("Zeta", [s, base], [], T=np.float64), terms + rest, 1e-9, 1e-9)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.int64])
def test_histograms_of_numbers_on_borders(kind: type) -> None:
    values: np.ndarray = (
        np.arange(-2, 13).astype(kind) if np.issubdtype(kind, np.integer) else (np.arange(-2, 13) / 10).astype(kind)
    )
    for ends, bins in (((0, 10), 4), ((0, 3), 4), ((-1, 8), 9)) if values.dtype.kind == "i" else (((0, 1), 10),):
        found = _run("HistogramFixedWidth", [values], [np.asarray(ends, kind), np.int32(bins)], T=kind, dtype=np.int32)
        above = (np.maximum(values, kind(ends[0])) - kind(ends[0])).astype(np.float64)
        places = np.minimum(above / (float(ends[1] - ends[0]) / bins), bins - 1).astype(int)
        np.testing.assert_array_equal(found, np.bincount(places, minlength=bins))


@pytest.mark.parametrize(("op", "limit"), [("BlockLSTM", 3.0), ("BlockLSTMV2", np.inf)])
def test_cells_are_clipped_as_the_operator_says(op: str, limit: float) -> None:
    """Saved models leave attributes out that have their default."""
    zeros = np.zeros((1, 1), np.float32)
    w = np.asarray([[9, 9, 9, 9], [0, 0, 0, 0]], np.float32)
    weights = [w, *[np.zeros(1, np.float32)] * 3, np.zeros(4, np.float32)]
    fed = [np.asarray(6, np.int64), np.ones((6, 1, 1), np.float32), zeros, zeros]
    found = _run(op, fed, weights, "y:1", T=np.float32)
    np.testing.assert_allclose(found.ravel(), np.minimum(np.arange(1, 7), limit), 1e-2)
