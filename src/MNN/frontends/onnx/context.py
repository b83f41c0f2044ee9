"""The graph that an ONNX model becomes, as handlers see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onnx import GraphProto

from MNN.errors import UnsupportedError
from MNN.frontends.common.graph_builder import GraphBuilder, ModelState
from MNN.ir.graph import Graph
from MNN.schema.external import ExternalSource


@dataclass
class ModelInfo(ModelState):
    """What all (sub)graphs of a model share: opsets by domain and external data too."""

    opsets: dict[str, int] = field(default_factory=dict)
    external: ExternalSource | None = None
    convert_graph: Callable[[GraphProto, Context | None], Graph] | None = None

    def unsupported_part(self, name: str, part: str, error: UnsupportedError) -> None:
        """Reports a part of the model that is no node: an input, an initializer."""
        self.report.form(name, part, error, defined("", self.opsets.get("", 0)))


def defined(domain: str, opset: int) -> str:
    """Where an operator is defined, for the report."""
    return f"domain {domain or 'ai.onnx'}, opset {opset}"


class Context(GraphBuilder):
    """``opset`` is that of the node being converted."""

    model: ModelInfo

    def __init__(self, model: ModelInfo, graph: Graph, parent: Context | None = None) -> None:
        super().__init__(model, graph, parent)
        self.opset = 0

    def subgraph(self, proto: GraphProto) -> Graph:
        """The graph of a subgraph attribute; it sees the names of this one."""
        assert self.model.convert_graph is not None
        return self.model.convert_graph(proto, self)
