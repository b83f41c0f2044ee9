"""Removes nodes whose results nobody uses."""

from __future__ import annotations

from MNN.ir.graph import Graph, Node, captured
from MNN.passes.manager import Pass


def run(graph: Graph) -> int:
    """Keeps what the graph's outputs depend on. Graph inputs stay, also unused ones: they are the model's interface."""
    wanted = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(v in wanted for v in node.outputs):
            kept.append(node)
            wanted.update(v for v in node.inputs if v is not None)
            wanted.update(captured(node))
    removed = len(graph.nodes) - len(kept)
    graph.nodes = kept[::-1]
    return removed


PASS = Pass("dead-code", run, rank=90)
