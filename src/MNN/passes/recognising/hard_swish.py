"""Recognises ``x * min(max(x + 3, 0), 6) / 6`` (Howard et al. 2019, arXiv:1905.02244)."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node
from MNN.passes.manager import Pass
from MNN.passes.recognising.functions import recognize


def function(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.clip(x + 3.0, 0.0, 6.0) / 6.0)


def _gives_away(node: Node) -> bool:
    return node.op == "ReLU6"


def run(graph: Graph) -> int:
    return recognize(graph, _gives_away, function, "HARDSWISH")


PASS = Pass("hard-swish", run, rank=44)
