from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.ops.custom import CustomOperator, register_operator, registered_operator, unregister_operator
from MNN.passes.folding.constant_folding import run
from tests.passes.build import Maker, fires, ops, stays


def test_folds_chains_and_keeps_names() -> None:
    m = Maker()
    x = m.input(2, 3)
    c = m.op("UnaryOp", m.binary("MUL", m.noise(2, 3), 2.0), opType="EXP")
    graph = m.done(m.binary("ADD", x, c), c)
    after = fires("constant-folding", graph)
    assert ops(after) == ["ADD"]
    assert after.outputs[1].is_const


def test_folds_inside_subgraphs() -> None:
    m = Maker()
    flag = m.input(1, name="flag")
    condition = m.binary("GREATER", flag, 0.0)
    branches = {}
    for key in ("then_graph", "else_graph"):
        out = Value(f"{key}/out")
        two = Node("BinaryOp", f"{key}/two", [m.noise(3), m.noise(3)], [out], {"opType": "ADD"})
        branches[key] = Graph(key, [], [out], [two])
    graph = m.done(m.op("If", condition, **branches))
    after = fires("constant-folding", graph, feeds={"flag": np.ones(1, np.float32)})
    assert not any(sub.nodes for n in after.nodes for _, sub in n.subgraphs())


def test_leaves_results_that_make_the_file_larger() -> None:
    m = Maker()
    x = m.input(1)
    big = m.op("Fill", m.ints(1024, 1024), m.const(1.0))
    stays("constant-folding", m.done(m.binary("ADD", x, big)))


def test_never_allocates_absurd_sizes() -> None:
    m = Maker()
    x = m.input(1)
    huge = m.op("Reduction", m.op("Fill", m.ints(1 << 20, 1 << 19), m.const(1.0)), operation="SUM", keepDims=False)
    graph = m.done(m.binary("ADD", x, m.op("Shape", huge)))
    run(graph)
    assert "Fill" in ops(graph)


def test_leaves_random_numbers_and_variables() -> None:
    m = Maker()
    m.input(1)
    graph = m.done(m.op("RandomUniform", m.ints(2, 2), low=0.0, high=1.0))
    assert run(graph) == 0
    assert ops(graph) == ["RandomUniform"]


def test_leaves_operators_of_the_users() -> None:
    calls = []

    class CountedCalls(CustomOperator):
        domain = "com.example"

        def compute(self, attributes, x):  # type: ignore[no-untyped-def]
            calls.append(1)
            return x

    register_operator(CountedCalls)
    try:
        registered = registered_operator("CountedCalls", "com.example", 1)
        assert registered is not None
        m = Maker()
        m.input(1)
        assert run(m.done(m.op(registered.op, m.noise(3)))) == 0
        assert not calls
    finally:
        unregister_operator("CountedCalls", "com.example")
