"""Rewrites operators that only this engine has into ones that the official engine has too, where nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value


def legalized(graph: Graph) -> Graph:
    """A graph with the same values whose operators are official ones wherever a rule below applies.

    The graph given is not changed; values are shared with it.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        rule = _RULES.get(node.op)
        made = rule(node) if rule is not None else None
        nodes += made if made is not None else [_inside(node)]
    return Graph(graph.name, list(graph.inputs), list(graph.outputs), nodes, graph.meta)


def _inside(node: Node) -> Node:
    subgraphs = dict(node.subgraphs())
    if not subgraphs:
        return node
    attrs = {**node.attrs, **{key: legalized(sub) for key, sub in subgraphs.items()}}
    return Node(node.op, node.name, node.inputs, node.outputs, attrs)


def _scalar(node: Node, number: int | float | bool, dtype: DType, role: str) -> Value:
    data = np.asarray(number).astype(dtype.numpy)
    return Value(f"{node.outputs[0].name}/{role}", dtype, (), data)


def _not(node: Node) -> list[Node] | None:
    """``not x`` is ``x == 0``."""
    x = node.inputs[0] if node.inputs else None
    if x is None or x.dtype is None or x.dtype is DType.STR:
        return None
    zero = _scalar(node, 0, x.dtype, "zero")
    return [Node("BinaryOp", node.name, [x, zero], node.outputs, {"opType": "EQUAL"})]


def _is_nan(node: Node) -> list[Node] | None:
    """Only NaN differs from itself."""
    x = node.inputs[0] if node.inputs else None
    return None if x is None else [Node("BinaryOp", node.name, [x, x], node.outputs, {"opType": "NOTEQUAL"})]


def _log_softmax(node: Node) -> list[Node] | None:
    """``x - max - log(sum(exp(x - max)))``."""
    x, out, axis = node.inputs[0] if node.inputs else None, node.outputs[0], node.attrs.get("axis", 0)
    if x is None or x.dtype is not DType.F32:
        return None
    keep: dict[str, object] = {"dim": [axis], "keepDims": True}
    stem = out.name
    top, shifted, powers, total, log = (Value(f"{stem}/{n}", x.dtype) for n in ("max", "shifted", "exp", "sum", "log"))
    return [
        Node("Reduction", f"{stem}/max", [x], [top], {"operation": "MAXIMUM", **keep}),
        Node("BinaryOp", f"{stem}/shifted", [x, top], [shifted], {"opType": "SUB"}),
        Node("UnaryOp", f"{stem}/exp", [shifted], [powers], {"opType": "EXP"}),
        Node("Reduction", f"{stem}/sum", [powers], [total], {"operation": "SUM", **keep}),
        Node("UnaryOp", f"{stem}/log", [total], [log], {"opType": "LOG"}),
        Node("BinaryOp", node.name, [shifted, log], [out], {"opType": "SUB"}),
    ]


def _remainder(node: Node) -> list[Node] | None:
    """``x - (x / y) * y`` with the division of integers, which truncates."""
    x, y = (node.inputs + [None, None])[:2]
    if x is None or y is None or x.dtype is None or not x.dtype.is_int or x.dtype is not y.dtype:
        return None
    stem = node.outputs[0].name
    times, whole = Value(f"{stem}/quotient", x.dtype), Value(f"{stem}/whole", x.dtype)
    return [
        Node("BinaryOp", f"{stem}/quotient", [x, y], [times], {"opType": "DIV"}),
        Node("BinaryOp", f"{stem}/whole", [times, y], [whole], {"opType": "MUL"}),
        Node("BinaryOp", node.name, [x, whole], node.outputs, {"opType": "SUB"}),
    ]


def _reshape_exact(node: Node) -> list[Node] | None:
    """An ordinary Reshape when the shape is known and has no zeros."""
    shape = node.inputs[1] if len(node.inputs) > 1 else None
    if shape is None or shape.data is None or not np.all(shape.array() != 0):
        return None
    return [Node("Reshape", node.name, node.inputs, node.outputs, {})]


_RULES: dict[str, Callable[[Node], list[Node] | None]] = {
    "Not": _not,
    "IsNaN": _is_nan,
    "LogSoftmax": _log_softmax,
    "Remainder": _remainder,
    "ReshapeExact": _reshape_exact,
}
