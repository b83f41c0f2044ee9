"""Products of 16-bit integers whose sums fit in 32 bits, for processors that sum two such products at once.

Activations of 16 bits by weights of 8 have products of 23 bits, and a sum of many leaves 32. But weights are known: no
sum of a column is larger than 2^15 times the sum of their sizes (where activations are never negative, times that of
those of one sign), and what networks have mostly stays below. Such products are integers, at twice the rate of f32, and
exact. Windows of several pixels next to each other are left in f32, where Winograd's method gains more.
"""

from __future__ import annotations

import math

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits
from MNN.ops.quantized.convolution import QLinearConv
from MNN.ops.quantized.quantization import QLinearMatMul

_LEAST = 1 << 15
_LARGEST = (1 << 31) - 1
_CHANNELS = 16
"""So many channels or more make Winograd's method worth its transforms."""


def with_exact_words(graph: Graph) -> Graph:
    """The same graph, its products of 16-bit integers marked where they are exact in 32 bits; itself where none is."""
    makers = graph.producers()
    nodes = [_marked(node, makers) for node in graph.nodes]
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return graph
    return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.meta)


def _marked(node: Node, makers: dict[Value, Node]) -> Node:
    kind = traits(node)
    if not isinstance(kind, QLinearConv | QLinearMatMul):
        return node
    x, w = node.inputs[0], node.inputs[3]
    if x is None or w is None or x.dtype is not DType.I16 or not isinstance(w.data, np.ndarray):
        return node
    zeros = [node.inputs[i] for i in (2, 5)]
    if w.data.dtype != np.int8 or any(z is None or not isinstance(z.data, np.ndarray) or z.data.any() for z in zeros):
        return node
    convolution = isinstance(kind, QLinearConv)
    if convolution and (node.attrs.get("group", 1) != 1 or _for_winograd(node, w.data.shape)):
        return node
    bias = node.inputs[8] if len(node.inputs) > 8 else None
    steps = np.zeros(1, np.int32) if bias is None else bias.data
    if not isinstance(steps, np.ndarray):
        return node
    weights = w.data.reshape(len(w.data), -1) if convolution else np.moveaxis(w.data, -2, -1)
    if not _fits(weights, steps.astype(np.int64), _never_negative(x, makers)):
        return node
    return Node(node.op, node.name, node.inputs, node.outputs, {**node.attrs, "exact": True})


def _for_winograd(node: Node, weights: tuple[int, ...]) -> bool:
    """Whether the windows of a convolution overlap in all directions, and have channels enough."""
    apart = [n for key in ("strides", "dilations") for n in node.attrs.get(key) or ()]  # type: ignore[attr-defined]
    return math.prod(weights[2:]) > 1 and weights[1] >= _CHANNELS and all(n == 1 for n in apart)


def _fits(weights: np.ndarray, bias: np.ndarray, positive: bool) -> bool:
    """Whether no sum of products with a line of ``weights`` leaves 32 bits, nor with the bias."""
    above, below = (np.clip(sign * weights.astype(np.int64), 0, None).sum(-1) for sign in (1, -1))
    most = _LEAST * (np.maximum(above, below) if positive else above + below)
    return bool(((most + np.abs(bias)) <= _LARGEST).all())


def _never_negative(x: Value, makers: dict[Value, Node]) -> bool:
    """Whether integers are bounded below by zero, as behind a ReLU."""
    node = makers.get(x)
    while node is not None and (limits := _limits(node)) is not None:
        if limits[0] >= 0:
            return True
        first = node.inputs[0]
        node = None if first is None else makers.get(first)
    return False


def _limits(node: Node) -> tuple[float, float] | None:
    """The bounds of a node that bounds its first operand by a constant; None for all others."""
    if node.op != "BinaryOp":
        return traits(node).bounds(node)
    limit = node.inputs[1]
    data = None if limit is None else limit.data
    if not isinstance(data, np.ndarray) or data.size != 1 or node.attrs.get("opType") not in ("MAXIMUM", "MINIMUM"):
        return None
    number = float(data.reshape(-1)[0])
    return (number, math.inf) if node.attrs["opType"] == "MAXIMUM" else (-math.inf, number)


__all__ = ["with_exact_words"]
