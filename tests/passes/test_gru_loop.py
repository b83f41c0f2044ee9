"""A loop written as a GRU or a plain recurrent layer becomes one; a loop that differs in anything stays a loop."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.passes.arranging.shape_propagation import run as propagate
from tests.passes.build import Maker, apply, fires, ops

WIDTH, HIDDEN, STEPS = 3, 2, 5


class Loop:
    """A loop spelled at random; ``change`` makes it one that is no layer."""

    def __init__(self, seed: int, kind: str, change: str = "") -> None:
        self.m, self.body, self.change = Maker(seed), Maker(seed + 1), change
        self.rng = np.random.default_rng(seed)
        x = self.m.input(STEPS, "batch", WIDTH, name="x")
        h = self.m.input("batch", HIDDEN, name="h")
        end = self.m.const(STEPS, np.int32)
        b = self.body
        b.input(name="turn", dtype=DType.I64)
        b.input(name="going", dtype=DType.BOOL)
        at, old = b.input(name="at", dtype=DType.I32), b.input("batch", HIDDEN, name="old")
        step = b.op("GatherV2", x, at, b.const(0, np.int32))
        new = self.plain(step, old) if kind == "RNN" else self.gru(step, old, after=kind == "GRU after")
        after = b.binary("ADD", at, b.const(1, np.int32))
        b.graph.outputs = [b.binary("LESS", after, end), after, new, b.op("ReLU", new) if change == "relu out" else new]
        propagate(b.graph)
        zero = self.m.const(0, np.int32)
        outputs = self.m.ops("Loop", 3, None, self.m.const(True, np.bool_), zero, h, body=b.graph)
        self.graph = self.m.done(*outputs[1:])

    def pair(self, kind: str, x: Value, y: Value) -> Value:
        """A sum or product with its operands in any order."""
        return self.body.binary(kind, *((x, y) if self.rng.integers(2) else (y, x)))

    def act(self, kind: str, x: Value) -> Value:
        b = self.body
        if kind == "relu":
            return b.op("ReLU", x)
        one = b.op(kind, x) if self.rng.integers(2) else b.op("UnaryOp", x, opType=kind.upper())
        return one

    def products(self, x: Value, count: int, bias: bool = True) -> list[Value]:
        """``x @ w + b`` for several gates: of one product that is cut in one of the known ways, or of several."""
        b, width = self.body, int(x.shape[1]) if x.shape and isinstance(x.shape[1], int) else WIDTH

        def product(columns: int) -> Value:
            flipped = bool(self.rng.integers(2))
            w = b.noise(columns, width) if flipped else b.noise(width, columns)
            way = self.rng.integers(3) if bias else 0
            if way == 1:
                return b.op("MatMul", x, w, b.noise(columns), transposeB=flipped)
            y = b.op("MatMul", x, w, transposeB=flipped)
            return self.pair("ADD", y, b.noise(columns)) if way == 2 else y

        way = self.rng.integers(4)
        if way == 0:
            return [product(HIDDEN) for _ in range(count)]
        whole = product(count * HIDDEN)
        whole.shape = ("batch", count * HIDDEN)
        if way == 1:
            return b.ops("Slice", count, whole, axis=1, sourceType="TORCH")
        if way == 2:
            i32 = [np.int32([[0, k * HIDDEN], [0, (k + 1) * HIDDEN], [1, 1]]) for k in range(count)]
            return [
                b.op("StridedSlice", whole, *(b.const(r, np.int32) for r in a), beginMask=1, endMask=1) for a in i32
            ]
        return [
            b.op("StridedSlice", whole, b.ints(k * HIDDEN), b.ints((k + 1) * HIDDEN), b.ints(1), b.ints(1), fromType=1)
            for k in range(count)
        ]

    def plain(self, step: Value, old: Value) -> Value:
        step.shape = ("batch", WIDTH)
        (x,), (h,) = self.products(step, 1), self.products(old, 1)
        if self.change == "scaled":
            h = self.body.binary("MUL", h, self.body.const(0.5))
        return self.act(str(self.rng.choice(["TanH", "Sigmoid", "relu"])), self.pair("ADD", x, h))

    def gru(self, step: Value, old: Value, after: bool) -> Value:
        b, change = self.body, self.change
        step.shape = ("batch", WIDTH)
        xz, xr, xn = self.products(step, 3)
        recurrent = self.products(old, 3 if after else 2)
        gate = str(self.rng.choice(["Sigmoid", "TanH"]))
        z, r = self.act(gate, self.pair("ADD", xz, recurrent[0])), self.act(gate, self.pair("ADD", xr, recurrent[1]))
        if after:
            entering = self.pair("MUL", r, recurrent[2])
        else:
            scaled = self.pair("MUL", r, xr if change == "other factor" else old)
            scaled.shape = ("batch", HIDDEN)
            (entering,) = self.products(scaled, 1)
        fresh = self.act(str(self.rng.choice(["TanH", "relu"])), self.pair("ADD", xn, entering))
        rest = b.binary("SUB", b.const(2.0 if change == "two less" else 1.0), r if change == "rest of reset" else z)
        return self.pair("ADD", self.pair("MUL", z, old), self.pair("MUL", rest, fresh))


@pytest.mark.parametrize("kind", ["RNN", "GRU after", "GRU before"])
@pytest.mark.parametrize("seed", range(12))
def test_layers(kind: str, seed: int) -> None:
    loop = Loop(seed, kind)
    feeds = {
        "x": loop.rng.standard_normal((STEPS, 4, WIDTH)).astype(np.float32),
        "h": loop.rng.standard_normal((4, HIDDEN)).astype(np.float32),
    }
    after = fires("gru-loop", loop.graph, feeds=feeds)
    assert ops(after) == ["Unsqueeze", f"Onnx{kind[:3]}", "Squeeze", "Squeeze"]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("RNN", "scaled"),
        ("RNN", "relu out"),
        ("GRU before", "other factor"),
        ("GRU before", "rest of reset"),
        ("GRU before", "two less"),
        ("GRU after", "rest of reset"),
        ("GRU after", "two less"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_other_loops_stay(kind: str, change: str, seed: int) -> None:
    graph: Graph = Loop(seed, kind, change).graph
    feeds = {"x": np.ones((STEPS, 4, WIDTH), np.float32), "h": np.ones((4, HIDDEN), np.float32)}
    changes, after = apply("gru-loop", graph, feeds)
    assert changes == 0
    assert ops(after) == ["Loop"]
