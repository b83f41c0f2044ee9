"""Hints for operators with subgraphs; see :mod:`MNN.ops.inference.infer`."""

from __future__ import annotations

from MNN.ir.graph import Graph, Node
from MNN.ops.inference.infer import Hint, Hints, number, operand, rule, sizes


@rule("If")
def branch(h: Hints, node: Node) -> list[Hint]:
    """What both branches agree on."""
    graphs = [g for g in (node.attrs.get("then_graph"), node.attrs.get("else_graph")) if isinstance(g, Graph)]
    out: list[Hint] = []
    for values in zip(*(g.outputs for g in graphs), strict=True):
        dtypes = {v.dtype for v in values if v.dtype is not None}
        shapes = [sizes(v) for v in values]
        first = shapes[0]
        same_rank = first is not None and all(s is not None and len(s) == len(first) for s in shapes)
        shape = None
        if first is not None and same_rank:
            shape = tuple(d if all(s is not None and s[i] == d for s in shapes) else None for i, d in enumerate(first))
        out.append((dtypes.pop() if len(dtypes) == 1 else None, shape))
    return out


@rule("Loop", "UnrolledLoop")
def loop(h: Hints, node: Node) -> list[Hint]:
    """Carried values keep their dtype; collected ones get an axis in front."""
    body = node.attrs.get("body")
    carried = [operand(node, i) for i in range(2, len(node.inputs))]
    out: list[Hint] = [(v.dtype, None) for v in carried]
    for value in body.outputs[1 + len(carried) :] if isinstance(body, Graph) else ():
        shape = sizes(value)
        out.append((value.dtype, None if shape is None else (None,) * (1 + len(shape))))
    return out


@rule("Scan", "UnrolledScan")
def scan(h: Hints, node: Node) -> list[Hint]:
    """States keep their type; collected ones get an axis."""
    body = node.attrs.get("body")
    states = [operand(node, i) for i in range(len(node.inputs) - number(node, "numScanInputs", 1))]
    out: list[Hint] = [(v.dtype, None) for v in states]
    for value in body.outputs[len(states) :] if isinstance(body, Graph) else ():
        shape = sizes(value)
        out.append((value.dtype, None if shape is None else (None,) * (1 + len(shape))))
    return out
