"""Recognises the Gaussian error linear unit, with erf or with tanh (Hendrycks & Gimpel 2016, arXiv:1606.08415)."""

from __future__ import annotations

import math

import numpy as np

from MNN.ir.graph import Graph, Node
from MNN.passes.manager import Pass
from MNN.passes.patterns import tanh, unary
from MNN.passes.recognising.functions import recognize

_erf = np.vectorize(math.erf, otypes=[np.float64])


def exact(x: np.ndarray) -> np.ndarray:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    return np.asarray(0.5 * x * (1.0 + _erf(x * math.sqrt(0.5))))


def with_tanh(x: np.ndarray) -> np.ndarray:
    """``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``."""
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))


def _is_erf(node: Node) -> bool:
    """TensorFlow has the same as ``x / 2 * erfc(-x / sqrt(2))``."""
    return unary(node, "ERF", "ERFC")


def run(graph: Graph) -> int:
    """Both forms stay apart: they differ by up to 5e-4."""
    return recognize(graph, _is_erf, exact, "GELU_STANDARD") + recognize(graph, tanh, with_tanh, "GELU")


PASS = Pass("gelu", run, rank=42)
