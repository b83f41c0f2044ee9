"""The model as a graph of operators.

The vocabulary is MNN's: ``Node.op`` is the name of an OpType, ``Node.attrs`` are the fields of that operator's table in
the .mnn schema, flattened, with enum values as their names. Operators that MNN does not have keep their own name and
are written to a file as ``Extra``. Weights are ordinary constant inputs, also where a .mnn file keeps them in a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.quant import QuantizedArray
from MNN.ir.shape import Shape


@dataclass(eq=False)
class Value:
    """A tensor of the graph: an input, a constant (``data`` is set) or the output of a node.

    ``shape`` is None when not even the rank is known.
    """

    name: str
    dtype: DType | None = None
    shape: Shape | None = None
    data: np.ndarray | QuantizedArray | None = None

    @property
    def is_const(self) -> bool:
        return self.data is not None

    def array(self) -> np.ndarray:
        """A constant's numbers; compressed weights are expanded to float32."""
        if self.data is None:
            raise ValueError(f"value '{self.name}' is not a constant")
        return self.data.dequantize() if isinstance(self.data, QuantizedArray) else self.data

    def __repr__(self) -> str:
        kind = "const " if self.is_const else ""
        return f"<{kind}{self.name}: {self.dtype.value if self.dtype else '?'}{list(self.shape or ())}>"


@dataclass(eq=False)
class Node:
    """One operator applied. ``inputs`` may hold None for optional operands that are absent.

    ``attrs`` values: int, float, bool, str, bytes, None, numpy arrays, lists of those, or a :class:`Graph` (subgraphs).
    """

    op: str
    name: str
    inputs: list[Value | None]
    outputs: list[Value]
    attrs: dict[str, object] = field(default_factory=dict)

    def subgraphs(self) -> list[tuple[str, Graph]]:
        """Attribute name and graph of every subgraph."""
        return [(key, value) for key, value in self.attrs.items() if isinstance(value, Graph)]

    def __repr__(self) -> str:
        ins = ", ".join(v.name if v else "-" for v in self.inputs)
        return f"<{self.op} '{self.name}' ({ins}) -> {[v.name for v in self.outputs]}>"


@dataclass(eq=False)
class Graph:
    """Operators in an order in which every value is made before it is used.

    A subgraph may use values of the graphs around it directly (captured values).
    """

    name: str = ""
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    meta: dict[str, object] = field(default_factory=dict)

    def consumers(self) -> dict[Value, list[Node]]:
        """Nodes that use each value, subgraph captures included (under the node that owns the subgraph)."""
        uses: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    uses.setdefault(value, []).append(node)
            for value in captured(node):
                uses.setdefault(value, []).append(node)
        return uses

    def producers(self) -> dict[Value, Node]:
        """The node that makes each value."""
        return {out: node for node in self.nodes for out in node.outputs}

    def replace(self, old: Value, new: Value) -> None:
        """Makes every use of ``old`` (graph outputs and subgraphs included) a use of ``new``."""
        for node in self.nodes:
            node.inputs = [new if v is old else v for v in node.inputs]
            for _, sub in node.subgraphs():
                sub.replace(old, new)
        self.outputs = [new if v is old else v for v in self.outputs]

    def values(self) -> Iterator[Value]:
        """Every value once: inputs, constants used, node outputs (not those of subgraphs)."""
        seen: set[int] = set()
        for value in (*self.inputs, *(v for n in self.nodes for v in (*n.inputs, *n.outputs)), *self.outputs):
            if value is not None and id(value) not in seen:
                seen.add(id(value))
                yield value


def captured(node: Node) -> list[Value]:
    """Values from outside that the node's subgraphs use."""
    inner = node.subgraphs()
    if not inner:
        return []
    found: list[Value] = []
    for _, sub in inner:
        own = {id(v) for v in sub.inputs} | {id(v) for n in sub.nodes for v in n.outputs}
        used = [v for n in sub.nodes for v in (*n.inputs, *captured(n)) if v is not None] + sub.outputs
        found += [v for v in used if id(v) not in own and not v.is_const]
    return list(dict.fromkeys(found))
