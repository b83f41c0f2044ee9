from __future__ import annotations

import numpy as np

from MNN.passes.removing.duplicate_removal import run
from tests.passes.build import Maker, fires, ops, stays


def test_equal_nodes_and_constants_become_one() -> None:
    m = Maker()
    x = m.input(2, 3)
    a = m.binary("ADD", x, m.const([1, 2, 3]))
    b = m.binary("ADD", x, m.const([1, 2, 3]))
    after = fires("duplicate-removal", m.done(m.binary("MUL", a, b)))
    assert ops(after) == ["ADD", "MUL"]


def test_attributes_and_operands_count() -> None:
    m = Maker()
    x = m.input(2, 3)
    a, b = m.op("Softmax", x, axis=0), m.op("Softmax", x, axis=1)
    c, d = m.binary("SUB", a, b), m.binary("SUB", b, a)
    stays("duplicate-removal", m.done(m.binary("ADD", c, d)))


def test_graph_outputs_keep_their_names() -> None:
    m = Maker()
    x = m.input(2, 3)
    stays("duplicate-removal", m.done(m.op("ReLU", x), m.op("ReLU", x)))


def test_random_numbers_differ() -> None:
    m = Maker()
    m.input(1)
    a, b = (m.op("RandomUniform", m.ints(2, 2), low=0.0, high=1.0) for _ in range(2))
    graph = m.done(m.binary("SUB", a, b))
    assert ops(graph).count("RandomUniform") == 2
    run(graph)
    assert ops(graph).count("RandomUniform") == 2


def test_zeros_of_both_signs_and_types_differ() -> None:
    m = Maker()
    x = m.input(2)
    a = m.binary("DIV", x, m.const([0.0, 1.0]))
    b = m.binary("DIV", x, m.const([-0.0, 1.0]))
    c = m.op("Cast", x, dstT="DT_INT32")
    d = m.binary("ADD", c, m.const([1, 1], np.int32))
    graph = m.done(a, b, d)
    assert run(graph) == 0


def test_large_constants_are_compared_whole() -> None:
    m = Maker()
    x = m.input(4096)
    first = np.ones(4096, np.float32)
    second = first.copy()
    second[4095 - 7] = 2
    a, b = m.binary("MUL", x, m.const(first)), m.binary("MUL", x, m.const(second))
    stays("duplicate-removal", m.done(m.binary("ADD", a, b)))
