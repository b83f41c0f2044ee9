"""Runs a graph with the reference implementation, which every compiled result is compared with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.frontends.mnn import load as load_mnn
from MNN.frontends.mnn import net_of
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.prims import Prim, Tensor
from MNN.ops.control.sequence import ListTensor
from MNN.ops.core import nested
from MNN.ops.core.base import EagerOperator, evaluate_node, lower_node, operator
from MNN.ops.core.builder import Builder, NeedValue
from MNN.passes.manager import optimize
from MNN.reference.primitives import evaluate
from MNN.runtime.session import Session
from MNN.schema import write_net

Runner = Callable[[Graph, Mapping[str, object]], list[object]]
"""A way of running a graph: inputs by name to outputs in order."""


class ReferenceBuilder(Builder):
    """Lowers nodes one by one and evaluates primitives when their numbers are asked for."""

    def __init__(self) -> None:
        super().__init__(fold=True)
        self.env: dict[Value, Tensor] = {}
        self.numbers: dict[Tensor, np.ndarray] = {}
        self._done: dict[tuple[object, ...], list[Tensor]] = {}
        self._path: tuple[object, ...] = ()
        self._inlined = 0

    def lookup(self, value: Value) -> Tensor:
        if value not in self.env:
            assert value.data is not None, f"value '{value.name}' is used before it is made"
            self.env[value] = self.const(value.array())
        return self.env[value]

    def number(self, tensor: Tensor) -> np.ndarray:
        """The numbers of a tensor, computed together with everything it depends on."""
        stack = [tensor]
        while stack:
            current = stack[-1]
            if current.const is not None or current in self.numbers:
                stack.pop()
                continue
            prim = current.producer
            assert prim is not None, f"nothing computes {current}"
            missing = [t for t in prim.inputs if t.const is None and t not in self.numbers]
            if missing:
                stack += missing
                continue
            self.run_prim(prim)
            stack.pop()
        return tensor.const if tensor.const is not None else self.numbers[tensor]

    def run_prim(self, prim: Prim) -> None:
        arrays = [t.const if t.const is not None else self.numbers[t] for t in prim.inputs]
        results = evaluate(prim, arrays, [(t.dtype, t.shape) for t in prim.outputs])
        for tensor, array in zip(prim.outputs, results, strict=True):
            assert array.shape == tensor.shape, f"{prim.origin}: {type(prim).__name__} {array.shape} {tensor.shape}"
            assert DType.of(array) is tensor.dtype, f"{prim.origin}: {array.dtype} is not {tensor.dtype}"
            self.numbers[tensor] = array

    def lower_node(self, node: Node) -> None:
        """Lowers one node; numbers that it needs are computed and become constants, then it is tried again."""
        outer = self.where
        inputs = [None if v is None else self.lookup(v) for v in node.inputs]
        key = (self._path, id(node), *(id(t) for t in inputs))
        if key not in self._done:
            while True:
                self.where, before = f"{node.op} '{node.name}'", self._inlined
                try:
                    outputs = self._lower(operator(node), node, inputs)
                    break
                except NeedValue as need:
                    need.tensor.const = self.number(need.tensor)
                    self._inlined = before
            self._done[key] = outputs
        self.where = outer
        for value, tensor in zip(node.outputs, self._done[key], strict=False):
            self.env[value] = tensor
            check_hint(value, tensor)

    def _lower(self, op: object, node: Node, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        if not isinstance(op, EagerOperator):
            return lower_node(self, node, inputs)
        arrays = [None if t is None else self.number(t) for t in inputs]
        extra = (self.run_graph,) if getattr(op, "needs_runner", False) else ()
        tensors = []
        for array in evaluate_node(node, arrays, *extra):
            tensors.append(Tensor(DType.of(array), tuple(array.shape)))
            self.numbers[tensors[-1]] = array
        return tensors

    def inline(self, graph: Graph, bindings: Mapping[Value, Tensor]) -> list[Tensor]:
        """Lowers a subgraph in place; its inputs are bound, captured values come from outside."""
        outer, self._inlined = self._path, self._inlined + 1
        self._path = (*outer, id(graph), self._inlined)
        self.env.update(bindings)
        for node in graph.nodes:
            self.lower_node(node)
        self._path = outer
        return [self.lookup(v) for v in graph.outputs]

    def run_graph(self, graph: Graph, feeds: Mapping[Value, np.ndarray]) -> list[np.ndarray]:
        """For eager operators with subgraphs."""
        bindings = {v: self.feed(a) for v, a in feeds.items()}
        return [self.number(t) for t in self.inline(graph, bindings)]

    def feed(self, array: object) -> Tensor:
        data = np.asarray(array)
        tensor = Tensor(DType.of(data), tuple(data.shape))
        self.numbers[tensor] = data
        return tensor


def run_reference(graph: Graph, feeds: Mapping[str, object], fetch: Sequence[str] = ()) -> list[object]:
    """Outputs of a graph in order (and tensors named in ``fetch`` after them), computed with numpy.

    A feed is an array, or a list of feeds for sequences.
    """
    b = ReferenceBuilder()
    for value in graph.inputs:
        if value.name not in feeds:
            raise MNNError(f"input '{value.name}' is missing")
        b.env[value] = _bind(b, feeds[value.name])
    for node in graph.nodes:
        b.lower_node(node)
    named = {v.name: v for v in graph.values()}
    return [_result(b, b.lookup(v)) for v in (*graph.outputs, *(named[n] for n in fetch))]


def _bind(b: ReferenceBuilder, feed: object) -> Tensor:
    return nested.tensor_of("input", nested.checked("input", feed), lambda _, array: b.feed(array))


def _result(b: ReferenceBuilder, tensor: Tensor) -> object:
    return nested.assemble(tensor, b.number)


def check_hint(value: Value, tensor: Tensor) -> None:
    """What the graph says about a value must agree with what comes out."""
    if isinstance(tensor, ListTensor):
        return
    assert value.dtype in (None, tensor.dtype), f"{value} is {tensor}"
    if value.shape is not None:
        assert len(value.shape) == tensor.rank, (value, tensor)
        known = [(a, z) for a, z in zip(value.shape, tensor.shape, strict=True) if not isinstance(a, str)]
        assert all(a == z for a, z in known), (value, tensor)


def run_session(graph: Graph, feeds: Mapping[str, object]) -> list[object]:
    """Outputs of a compiled session."""
    return list(Session(graph).run(feeds).values())


def run_file(graph: Graph, feeds: Mapping[str, object]) -> list[object]:
    """What a user of a converted model gets: optimised, written to a .mnn file (in memory), read and compiled."""
    optimize(graph)
    return run_session(load_mnn(write_net(net_of(graph))), feeds)


RUNNERS: dict[str, Runner] = {"reference": run_reference, "session": run_session, "file": run_file}
"""Ways of running a graph that tests can choose from with ``MNN_TEST_RUNNER``."""


def default_runner() -> str:
    """The runner tests use unless told otherwise."""
    return os.environ.get("MNN_TEST_RUNNER", "file")
