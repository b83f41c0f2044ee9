# ruff: noqa: N802 - the names are PyMNN's
"""Runs a graph one operator at a time, so that callbacks see, change or leave out what lies between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from MNN.ir.graph import Graph, Node, Value, captured
from MNN.runtime.config import Config
from MNN.tensor import Tensor

if TYPE_CHECKING:
    from MNN.runtime.executor import Executor


@dataclass(frozen=True)
class OpInfo:
    """An operator as callbacks see it."""

    name: str
    type: str
    flops: float
    """Millions of multiplications and additions."""

    def getName(self) -> str:
        return self.name

    def getType(self) -> str:
        return self.type

    def getFlops(self) -> float:
        return self.flops


ByName = Callable[[list[Tensor], str], bool]
"""A callback that gets an operator's tensors and its name; False skips the operator, or ends the run."""
ByInfo = Callable[[list[Tensor], OpInfo], bool]
"""The same with an :class:`OpInfo` in place of the name."""
Callback = Callable[[list[Tensor], Any], bool]
"""Either of the two: whether names are wanted says which."""


class Stepper:
    """Every operator compiled by itself; kept for later runs."""

    def __init__(self, graph: Graph, config: Config) -> None:
        self._graph, self._config = graph, config
        self._single: dict[Node, tuple[Executor, list[Value]]] = {}

    def run(
        self,
        feeds: Mapping[Value, np.ndarray],
        before: Callback | None,
        after: Callback | None,
        names: bool,
    ) -> list[np.ndarray] | None:
        """The graph's outputs; None when ``after`` ended the run. Callbacks get names, or :class:`OpInfo`."""
        values: dict[Value, Any] = dict(feeds)
        for node in self._graph.nodes:
            executor, inputs = self._prepared(node)
            given = {v: values[v] for v in inputs}
            info: object = node.name
            if not names:
                plan = executor.plan(given, node.outputs)
                info = OpInfo(node.name, node.op, plan.bound.program.flops / 1e6)
            seen = [Tensor.of(a) for v in inputs if isinstance(a := given[v], np.ndarray)]
            wanted = before is None or before(seen, info)
            results = executor.run(given, node.outputs)
            if not wanted:
                results = [np.zeros_like(a) if isinstance(a, np.ndarray) else a for a in results]
            values.update(zip(node.outputs, results, strict=True))
            made = [Tensor.of(a) for a in results if isinstance(a, np.ndarray)]
            if after is not None and not after(made, info):
                return None
        return [values[v] if v in values else v.array() for v in self._graph.outputs]

    def _prepared(self, node: Node) -> tuple[Executor, list[Value]]:
        if node not in self._single:
            inputs = list(dict.fromkeys(v for v in (*node.inputs, *captured(node)) if v is not None and not v.is_const))
            from MNN.runtime.executor import Executor  # brings the compiler, which most sessions do not need

            graph = Graph(node.name, inputs, list(node.outputs), [node])
            self._single[node] = (Executor(graph, self._config), inputs)
        return self._single[node]
