"""A model computed in float64: the measure for the rounding of everything that computes in fewer bits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.errors import MNNError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.runtime.config import Config
from MNN.runtime.session import Session

_CASTS = {"Cast": "dstT"}
"""Operators that name the type that they give, and the attribute."""


def in_double(graph: Graph) -> Graph:
    """A copy of the graph whose float32 tensors, constants and casts are float64. Subgraphs are copied along."""
    return _Widening().graph(graph)


def run_in_double(graph: Graph, feeds: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str]:
    """The outputs by the reference implementation in float64, and what they were computed in: ``float64``, or
    ``numpy float32`` where an operator of the model insists on float32."""
    try:
        wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in feeds.items()}
        return Session(in_double(graph), Config(reference=True)).run(wide), "float64"
    except MNNError:
        return Session(graph, Config(reference=True)).run(feeds), "numpy float32"


class _Widening:
    def __init__(self) -> None:
        self._made: dict[int, Value] = {}

    def graph(self, graph: Graph) -> Graph:
        inputs = [self._value(v) for v in graph.inputs]
        nodes = [self._node(n) for n in graph.nodes]
        return Graph(graph.name, inputs, [self._value(v) for v in graph.outputs], nodes, dict(graph.meta))

    def _node(self, node: Node) -> Node:
        attrs = {k: self.graph(v) if isinstance(v, Graph) else v for k, v in node.attrs.items()}
        to = _CASTS.get(node.op)
        if to is not None and attrs.get(to) == "DT_FLOAT":
            attrs[to] = "DT_DOUBLE"
        inputs = [None if v is None else self._value(v) for v in node.inputs]
        return Node(node.op, node.name, inputs, [self._value(v) for v in node.outputs], attrs)

    def _value(self, value: Value) -> Value:
        if id(value) not in self._made:
            dtype, data = value.dtype, value.data
            if isinstance(data, QuantizedArray) or (data is not None and data.dtype == np.float32):
                data = value.array().astype(np.float64)
            if dtype is DType.F32:
                dtype = DType.F64
            self._made[id(value)] = Value(value.name, dtype, value.shape, data)
        return self._made[id(value)]
