"""Rewrites operators that only this engine has into ones that the official engine has too, where nothing is lost.

Some official operators need a particular form to work there (see the rules); that is also done here.
"""

from __future__ import annotations

from MNN.errors import MISFITS, FormatError
from MNN.frontends.mnn import legal_index, legal_layers, legal_math
from MNN.frontends.mnn.legal_math import Rule
from MNN.ir.graph import Graph, Node

_RULES: dict[str, Rule] = {**legal_math.RULES, **legal_layers.RULES, **legal_index.RULES}


def legalized(graph: Graph) -> Graph:
    """A graph with the same values whose operators are official ones wherever a rule applies.

    The graph given is not changed; values are shared with it.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        rule = _RULES.get(node.op)
        try:
            made = rule(node) if rule is not None else None
        except MISFITS as error:
            raise misfit(node, error) from error
        nodes += made if made is not None else [_inside(node)]
    return Graph(graph.name, list(graph.inputs), list(graph.outputs), nodes, graph.meta)


def misfit(node: Node, error: Exception) -> FormatError:
    """The error for a node that cannot be written, whatever that came to grief on."""
    what = f"{type(error).__name__}: {error}"
    return FormatError(f"{node.op} '{node.name}': it cannot be written ({what}); is the model damaged?")


def _inside(node: Node) -> Node:
    subgraphs = dict(node.subgraphs())
    if not subgraphs:
        return node
    attrs = {**node.attrs, **{key: legalized(sub) for key, sub in subgraphs.items()}}
    return Node(node.op, node.name, node.inputs, node.outputs, attrs)
