"""The check that runs between stages: a graph must be well formed before anyone builds on it."""

from __future__ import annotations

from MNN.ir.graph import Graph, Value


class GraphError(AssertionError):
    """A stage of this engine produced a malformed graph: a bug here, not a user's mistake."""


def verify(graph: Graph, stage: str, outside: frozenset[Value] = frozenset()) -> None:
    """Checks that every value is made exactly once, before its uses, and that names are unique.

    ``outside`` holds values of surrounding graphs that a subgraph may use. Raises :class:`GraphError` naming ``stage``.
    """
    known: set[Value] = set(outside) | set(graph.inputs)
    names = {v.name for v in graph.inputs}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and value not in known and not value.is_const:
                raise GraphError(f"{stage}: {node} uses '{value.name}' before it is made")
        for _, sub in node.subgraphs():
            verify(sub, stage, frozenset(known))
        if not node.outputs:
            raise GraphError(f"{stage}: {node} has no outputs")
        for value in node.outputs:
            if value in known or value.is_const:
                raise GraphError(f"{stage}: '{value.name}' is made twice, or is constant and made by {node}")
            if value.name in names:
                raise GraphError(f"{stage}: two values are called '{value.name}'")
            names.add(value.name)
            known.add(value)
    for value in graph.outputs:
        if value not in known and not value.is_const:
            raise GraphError(f"{stage}: output '{value.name}' is never made")
