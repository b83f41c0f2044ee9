"""Computes both branches of a small If and selects between them (if-conversion: Allen, Kennedy et al. 1983).

A condition that a network computes is known only when the model runs: the program would end there, and another one
begin with the branch. Where both branches take less time than that, they are computed, and one is taken.
"""

from __future__ import annotations

import math

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute
from MNN.passes.rewrite import Rewriter

WORK = 1 << 20
"""Multiplications, and numbers made, of both branches together: some 20 microseconds."""


def run(graph: Graph) -> int:
    """``if c then f(x) else g(x)`` becomes ``select(c, f(x), g(x))``."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        branches = [node.attrs.get("then_graph"), node.attrs.get("else_graph")]
        if None not in branches and _computed(rw, node.inputs[0]) and _selectable(node, branches):
            _select(rw, node, [b for b in branches if isinstance(b, Graph)])
    return rw.finish()


def _computed(rw: Rewriter, condition: Value | None) -> bool:
    """Whether products decide: sizes and flags choose a branch when the model is planned."""
    waiting, seen = [condition], set()
    while waiting:
        node = rw.maker(waiting.pop())
        if node is None or node in seen:
            continue
        if traits(node).family == "linear":
            return True
        seen.add(node)
        waiting += node.inputs
    return False


def _selectable(node: Node, branches: list[object]) -> bool:
    condition, work = node.inputs[0], 0
    if condition is None or condition.dtype is not DType.BOOL or condition.shape is None or set(condition.shape) - {1}:
        return False
    for branch in branches:
        if not isinstance(branch, Graph) or branch.inputs or len(branch.outputs) != len(node.outputs):
            return False
        for value, out in zip(branch.outputs, node.outputs, strict=True):
            size = _size(value)
            if size is None or value.shape != out.shape or value.dtype is not out.dtype or value.is_const:
                return False
            if len(condition.shape) > len(value.shape or ()):
                return False
            work += size
        for inner in branch.nodes:
            own = _work(inner)
            if own is None:
                return False
            work += own
    return work <= WORK


def _work(node: Node) -> int | None:
    """Multiplications or numbers made; None for what could fail where it is not asked for, or is of unknown size."""
    sizes = [_size(v) for v in node.outputs]
    known = [s for s in sizes if s is not None]
    if len(known) != len(sizes) or any(v.dtype is not DType.F32 for v in node.outputs):
        return None
    if node.op == "MatMul":
        a = node.inputs[0]
        if a is None or not a.shape or _size(a) is None:
            return None
        depth = a.shape[-2 if attribute(node, "transposeA") and len(a.shape) > 1 else -1]
        return known[0] * depth if isinstance(depth, int) else None
    op = traits(node)
    total = op.reshapes or op.family in ("elementwise", "reducing")
    return sum(known) if total and not op.draws else None


def _size(value: Value) -> int | None:
    shape = value.shape
    return None if shape is None or not all(isinstance(d, int) for d in shape) else math.prod(int(d) for d in shape)


def _select(rw: Rewriter, node: Node, branches: list[Graph]) -> None:
    for branch in branches:
        for inner in branch.nodes:
            for value in inner.outputs:
                value.name = rw.unique(value.name)
            rw.insert(inner, before=node)
    for out, pair in zip(node.outputs, zip(*(b.outputs for b in branches), strict=True), strict=True):
        rw.insert(Node("Select", rw.unique(f"{out.name}/select"), [node.inputs[0], *pair], [out]), before=node)
    rw.remove(node)


PASS = Pass("if-conversion", run, rank=50)
