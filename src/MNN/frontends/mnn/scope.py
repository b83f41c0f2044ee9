"""A graph of a .mnn file while it is read, as those see it who take some of its operators."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.mnn.extras import GraphNotes
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.schema.record import Record


class OtherGraphs(Protocol):
    """The other graphs of the file."""

    def find(self, name: str) -> Record:
        """A graph as the file has it; FormatError where there is none."""

    def subgraph(self, name: str, bound: Mapping[int, Value], inputs: bool) -> tuple[Graph, Record]:
        """The graph called ``name``. ``bound`` gives values from outside for some of its tensors; with ``inputs`` the
        others that the subgraph names as its inputs become inputs of the graph."""


class GraphScope(abc.ABC):
    """One (sub)graph while it is read: values and formats by tensor index."""

    reader: OtherGraphs

    def __init__(self, name: str, names: list[str], notes: GraphNotes) -> None:
        self.where = f"subgraph '{name}'" if name else "the model"
        self.names = names
        self.notes = notes
        self.graph = Graph(name=name)
        self.values: dict[int, Value] = {}
        self.formats: dict[int, str] = {}
        self.taken: set[str] = set()

    @abc.abstractmethod
    def add(
        self, kind: str, name: str, inputs: list[Value | None], outputs: list[int], attrs: dict[str, object]
    ) -> Node:
        """Appends a node. Unknown operators are noted."""

    def unique(self, stem: str) -> str:
        name, count = stem or "tensor", 1
        while name in self.taken:
            count += 1
            name = f"{stem}_{count}"
        self.taken.add(name)
        return name

    def named(self, name: str) -> int:
        """The index of a tensor's name."""
        try:
            return self.names.index(name)
        except ValueError:
            raise FormatError(f"{self.where}: its output '{name}' is none of its tensors") from None

    def make(self, index: int) -> Value:
        """A new value for a tensor."""
        name = self.names[index]
        made = Value(self.unique(name), self.notes.dtypes.get(name), self.notes.shapes.get(name))
        self.values[index] = made
        return made

    def constant(self, data: Any, stem: str) -> Value:
        shape = tuple(int(d) for d in data.shape)
        dtype = DType.F32 if not isinstance(data, np.ndarray) else DType.of(data)
        return Value(self.unique(stem), dtype, shape, data)

    def use(self, index: int) -> Value | None:
        return None if index < 0 else self.values[index]
