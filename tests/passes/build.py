"""Small graphs for tests of passes, and the check that a pass keeps what they compute."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import Shape
from MNN.ir.verify import verify
from MNN.passes.arranging.shape_propagation import run as propagate
from MNN.passes.manager import passes
from tests.harness import run_reference

Array = np.ndarray


class Maker:
    """Builds a graph node by node; values are named after their operators."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = Graph("test")
        self.rng = np.random.default_rng(seed)
        self._count = 0

    def input(self, *shape: int | str, name: str = "x", dtype: DType = DType.F32) -> Value:
        value = Value(name, dtype, tuple(shape))
        self.graph.inputs.append(value)
        return value

    def const(self, data: object, dtype: type = np.float32) -> Value:
        array = np.asarray(data, dtype)
        self._count += 1
        return Value(f"c{self._count}", DType.of(array), tuple(array.shape), array)

    def ints(self, *numbers: int) -> Value:
        return self.const(list(numbers), np.int64)

    def noise(self, *shape: int) -> Value:
        return self.const(self.rng.standard_normal(shape))

    def op(self, op: str, *inputs: Value | None, **attrs: object) -> Value:
        return self.ops(op, 1, *inputs, **attrs)[0]

    def ops(self, op: str, outputs: int, *inputs: Value | None, **attrs: object) -> list[Value]:
        made = []
        for _ in range(outputs):
            self._count += 1
            made.append(Value(f"{op}{self._count}"))
        self.graph.nodes.append(Node(op, made[0].name, list(inputs), made, attrs))
        return made

    def binary(self, kind: str, x: Value, y: Value | float) -> Value:
        return self.op("BinaryOp", x, y if isinstance(y, Value) else self.const(y), opType=kind)

    def conv(self, x: Value, outputs: int, inputs: int, kernel: int = 3, bias: bool = True, **attrs: object) -> Value:
        group = int(str(attrs.get("group", 1)))
        weight = self.noise(outputs, inputs // group, kernel, kernel)
        attrs = {"kernelX": kernel, "kernelY": kernel, "pads": [kernel // 2] * 4, **attrs}
        op = "ConvolutionDepthwise" if group == inputs == outputs and group > 1 else "Convolution"
        return self.op(op, x, weight, self.noise(outputs) if bias else None, **attrs)

    def done(self, *outputs: Value) -> Graph:
        """The graph, with element types and shapes as a front end gives them."""
        self.graph.outputs = list(outputs)
        propagate(self.graph)
        verify(self.graph, "test")
        return self.graph


def clone(graph: Graph) -> Graph:
    """A copy that shares the constants' numbers."""
    memo: dict[int, object] = {}

    def share(inner: Graph) -> None:
        for value in inner.values():
            if value.data is not None:
                memo[id(value.data)] = value.data
        for node in inner.nodes:
            for _, sub in node.subgraphs():
                share(sub)

    share(graph)
    return copy.deepcopy(graph, memo)


def noise_for(graph: Graph, seed: int = 1, **sizes: int) -> dict[str, Array]:
    """Inputs of a graph; ``sizes`` gives the named ones (3 by default)."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for value in graph.inputs:
        shape: Shape = value.shape or ()
        dims = [d if isinstance(d, int) else sizes.get(d, 3) for d in shape]
        dtype = value.dtype or DType.F32
        data = rng.standard_normal(dims) * 2 if dtype.is_float else rng.integers(0, 5, dims)
        feeds[value.name] = np.asarray(data).astype(dtype.numpy)
    return feeds


def apply(name: str, graph: Graph, feeds: Mapping[str, Array] | None = None, tol: float = 1e-5) -> tuple[int, Graph]:
    """Runs one pass (until it changes nothing) on a copy, and checks that outputs, their names and types are the same.

    Gives the number of changes and the new graph.
    """
    after = clone(graph)
    changes = 0
    for _ in range(4):
        found = _everywhere(name, after)
        verify(after, name)
        changes += found
        if not found:
            break
    assert [v.name for v in after.outputs] == [v.name for v in graph.outputs]
    assert [v.name for v in after.inputs] == [v.name for v in graph.inputs]
    given = dict(feeds) if feeds is not None else noise_for(graph)
    compare(run_reference(after, given), run_reference(graph, given), tol)
    return changes, after


def _everywhere(name: str, graph: Graph) -> int:
    found = passes()[name].run(graph)
    for node in graph.nodes:
        for _, sub in node.subgraphs():
            found += _everywhere(name, sub)
    return found


def compare(found: Sequence[object], wanted: Sequence[object], tol: float) -> None:
    for got, want in zip(found, wanted, strict=True):
        a, b = np.asarray(got), np.asarray(want)
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        scale = float(np.abs(b).max(initial=1e-30)) if b.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=0, atol=tol * scale)


def ops(graph: Graph) -> list[str]:
    """Operators in order; unary and binary ones by what they do."""
    return [str(n.attrs.get("opType", n.op)) if n.op in ("UnaryOp", "BinaryOp") else n.op for n in graph.nodes]


def fires(name: str, graph: Graph, **options: object) -> Graph:
    """Like :func:`apply`; the pass must change something."""
    changes, after = apply(name, graph, **options)  # type: ignore[arg-type]
    assert changes > 0
    return after


def stays(name: str, graph: Graph) -> None:
    """The pass must leave the graph as it is."""
    before = ops(graph)
    changes, after = apply(name, graph)
    assert changes == 0
    assert ops(after) == before
