"""Nodes that are alike are lowered once: to the same primitives as one by one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from MNN.compiler.lower import Lowering, Stage, input_tensor, lower_stage
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core import recipes
from tests.runtime.test_sizes import attention

RNG = np.random.default_rng(6)


def weights(name: str, *shape: int) -> Value:
    return Value(name, DType.F32, shape, RNG.standard_normal(shape).astype(np.float32))


def layers() -> Graph:
    """Blocks of a picture network: convolution with bias and ReLU, gate, sum."""
    x = Value("x", DType.F32, (1, 128, 9, 9))
    nodes, at = [], x
    for i in range(4):
        a, b, c, d = (Value(f"{name}{i}", DType.F32) for name in "abcd")
        conv = {"kernelX": 3, "kernelY": 3, "padX": 1, "padY": 1, "outputCount": 128, "inputCount": 128, "relu": i != 2}
        nodes += [
            Node("Convolution", f"conv{i}", [at, weights(f"w{i}", 128, 128, 3, 3), weights(f"b{i}", 128)], [a], conv),
            Node("Pooling", f"pool{i}", [a], [b], {"isGlobal": True, "type": "AVEPOOL"}),
            Node("BinaryOp", f"gate{i}", [a, b], [c], {"opType": "MUL"}),
            Node("BinaryOp", f"sum{i}", [c, at] if i != 3 else [c, c], [d], {"opType": "ADD"}),
        ]
        at = d
    return Graph("g", [x], [at], nodes)


def views() -> Graph:
    """Views of views, by constants that differ, of the same tensor and of others."""
    x = Value("x", DType.F32, (2, 6, 4))
    shapes = [Value(f"s{i}", DType.I64, (3,), np.array(s)) for i, s in enumerate([(0, 4, 6), (0, 6, 4), (0, 4, 6)])]
    a, b, c, d, e, y = (Value(name, DType.F32) for name in "abcdey")
    nodes = [
        Node("Reshape", "first", [x, shapes[0]], [a]),
        Node("Reshape", "back", [a, shapes[1]], [b]),
        Node("Reshape", "again", [b, shapes[2]], [c]),
        Node("Permute", "turned", [c], [d], {"dims": [0, 2, 1]}),
        Node("Permute", "turned back", [d], [e], {"dims": [0, 2, 1]}),
        Node("BinaryOp", "sum", [e, a], [y], {"opType": "ADD"}),
    ]
    return Graph("g", [x], [y, d], nodes)


def lowered(graph: Graph, repeating: bool, shapes: Mapping[str, tuple[int, ...]]) -> Stage:
    with pytest.MonkeyPatch.context() as patch:
        if not repeating:
            patch.setattr(Lowering, "repeat", lambda self, graph: None)
        arrays = {v: np.zeros(shapes[v.name], np.float32) for v in graph.inputs}
        tensors = {v: input_tensor(v.name, a) for v, a in arrays.items()}
        return lower_stage(graph, 0, tensors, {t: arrays[v] for v, t in tensors.items()}, {})


def told(stage: Stage, graph: Graph) -> list[object]:
    """Everything that a lowering says, tensors numbered as they come."""
    numbers: dict[int, int] = {id(t): i for i, t in enumerate(stage.inputs.values())}

    def number(t: p.Tensor) -> object:
        if t.const is not None:
            return t.dtype, t.shape, t.const.tobytes(), t.sized
        return numbers.setdefault(id(t), len(numbers)), t.dtype, t.shape

    said: list[object] = [
        (type(q), q.origin, q.attributes(), [number(t) for t in q.inputs], [number(t) for t in q.outputs])
        for q in stage.prims
    ]
    return [*said, *[number(stage.env[v]) for v in graph.outputs]]


@pytest.mark.parametrize("build", [layers, views, attention], ids=lambda f: f.__name__)
def test_the_same_primitives(build: object) -> None:
    graph = build()  # type: ignore[operator]
    shapes = {v.name: tuple({"n": 2, "s": 40}.get(str(d), d) for d in v.shape) for v in graph.inputs}
    assert told(lowered(graph, True, shapes), graph) == told(lowered(graph, False, shapes), graph)


def test_alike_nodes_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = []
    follow = recipes.Recipe.follow
    monkeypatch.setattr(
        recipes.Recipe, "follow", lambda self, b, given: followed.append(b.where) or follow(self, b, given)
    )
    lowered(layers(), True, {"x": (1, 128, 9, 9)})
    assert followed == [
        "Convolution 'conv1'", "Pooling 'pool1'", "BinaryOp 'gate1'", "BinaryOp 'sum1'",
        "Pooling 'pool2'", "BinaryOp 'gate2'", "BinaryOp 'sum2'",
        "Convolution 'conv3'", "Pooling 'pool3'", "BinaryOp 'gate3'",
    ]  # fmt: skip
