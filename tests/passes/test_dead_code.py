from __future__ import annotations

from MNN.ir.graph import Graph, Node, Value
from tests.passes.build import Maker, fires, ops, stays


def test_removes_what_nothing_uses() -> None:
    m = Maker()
    x = m.input(2, 3)
    m.op("ReLU", m.binary("ADD", x, 1.0))
    after = fires("dead-code", m.done(m.op("TanH", x)))
    assert ops(after) == ["TanH"]


def test_keeps_inputs_outputs_and_captured_values() -> None:
    m = Maker()
    flag, x = m.input(1, name="flag"), m.input(3)
    m.input(5, name="unused")
    captured = m.op("ReLU", x)
    branches = {}
    for key in ("then_graph", "else_graph"):
        out = Value(f"{key}/out")
        branches[key] = Graph(key, [], [out], [Node("TanH", f"{key}/t", [captured], [out])])
    stays("dead-code", m.done(m.op("If", m.binary("GREATER", flag, 0.0), **branches)))


def test_one_used_output_keeps_the_node() -> None:
    m = Maker()
    x = m.input(4, 3)
    _, second = m.ops("Slice", 2, x, axis=0, slicePoints=[1, 3], sourceType="TORCH")
    stays("dead-code", m.done(second))
