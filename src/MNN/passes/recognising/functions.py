"""Finds stretches of a graph that compute a known function of one variable, however they spell it.

Grown backwards from their last node until one variable is left, stretches of elementwise operators are evaluated in
float64 at sample points, with the operators' own meaning, and compared with the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.prims import Tensor
from MNN.ops.core.base import operator, traits
from MNN.ops.core.builder import Builder, NeedValue
from MNN.passes.patterns import FLOATS, floats, keeps_rank
from MNN.passes.rewrite import Rewriter

MAX_NODES = 14
MAX_STEPS = 7
"""Nodes between the one that gives a stretch away and its end."""
TOLERANCE = 3e-6
"""Of constants that were rounded to float32 on the way."""
_BINARY = frozenset("ADD SUB MUL DIV REALDIV POW MAXIMUM MINIMUM SquaredDifference".split())
_SAMPLES = np.concatenate(
    [
        np.linspace(-12, 12, 241),
        [s * v for s in (1, -1) for v in (1e-6, 1e-3, 2.9999, 3.0001, 15, 20, 30, 50, 100, 1e3, 1e4)],
    ]
)
Function = Callable[[np.ndarray], np.ndarray]


def recognize(graph: Graph, gives_away: Callable[[Node], bool], function: Function, kind: str) -> int:
    """Replaces every stretch that computes ``function`` by the UnaryOp ``kind``.

    ``gives_away`` picks the nodes from which ends are searched. What lies inside a stretch must not be used elsewhere.
    """
    rw = Rewriter(graph)
    with np.errstate(all="ignore"):
        wanted = function(_SAMPLES)
        for node in [n for n in rw.nodes() if gives_away(n)]:
            for end in _ends(rw, node):
                found = _match(rw, end, wanted)
                if found is not None:
                    x, inside = found
                    rw.swap(end, Node("UnaryOp", end.name, [x], end.outputs, {"opType": kind}))
                    for other in inside:
                        if other is not end:
                            rw.remove(other)
                    break
    return rw.finish()


def _elementwise(node: Node) -> bool:
    if len(node.outputs) != 1:
        return False
    if node.op == "BinaryOp":
        return node.attrs.get("opType", "ADD") in _BINARY and not node.attrs.get("activationType")
    return traits(node).elementwise and traits(node).keeps_shape  # of the same type, too


def _ends(rw: Rewriter, node: Node) -> list[Node]:
    """The node and those after it, as far as each is used by one other alone."""
    ends: list[Node] = []
    current: Node | None = node
    while current is not None and _elementwise(current) and len(ends) < MAX_STEPS:
        ends.append(current)
        current = rw.only_user(current.outputs[0])
    return ends[1:]


def _match(rw: Rewriter, end: Node, wanted: np.ndarray) -> tuple[Value, list[Node]] | None:
    """The variable and the nodes of the stretch that ends with ``end``."""
    inside = [end]
    while len(inside) <= MAX_NODES:
        made = {n.outputs[0] for n in inside}
        border = list(dict.fromkeys(v for n in inside for v in n.inputs if v is not None and v not in made))
        variables = [v for v in border if not v.is_const]
        numbers = [floats(v) for v in border if v.is_const]
        if any(data is None or data.size != 1 for data in numbers):
            return None
        if len(variables) == 1 and _computes(rw, inside, variables[0], border, wanted):
            return variables[0], inside
        makers = [m for m in (rw.maker(v) for v in variables) if m is not None]
        last = max(makers, key=rw.position, default=None)
        if last is None or not _elementwise(last) or not rw.within(last.outputs[0], inside):
            return None
        inside.append(last)
    return None


def _computes(rw: Rewriter, inside: Sequence[Node], x: Value, border: Sequence[Value], wanted: np.ndarray) -> bool:
    if x.dtype not in FLOATS or any(v.is_const and not keeps_rank(v, x) for v in border):
        return False
    b = Builder()
    known: dict[Value, Tensor] = {x: b.const(_SAMPLES)}
    for value in border:
        data = floats(value)
        if data is not None:
            known[value] = b.const(np.asarray(data.reshape(()), np.float64), DType.F64)
    try:
        for node in sorted(inside, key=rw.position):
            inputs = [known[v] for v in node.inputs if v is not None]
            known[node.outputs[0]] = operator(node).lower(b, node, inputs)[0]
    except (MNNError, NeedValue):
        return False
    found = known[inside[0].outputs[0]].const
    if found is None or found.shape != wanted.shape:
        return False
    bound = TOLERANCE * (np.abs(wanted) + np.minimum(np.abs(_SAMPLES), 1.0) * 0.1)
    return bool(np.all(np.abs(found - wanted) <= bound))
