from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from MNN.ir.graph import Value
from tests.passes.build import Maker, fires, noise_for, ops, stays

Build = Callable[[Maker, Value], Value]

NOTHING: dict[str, Build] = {
    "identity": lambda m, x: m.op("Identity", x),
    "reshape": lambda m, x: m.op("Reshape", x, m.ints(2, 3, 4, 5)),
    "reshape-copies": lambda m, x: m.op("Reshape", x, m.ints(0, 3, -1, 0)),
    "permute": lambda m, x: m.op("Permute", x, dims=[0, 1, 2, 3]),
    "slice": lambda m, x: m.op("StridedSlice", x, m.ints(0, 0), m.ints(99, 5), m.ints(1, -1), m.ints(1, 1), fromType=1),
    "pad": lambda m, x: m.op("Padding", x, m.ints(*[0] * 8), mode="CONSTANT"),
    "broadcast": lambda m, x: m.op("BroadcastTo", x, m.ints(3, 1, 5)),
    "tile": lambda m, x: m.op("Tile", x, m.ints(1, 1, 1, 1)),
    "concat": lambda m, x: m.op("Concat", x, axis=1),
    "times one": lambda m, x: m.binary("MUL", m.const(np.ones((3, 1, 1))), x),
    "over one": lambda m, x: m.binary("REALDIV", x, m.const([1.0])),
    "plus zero": lambda m, x: m.binary("ADD", x, 0.0),
    "minus zero": lambda m, x: m.binary("SUB", x, 0.0),
    "power one": lambda m, x: m.binary("POW", x, 1.0),
}
SOMETHING: dict[str, Build] = {
    "reshape": lambda m, x: m.op("Reshape", x, m.ints(3, 2, 4, 5)),
    "flip": lambda m, x: m.op("StridedSlice", x, m.ints(-1), m.ints(-99), m.ints(1), m.ints(-1), fromType=1),
    "step": lambda m, x: m.op("StridedSlice", x, m.ints(0), m.ints(99), m.ints(1), m.ints(2), fromType=1),
    "short": lambda m, x: m.op("StridedSlice", x, m.ints(0), m.ints(2), m.ints(1), fromType=1),
    "broadcast": lambda m, x: m.op("BroadcastTo", x, m.ints(1, 2, 3, 4, 5)),
    "times one, wider": lambda m, x: m.binary("MUL", x, m.const(np.ones((6, 1, 1, 1, 1)))),
    "zero minus": lambda m, x: m.binary("SUB", m.const(0.0), x),
    "one over": lambda m, x: m.binary("REALDIV", m.const(1.0), x),
    "axis of one": lambda m, x: m.op("Unsqueeze", x, squeezeDims=[0]),
    "with ReLU": lambda m, x: m.op("BinaryOp", x, m.const(0.0), opType="ADD", activationType=1),
}


@pytest.mark.parametrize("name", NOTHING)
def test_goes(name: str) -> None:
    m = Maker()
    inner = m.op("TanH", m.input(2, 3, 4, 5))
    graph = m.done(NOTHING[name](m, inner))
    after = fires("identity-removal", graph)
    assert ops(after) == ["TanH"]


@pytest.mark.parametrize("name", SOMETHING)
def test_stays(name: str) -> None:
    m = Maker()
    inner = m.op("TanH", m.input(2, 3, 4, 5))
    stays("identity-removal", m.done(m.op("TanH", SOMETHING[name](m, inner))))


def test_names_of_outputs_survive() -> None:
    m = Maker()
    x = m.input(2)
    y = m.op("TanH", x)
    both = m.done(m.op("Identity", y), m.op("Identity", y))
    after = fires("identity-removal", both)
    assert ops(after) == ["TanH", "Identity"]  # one name for the value, the other one still needs a node


def test_input_and_constant_outputs_stay() -> None:
    m = Maker()
    stays("identity-removal", m.done(m.op("Identity", m.input(2)), m.op("Identity", m.noise(3))))


def test_same_names_are_same_sizes() -> None:
    m = Maker()
    x = m.input("batch", "n", 4)
    y = m.op("TanH", x)
    shape = m.op("Shape", x, outputDataType="DT_INT64")
    graph = m.done(m.op("BroadcastTo", m.op("Reshape", y, shape), shape))
    assert ops(fires("identity-removal", graph, feeds=noise_for(graph, batch=2)))[-1] in ("TanH", "Shape")
