"""Signed bytes between quantised operators as unsigned ones, for processors whose products take these.

Where the instruction for sums of four products multiplies unsigned bytes by signed ones, signed bytes on the left are
moved by 128 wherever a kernel reads them, and some kernels take unsigned ones alone. But a byte and its zero point
may as well be 128 more from the beginning: the same numbers, bit by bit, in every integer that is computed of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from MNN.backends.base.backend import Backend
from MNN.compiler.integers.exact_words import with_exact_words
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits

_MOVED_BY = 128


class PlannedGraph:
    """A graph as it is planned, with unsigned bytes and products of 16-bit integers where a back end prefers them
    (None: nothing is changed). Changed when it is first needed."""

    def __init__(self, graph: Graph, backend: Backend | None) -> None:
        self._given = graph
        self._unsigned = backend is not None and backend.prefers_unsigned()
        self._words = backend is not None and backend.multiplies_words()
        self._changed = None if self._unsigned or self._words else (graph, frozenset[Value]())

    def graph(self, fetch: Sequence[Value]) -> Graph:
        """The graph to plan for these values, which are in it."""
        if self._changed is None:
            given = with_exact_words(self._given) if self._words else self._given
            self._changed = with_unsigned_bytes(given) if self._unsigned else (given, frozenset[Value]())
        graph, gone = self._changed
        return graph if gone.isdisjoint(fetch) else self._given


def with_unsigned_bytes(graph: Graph) -> tuple[Graph, frozenset[Value]]:
    """The same computation with unsigned bytes where all that makes and takes the signed ones is quantised by a
    constant zero point, or moves them; and the values of ``graph`` that are gone from it for that.

    What the graph is given and gives, and what its subgraphs see, stays as it is.
    """
    gone = frozenset(_movable(graph))
    if not gone:
        return graph, gone
    made = {v: Value(v.name, DType.U8, v.shape) for v in gone}
    nodes = [_moved(node, made) for node in graph.nodes]
    return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.meta), gone


def _moved(node: Node, made: dict[Value, Value]) -> Node:
    """The node between other values; itself where none of its own is one of ``made``."""
    if not any(v in made for v in (*node.inputs, *node.outputs) if v is not None):
        return node
    op, inputs = traits(node), list(node.inputs)
    zeros = [zero for operand, zero in op.zero_points.items() if operand < len(inputs) and inputs[operand] in made]
    if op.result_zero_point is not None and node.outputs[0] in made:
        zeros.append(op.result_zero_point)
    for at in zeros:
        inputs += [None] * (at + 1 - len(inputs))
        inputs[at] = _unsigned(inputs[at], node.name)
    for at in op.moved_operands(node) if node.outputs[0] in made else ():
        inputs += [None] * (at + 1 - len(inputs))
        number = inputs[at]
        if number is None or _plain(number):
            inputs[at] = _unsigned(number, f"{node.name}/{at}")
    inputs = [v if v is None else made.get(v, v) for v in inputs]
    return Node(node.op, node.name, inputs, [made.get(v, v) for v in node.outputs], node.attrs)


def _unsigned(zero: Value | None, name: str) -> Value:
    """A constant of unsigned bytes for one of signed ones, such as a zero point; None stands for zero."""
    old = np.zeros((), np.int8) if zero is None else zero.array()
    return Value(f"{name}/unsigned", DType.U8, old.shape, (old.astype(np.int16) + _MOVED_BY).astype(np.uint8))


def _movable(graph: Graph) -> Iterator[Value]:
    """The values of signed bytes that can be unsigned: all that move into each other, or none of them."""
    made = [v for node in graph.nodes for v in node.outputs if v.dtype is DType.I8]
    users = graph.consumers()
    makers = graph.producers()
    together: dict[Value, Value] = {}

    def first(v: Value) -> Value:
        while (above := together.get(v, v)) is not v:
            v = above
        return v

    kept = set(graph.outputs)
    signed = set(made)
    for node in graph.nodes:
        moved = _moves(node)
        for v in moved[1:]:
            together[first(v)] = first(moved[0])
        kept |= {v for v in moved if v not in signed}  # an input, another type
    for v in made:
        if not _makes(makers[v], v) or not all(_takes(user, v) for user in users.get(v, ())):
            kept.add(v)
    fixed = {first(v) for v in kept}
    yield from (v for v in made if first(v) not in fixed)


def _moves(node: Node) -> list[Value]:
    """Operands, but for constants of signed bytes, and results of a node that only moves elements, which are of one
    type."""
    places = traits(node).moved_operands(node)
    moved = [node.inputs[i] for i in places if i < len(node.inputs)]
    return [v for v in (*moved, *node.outputs) if v is not None and not _plain(v)] if moved else []


def _makes(node: Node, value: Value) -> bool:
    """Whether a node gives a value as what a constant zero point says, or of what it moves."""
    at = traits(node).result_zero_point
    if at is None:
        return value in _moves(node)
    return at < len(node.inputs) and _plain(node.inputs[at]) and node.attrs.get("dtype") in (None, "DT_INVALID")


def _takes(node: Node, value: Value) -> bool:
    """Whether a node takes a value on its left, with a constant zero point, or moves it; and nowhere else."""
    places = [i for i, v in enumerate(node.inputs) if v is value]
    op = traits(node)
    if places and set(places) <= set(op.moved_operands(node)):
        return True
    if places != [0] or 0 not in op.zero_points:
        return False
    at = op.zero_points[0]
    return at >= len(node.inputs) or node.inputs[at] is None or _plain(node.inputs[at])


def _plain(zero: Value | None) -> bool:
    return zero is not None and isinstance(zero.data, np.ndarray) and zero.data.dtype == np.int8


__all__ = ["PlannedGraph", "with_unsigned_bytes"]
