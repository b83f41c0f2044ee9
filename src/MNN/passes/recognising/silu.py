"""Recognises ``x * sigmoid(x)`` (SiLU, Swish; Ramachandran et al. 2017, arXiv:1710.05941)."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node
from MNN.passes.manager import Pass
from MNN.passes.patterns import unary
from MNN.passes.recognising.functions import recognize


def function(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1.0 + np.exp(-x)))


def _gives_away(node: Node) -> bool:
    return node.op == "Sigmoid" or unary(node, "SIGMOID")


def run(graph: Graph) -> int:
    return recognize(graph, _gives_away, function, "SILU")


PASS = Pass("silu", run, rank=43)
