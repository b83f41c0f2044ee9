"""Which nodes of a graph may be alike: what there is to know of them before anything is lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from MNN.ir.graph import Graph, Node
from MNN.ir.quant import QuantizedArray

READ = 64
"""Most numbers of a constant that what a node becomes may depend on."""
_PLAIN = (int, float, bool, str, bytes, type(None))


class Sketches:
    """Which nodes of a graph may be alike, found once: a number for each, equal for those that are but for the operands
    that are computed."""

    def __init__(self, graph: Graph, repeats: Callable[[Node], bool]) -> None:
        """``repeats``: whether a node may be like others (:attr:`MNN.ops.core.base.Operator.repeats`)."""
        numbers: dict[Hashable, int] = {}
        found: dict[Node, int] = {}
        for node in graph.nodes:
            sketch = _sketch(node) if repeats(node) else None
            if sketch is not None:
                found[node] = numbers.setdefault(sketch, len(numbers))
        counts = Counter(found.values())
        self._of = {node: (number, place(node)) for node, number in found.items() if counts[number] > 1}
        self._written: set[Node] = set()
        self._followed: set[Node] = set()

    def get(self, node: Node) -> tuple[int, str] | None:
        """The node's number and what it is called, one text for all plans; None when there is no other like it."""
        return self._of.get(node)

    def worth_writing(self, node: Node) -> bool:
        """Whether others may follow a node's recipe: at the first size, and where some did so at another one."""
        if node in self._written:
            return node in self._followed
        self._written.add(node)
        return True

    def follow(self, node: Node) -> None:
        """Says that a node's recipe is followed."""
        self._followed.add(node)


def place(node: Node) -> str:
    """What messages and profiles call a node."""
    return f"{node.op} '{node.name}'"


def _sketch(node: Node) -> Hashable:
    key: list[Any] = [node.op, len(node.outputs)]
    for name in sorted(node.attrs):
        value = node.attrs[name]
        items = value if isinstance(value, (list, tuple)) else (value,)
        if not all(isinstance(item, _PLAIN) for item in items):
            return None
        key += (name, type(value), *[(type(item), repr(item) if type(item) is float else item) for item in items])
    for given in node.inputs:
        if given is None or given.data is None:
            key.append(None)
        elif isinstance(given.data, QuantizedArray) or given.data.dtype.hasobject:
            return None
        else:
            key.append(constant(given.data))
    return tuple(key)


def constant(data: np.ndarray) -> Hashable:
    """What of a constant's numbers a lowering may look at: see :data:`READ`."""
    return data.dtype, data.shape, data.tobytes() if data.size <= READ else b""


__all__ = ["READ", "Sketches", "constant", "place"]
