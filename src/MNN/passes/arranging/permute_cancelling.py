"""Pairs of permutations with elementwise operators, joins, borders and the like between them go, together.

Files of channels-last frameworks permute images around every convolution. What lies between one convolution and the
next is computed in the order in which convolutions give it, so that the permutations meet and cancel; where it branches
to what needs the other order, one is left. Nothing is done where that would leave as many as there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from MNN.ir.graph import Graph, Node, Value
from MNN.passes.arranging.permute_merging import order_of
from MNN.passes.arranging.reordered import Order, reordered, variables
from MNN.passes.manager import Pass
from MNN.passes.patterns import rank
from MNN.passes.rewrite import Rewriter


@dataclass(eq=False)
class _Region:
    """Nodes between permutations of one order. ``starts``: those in front."""

    starts: list[Node] = field(default_factory=list)
    inside: list[Node] = field(default_factory=list)


def run(graph: Graph) -> int:
    rw = Rewriter(graph)
    orders = {tuple(o) for n in rw.nodes() if n.op == "Permute" and (o := order_of(n)) is not None}
    for order in sorted(orders):
        inverse = tuple(sorted(range(len(order)), key=order.__getitem__))
        if inverse in orders and order != tuple(range(len(order))):
            for region in _regions(rw, order):
                if region.inside and _gain(rw, region, inverse) > 0:
                    _reorder(rw, region, order, inverse)
    return rw.finish()


def _regions(rw: Rewriter, order: Order) -> list[_Region]:
    """Connected regions, each with its nodes in their order."""
    region_of: dict[Value, _Region] = {}
    merged: dict[int, _Region] = {}

    def find(region: _Region) -> _Region:
        while id(region) in merged:
            region = merged[id(region)]
        return region

    for node in rw.nodes():
        if node.op == "Permute" and order_of(node) == list(order):
            region = _Region([node])
            region_of[node.outputs[0]] = region
            continue
        given = variables(node)
        if not given or any(v not in region_of or rank(v) != len(order) for v in given):
            continue
        if reordered(rw, node, order, constants=False) is None:
            continue
        first, *others = dict.fromkeys(find(region_of[v]) for v in given)
        for other in others:
            first.starts += other.starts
            first.inside += other.inside
            merged[id(other)] = first
        first.inside.append(node)
        region_of.update(dict.fromkeys(node.outputs, first))
    found = dict.fromkeys(find(r) for r in region_of.values())
    for region in found:
        region.inside.sort(key=rw.position)
    return list(found)


def _inverse(rw: Rewriter, node: Node, inverse: Order) -> bool:
    return node.op == "Permute" and order_of(node) == list(inverse)


def _gain(rw: Rewriter, region: _Region, inverse: Order) -> int:
    """How many permutations fewer there are afterwards."""
    inside = set(region.inside)
    gain = 0
    for start in region.starts:
        out = start.outputs[0]
        outside = [u for u in rw.users(out) if u not in inside and not _inverse(rw, u, inverse)]
        gain += not outside and not rw.is_output(out)
    for node in region.inside:
        for value in node.outputs:
            users = set(rw.users(value))
            gain += sum(_inverse(rw, u, inverse) for u in users)
            left = [u for u in users if u not in inside and not _inverse(rw, u, inverse)]
            gain -= bool(left) or rw.is_output(value)
    return gain


def _reorder(rw: Rewriter, region: _Region, order: Order, inverse: Order) -> None:
    sources: dict[Value, Value] = {}
    for start in region.starts:
        source = start.inputs[0]
        assert source is not None
        sources[start.outputs[0]] = source
    inside = set(region.inside)
    for node in region.inside:
        new = reordered(rw, node, order, constants=True)
        assert new is not None
        new.inputs = [sources.get(v, v) if v is not None else None for v in new.inputs]
        for value in node.outputs:
            shape = None if value.shape is None else tuple(value.shape[inverse[i]] for i in range(len(order)))
            made = Value(rw.unique(f"{value.name}/reordered"), value.dtype, shape)
            new.outputs.append(made)
            sources[value] = made
        rw.insert(new, node)
        for value, made in zip(node.outputs, new.outputs, strict=True):
            back = Node("Permute", rw.unique(f"{node.name}/back"), [made], [value], {"dims": list(order)})
            rw.insert(back, node)
        kept = node.outputs
        node.outputs = []
        rw.remove(node)
        node.outputs = kept
        for value in kept:
            for user in dict.fromkeys(rw.users(value)):
                if user in inside or not _inverse(rw, user, inverse) or not rw.bypass(user, sources[value]):
                    continue
                if rw.is_output(user.outputs[0]):  # which is made in the place of the other one, and keeps its name
                    sources[value] = user.outputs[0]


PASS = Pass("permute-cancelling", run, rank=27)
