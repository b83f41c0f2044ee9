"""Rewrites operators that only this engine has into ones that the official engine has too, where nothing is lost.

Some official operators need a particular form to work there (see the rules); that is also done here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from MNN.errors import MISFITS, FormatError
from MNN.frontends.mnn.official.composites import plain
from MNN.frontends.mnn.official.native import native
from MNN.frontends.mnn.official.registry import official
from MNN.ir.graph import Graph, Node
from MNN.ops.core.base import operators

_DEPTH = 6


@dataclass
class Legal:
    """A graph of official operators, and the nodes that some of them, in a row, stand for."""

    graph: Graph
    composite_ops: list[CompositeOp] = field(default_factory=list)


@dataclass(frozen=True)
class CompositeOp:
    """One node of ours and the official ones written for it."""

    node: Node
    parts: list[Node]


def legalized(graph: Graph) -> Legal:
    """A graph with the same values whose operators are official ones wherever a rule applies.

    The graph given is not changed; values are shared with it.
    """
    composite_ops: list[CompositeOp] = []
    return Legal(_graph(graph, composite_ops), composite_ops)


def _graph(graph: Graph, composite_ops: list[CompositeOp], above: tuple[str, ...] = ()) -> Graph:
    nodes: list[Node] = []
    for node in graph.nodes:
        made = expanded(node, above)
        if made is None:
            nodes.append(_inside(node, composite_ops, above))
            continue
        made = [_inside(part, composite_ops, (*above, node.op)) for part in made]
        nodes += made
        if not official(node.op).tidies and not above:
            composite_ops.append(CompositeOp(node, made))
    return Graph(graph.name, list(graph.inputs), list(graph.outputs), nodes, graph.meta)


def expanded(node: Node, above: tuple[str, ...] = ()) -> list[Node] | None:
    """The official operators that stand for a node, or None when it is written as it is."""
    form = official(node.op)
    if form.rule is None or node.op in above or len(above) >= _DEPTH or (above and form.given_only):
        return None
    if not form.tidies and not _only_known(node):
        return None
    try:
        made = form.rule(node)
    except MISFITS as error:
        raise misfit(node, error) from error
    if made is None:
        return None
    parts = [deeper for part in made for deeper in (expanded(part, (*above, node.op)) or [part])]
    return parts if above or form.tidies or all(_official(part) for part in parts) else None


def _only_known(node: Node) -> bool:
    """Whether all attributes are the operator's own, and plain: others would be lost."""
    known = operators()[node.op].attributes
    return plain(node.attrs) and all(key in known for key, value in node.attrs.items() if value is not None)


def _official(node: Node) -> bool:
    """Whether the official engine has the operator, and all those in its subgraphs."""
    subs = list(node.subgraphs())
    if not subs:
        return native(node, False) is not None
    return official(node.op).subgraphs is not None and all(
        all(_official(part) for part in expanded(n, ("Loop",)) or [n]) for _, sub in subs for n in sub.nodes
    )


def misfit(node: Node, error: Exception) -> FormatError:
    """The error for a node that cannot be written, whatever that came to grief on."""
    what = f"{type(error).__name__}: {error}"
    return FormatError(f"{node.op} '{node.name}': it cannot be written ({what}); is the model damaged?")


def _inside(node: Node, composite_ops: list[CompositeOp], above: tuple[str, ...]) -> Node:
    subgraphs = dict(node.subgraphs())
    if not subgraphs:
        return node
    attrs = {**node.attrs, **{key: _graph(sub, composite_ops, above) for key, sub in subgraphs.items()}}
    return Node(node.op, node.name, node.inputs, node.outputs, attrs)
