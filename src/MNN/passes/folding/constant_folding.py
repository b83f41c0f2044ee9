"""Computes nodes whose operands are all constant."""

from __future__ import annotations

import numpy as np

from MNN.errors import MISFITS, MNNError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements
from MNN.ops.core.base import EagerOperator, operator, operators
from MNN.ops.core.builder import Builder, NeedValue
from MNN.passes.manager import Pass
from MNN.passes.patterns import of_this_package, plain

GROWTH = 4
SMALL = 1 << 20
"""A result may be this many times larger than its operands together, or have this many bytes."""
LARGEST = 1 << 28
"""Most bytes of any intermediate result."""


class _TooLarge(Exception):  # noqa: N818 - a decision, not an error
    pass


class _Folder(Builder):
    """A builder that computes at once, unless that takes too much memory."""

    def emit(self, prim: Prim, *types: tuple[DType, tuple[int, ...]]) -> list[Tensor]:
        if any(elements(shape) * dtype.size > LARGEST for dtype, shape in types):
            raise _TooLarge
        return super().emit(prim, *types)


def run(graph: Graph) -> int:
    """Puts the numbers into the nodes' outputs, which keep their names, and takes the nodes out."""
    folded: set[Node] = set()
    for node in graph.nodes:
        if any(v is not None and plain(v) is None for v in node.inputs) or node.subgraphs():
            continue
        arrays = results_of_constants(node)
        if arrays is None or not _worth(node, arrays):
            continue
        for value, array in zip(node.outputs, arrays, strict=False):
            value.data, value.dtype, value.shape = array, DType.of(array), tuple(array.shape)
        folded.add(node)
    if folded:
        graph.nodes = [n for n in graph.nodes if n not in folded]
    return len(folded)


def results_of_constants(node: Node) -> list[np.ndarray] | None:
    """The outputs' numbers; None for operators that are random, too large, unknown, or that fail on these operands."""
    if node.op not in operators():
        return None
    op, b = operator(node), _Folder()
    b.where = f"{node.op} '{node.name}'"
    arrays = [plain(v) for v in node.inputs]
    try:
        with np.errstate(all="ignore"):
            if isinstance(op, EagerOperator):
                if not of_this_package(op) or getattr(op, "needs_runner", False):
                    return None
                return [np.asarray(a) for a in op.evaluate(node, arrays)]
            outputs = op.lower(b, node, [None if a is None else b.const(a) for a in arrays])
    except (MNNError, NeedValue, _TooLarge, *MISFITS):  # an error of the model shows, with its place, when it runs
        return None
    found = [t.const for t in outputs if isinstance(t, Tensor) and t.const is not None]
    if len(found) < len(outputs) or len(found) < len(node.outputs):
        return None
    return [np.ascontiguousarray(a).reshape(a.shape) for a in found]


def _worth(node: Node, arrays: list[np.ndarray]) -> bool:
    size = sum(a.nbytes for a in arrays)
    given = sum(v.data.nbytes for v in node.inputs if v is not None and isinstance(v.data, np.ndarray))
    return size <= max(GROWTH * given, SMALL)


PASS = Pass("constant-folding", run, rank=10)
