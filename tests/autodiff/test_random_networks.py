"""Gradients of networks of drawn blocks, compiled, against torch's in float64.

``MNN_TORCH_SEED=5000 MNN_TORCH_COUNT=300 python -m pytest tests/autodiff/test_random_networks.py`` tries others.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from MNN.frontends import load_graph
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor
from tests.frontends.torch.peer import written

FIRST, COUNT = (int(os.environ.get(f"MNN_TORCH_{name}", given)) for name, given in (("SEED", "1"), ("COUNT", "8")))
TOLERANCE = 2e-4
"""Of the largest number of a gradient, or of a thousandth of the largest of all gradients: the sums of some are zero
but for rounding."""


def gradients(path: Path, arrays: dict[str, np.ndarray], config: Config) -> list[np.ndarray]:
    """Ours, with regard to all operands."""
    graph = load_graph(path)
    inputs, (y,) = list(graph.inputs), graph.outputs
    shape = arrays["weight"].shape
    axes = Value("axes", DType.I64, (len(shape),), np.arange(len(shape)))
    weight, product, loss = Value("weight", DType.F32, shape, arrays["weight"]), Value("product"), Value("loss")
    found = [Value(f"gradient{k}") for k in range(len(inputs))]
    nodes = [
        *graph.nodes,
        Node("BinaryOp", "weigh", [y, weight], [product], {"opType": "MUL"}),
        Node("Reduction", "sum", [product, axes], [loss], {"operation": "SUM"}),
        Node("Gradient", "gradient", [loss, *inputs], found, {"activationMemory": -1}),
    ]
    feeds = {v: arrays[f"x{k}"] for k, v in enumerate(inputs)}
    return Executor(Graph("gradients", inputs, found, nodes), config).run(feeds, found)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_gradients(seed: int) -> None:
    path = written("tests.autodiff.random_networks", str(FIRST), str(COUNT)) / f"cases-{seed}.pt2"
    if not path.exists():
        return  # no network of use, see ``random_networks``
    check(path, seed)


def check(path: Path, seed: int) -> None:
    """Compares gradients of what was written for a seed."""
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    found = gradients(path, arrays, Config(precision="high", threads=1 + seed % 2))
    wanted = [arrays[f"g{k}"] for k in range(len(found))]
    largest = max(float(np.abs(g).max(initial=0)) for g in wanted)
    for k, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert got.shape == want.shape
        scale = max(float(np.abs(want).max(initial=0)), 1e-3 * largest)
        error = float(np.abs(got - want).max(initial=0))
        assert error <= max(TOLERANCE * scale, 30 * float(arrays[f"e{k}"])), f"operand {k}: {error / scale:.1e}"


def test_most_are_of_use() -> None:
    assert len(list(written("tests.autodiff.random_networks", str(FIRST), str(COUNT)).glob("*.pt2"))) > COUNT // 3
