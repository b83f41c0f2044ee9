"""Recognises ``x * sigmoid(x)`` (SiLU, Swish; Ramachandran et al. 2017, arXiv:1710.05941)."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph
from MNN.passes.manager import Pass
from MNN.passes.patterns import sigmoid
from MNN.passes.recognising.functions import recognize


def function(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1.0 + np.exp(-x)))


def run(graph: Graph) -> int:
    return recognize(graph, sigmoid, function, "SILU")


PASS = Pass("silu", run, rank=43)
