"""Of two operators in a row that only give another shape, the second is enough."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node
from MNN.ops.core.base import traits
from MNN.passes.manager import Pass
from MNN.passes.patterns import ints
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import Dims, axes_of, dims_of


def run(graph: Graph) -> int:
    """Unsqueeze after Squeeze of the same axes goes altogether; other pairs become one Reshape."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        if not traits(node).reshapes:
            continue
        inner = rw.maker(node.inputs[0])
        if inner is None or not traits(inner).reshapes or inner.inputs[0] is None or rw.is_output(inner.outputs[0]):
            continue
        if _undoes(node, inner) and rw.bypass(node, inner.inputs[0]):
            continue
        target = _target(node, inner)
        if target is None:
            continue
        shape = rw.constant(f"{node.outputs[0].name}/shape", np.array(target, dtype=np.int64))
        rw.swap(node, Node("Reshape", node.name, [inner.inputs[0], shape], node.outputs))
    return rw.finish()


def _undoes(node: Node, inner: Node) -> bool:
    """Squeeze and Unsqueeze of the same axes, counted from the same side."""
    if {node.op, inner.op} != {"Squeeze", "Unsqueeze"}:
        return False
    mine, its = axes_of(node), axes_of(inner)
    if not mine or not its or sorted(mine) != sorted(its):
        return False
    same_side = all(a >= 0 for a in mine) or all(a < 0 for a in mine)
    return same_side and len(set(mine)) == len(mine)


def _target(node: Node, inner: Node) -> list[int] | None:
    """The final shape as Reshape takes it on the inner operator's input, or None."""
    source, out = inner.inputs[0], dims_of(node.outputs[0])
    x = dims_of(source)
    plain = ints(node.inputs[1]) if node.op == "Reshape" and len(node.inputs) > 1 else None
    if plain is not None and 0 not in plain:
        return plain
    if out is None:
        return None
    return _in_terms_of(out, x)


def _in_terms_of(out: Dims, x: Dims | None) -> list[int] | None:
    target: list[int] = []
    for i, d in enumerate(out):
        if isinstance(d, int) and d > 0:
            target.append(d)
        elif isinstance(d, str) and x is not None and i < len(x) and x[i] == d:
            target.append(0)
        else:
            target.append(-1)
    return target if target.count(-1) <= 1 else None


PASS = Pass("reshape-merging", run, rank=24)
