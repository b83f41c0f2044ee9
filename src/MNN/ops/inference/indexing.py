"""Inference for gathers, scatters, and results as long as the data says; see :mod:`MNN.ops.inference.infer`."""

from __future__ import annotations

from MNN.ir.graph import Node
from MNN.ops.inference.infer import Hint, Hints, Sizes, axis_of, index_type, number, operand, rule, sizes


@rule("GatherV2", "Gather")
def gather(h: Hints, node: Node) -> list[Hint]:
    data, indices = operand(node, 0), operand(node, 1)
    known, picked = sizes(data), sizes(indices)
    given = h.known_ints(node.inputs[2]) if len(node.inputs) > 2 else [number(node, "axis")]
    numbers, at = h.ints(data), h.known_ints(indices)
    if numbers is not None and at is not None and all(-len(numbers) <= i < len(numbers) for i in at):
        h.numbers[node.outputs[0]] = [numbers[i] for i in at]
    if known is None or picked is None or given is None:
        return [(data.dtype, None)]
    axis = axis_of(given[0], len(known))
    return [(data.dtype, (*known[:axis], *picked, *known[axis + 1 :]))]


@rule("GatherElements")
def gather_elements(h: Hints, node: Node) -> list[Hint]:
    return [(operand(node, 0).dtype, sizes(operand(node, 1)))]


@rule("GatherND")
def gather_nd(h: Hints, node: Node) -> list[Hint]:
    data, indices = operand(node, 0), operand(node, 1)
    known, picked = sizes(data), sizes(indices)
    if known is None or not picked or not isinstance(picked[-1], int):
        return [(data.dtype, None)]
    return [(data.dtype, (*picked[:-1], *known[number(node, "batchDims") + picked[-1] :]))]


@rule("ScatterNd")
def scatter_nd(h: Hints, node: Node) -> list[Hint]:
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        return [(node.inputs[3].dtype, sizes(node.inputs[3]))]
    dims = h.ints(node.inputs[2])
    return [(operand(node, 1).dtype, None if dims is None else tuple(dims))]


@rule("TopKV2")
def top_k(h: Hints, node: Node) -> list[Hint]:
    x, k = operand(node, 0), h.ints(node.inputs[1])
    known, given = sizes(x), h.known_ints(node.inputs[2]) if len(node.inputs) > 2 else [-1]
    if known is None or given is None:
        return [(x.dtype, None), (index_type(node), None)]
    axis = axis_of(given[0], len(known))
    out = (*known[:axis], k[0] if k else None, *known[axis + 1 :])
    return [(x.dtype, out), (index_type(node), out)]


@rule("Where")
def non_zero(h: Hints, node: Node) -> list[Hint]:
    known = sizes(operand(node, 0))
    return [(index_type(node), (None, None if known is None else len(known)))]


@rule("Unique")
def unique(h: Hints, node: Node) -> list[Hint]:
    x, known = operand(node, 0), sizes(operand(node, 0))
    flat = node.attrs.get("axis") is None
    at = number(node, "axis") % max(len(known or ()), 1)
    apart = None if known is None else tuple(None if i == at else d for i, d in enumerate(known))
    first: Sizes | None = (None,) if flat else apart
    return [(x.dtype, first), *[(index_type(node), (None,))] * (len(node.outputs) - 1)]


@rule("NonMaxSuppression", "NonMaxSuppressionV2")
def suppression(h: Hints, node: Node) -> list[Hint]:
    known = sizes(operand(node, 0))
    return [(index_type(node), None if known is None else (None, 3) if len(known) == 3 else (None,))]
