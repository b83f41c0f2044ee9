"""Of two permutations in a row one is enough, or none."""

from __future__ import annotations

from MNN.ir.graph import Graph, Node
from MNN.passes.manager import Pass
from MNN.passes.patterns import rank
from MNN.passes.rewrite import Rewriter


def run(graph: Graph) -> int:
    """``Permute(Permute(x))`` becomes one, and goes when it puts every axis back."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        inner = rw.made_by(node.inputs[0], "Permute") if node.op == "Permute" else None
        if inner is None or inner.inputs[0] is None:
            continue
        outer_order, inner_order = order_of(node), order_of(inner)
        if outer_order is None or inner_order is None or len(outer_order) != len(inner_order):
            continue
        order = [inner_order[a] for a in outer_order]
        if order == list(range(len(order))) and rw.bypass(node, inner.inputs[0]):
            continue
        rw.set_input(node, 0, inner.inputs[0])
        node.attrs["dims"] = order
    return rw.finish()


def order_of(node: Node) -> list[int] | None:
    """A Permute's order of axes as non-negative numbers; absent, they are reversed."""
    dims, x = node.attrs.get("dims"), node.inputs[0]
    if isinstance(dims, list) and dims:
        return [int(d) + len(dims) if int(d) < 0 else int(d) for d in dims]
    found = None if x is None else rank(x)
    return None if found is None else list(range(found))[::-1]


PASS = Pass("permute-merging", run, rank=26)
