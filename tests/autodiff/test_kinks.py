"""First and second derivatives where functions bend, meet or end, compiled, against torch's in the same element type.

``MNN_KINK_SEED=100 MNN_KINK_COUNT=50 python -m pytest tests/autodiff/test_kinks.py`` tries other functions and numbers.
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

FIRST, COUNT = (int(os.environ.get(f"MNN_KINK_{name}", given)) for name, given in (("SEED", "1"), ("COUNT", "3")))
MODULE = "tests.autodiff.kinks"


def derivatives(path: Path, x: np.ndarray) -> list[np.ndarray]:
    """The gradient of the sum of a file's result, and that of the sum of the gradient."""
    graph = load_graph(path)
    (operand,), (y,) = graph.inputs, graph.outputs
    nodes, found = list(graph.nodes), []
    for k in range(2):
        axes = Value(f"axes{k}", DType.I64, (x.ndim,), np.arange(x.ndim))
        total, slope = Value(f"total{k}"), Value(f"slope{k}")
        nodes += [
            Node("Reduction", f"sum{k}", [y, axes], [total], {"operation": "SUM"}),
            Node("Gradient", f"gradient{k}", [total, operand], [slope]),
        ]
        found.append(slope)
        y = slope
    given = Graph("derivatives", [operand], found, nodes)
    return [np.asarray(a) for a in Executor(given, Config(precision="high")).run({operand: x}, found)]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_derivatives(seed: int) -> None:
    path = written(MODULE, str(FIRST), str(COUNT)) / f"cases-{seed}.pt2"
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    compared = 0
    for kind, got in zip(("first", "second"), derivatives(path, arrays["x"]), strict=True):
        given = (arrays[k] for k in ("names", "twice", "x"))
        for name, twice, x, row, want in zip(*given, got, arrays[kind], strict=True):
            if kind == "second" and not twice:
                continue
            known = np.isfinite(want)
            compared += int(known.sum())
            row, want, x = row[known], want[known], x[known]
            off = ~(np.abs(row - want) <= 2e-3 * np.maximum(np.abs(want), 0.02))  # NaN is off too
            told = [(float(a), float(b), float(c)) for a, b, c in zip(x, row, want, strict=True)]
            assert not off.any(), f"{kind} derivative of {name}: {told}"
    assert compared > 300
