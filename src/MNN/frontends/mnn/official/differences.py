"""Differences between what operators give in the official engine and here, evened out in files that it wrote."""

from __future__ import annotations

from MNN.frontends.mnn.official.registry import official
from MNN.frontends.mnn.scope import GraphScope
from MNN.ir.graph import Node, Value


def after_node(scope: GraphScope, node: Node, outputs: list[int]) -> None:
    """Truth values are 32-bit integers there, and may be computed with: they are cast."""
    gives_truth = official(node.op).gives_truth
    if gives_truth is None or not gives_truth(node):
        return
    value = node.outputs[0]
    name = value.name
    value.name = scope.unique(f"{name}/bool")
    cast = Value(name, None, value.shape)
    scope.graph.nodes.append(Node("Cast", f"{node.name}/int", [value], [cast], {"dstT": "DT_INT32"}))
    scope.values[outputs[0]] = cast
