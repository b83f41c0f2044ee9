"""A loop written as an LSTM becomes one; a loop that differs in anything stays a loop."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.passes.arranging.shape_propagation import run as propagate
from MNN.passes.manager import passes
from tests.harness import run_reference
from tests.passes.build import Maker, apply, fires, ops

WIDTH, HIDDEN = 3, 2


class Loop:
    """An LSTM's loop, spelled at random; ``change`` makes it one that is none."""

    def __init__(self, seed: int, change: str = "", steps: int | str = 5) -> None:
        self.m, self.body, self.change = Maker(seed), Maker(seed + 1), change
        self.rng = np.random.default_rng(seed)
        x = self.m.input(steps, "batch", WIDTH, name="x")
        many = "many" if change == "states of any number" else "batch"
        h, c = (self.m.input(many, HIDDEN, name=n) for n in ("h", "c"))
        if steps != "steps":
            end: Value = self.m.const(5 - (change == "fewer turns"), np.int32)
        else:
            shape = self.m.op("Shape", h if change == "other length" else x)
            end = self.m.op("GatherV2", shape, self.m.const(0, np.int32), self.m.const(0, np.int32))
            shape.dtype = end.dtype = DType.I32
        zero = self.m.const(1 if change == "starts late" else 0, np.int32)
        going = self.m.binary("LESS", self.m.const(0, np.int32), end)
        body = self._body(x, end)
        operands = [None, going, zero, h, c]
        outputs = self.m.ops("Loop", 4, *operands, body=body)
        count = [outputs[0]] if change == "count used" else []
        self.graph = self.m.done(*outputs[1:], *count)

    def add(self, kind: str, x: Value, y: Value) -> Value:
        """A sum or product with its operands in any order."""
        return self.body.binary(kind, *((x, y) if self.rng.integers(2) else (y, x)))

    def _body(self, x: Value, end: Value) -> Graph:
        b, change = self.body, self.change
        b.input(name="turn", dtype=DType.I64)
        b.input(name="going", dtype=DType.BOOL)
        at = b.input(name="at", dtype=DType.I32)
        h, c = (b.input("batch", HIDDEN, name=n) for n in ("old_h", "old_c"))
        step = b.op("GatherV2", x, at, b.const(0, np.int32))
        terms = [b.op("MatMul", step, b.noise(WIDTH, 4 * HIDDEN)), b.op("MatMul", h, b.noise(HIDDEN, 4 * HIDDEN))]
        if self.rng.integers(2) or change == "bias of one":
            terms.append(b.noise(1) if change == "bias of one" else b.noise(4 * HIDDEN))
        first, *rest = (terms[i] for i in self.rng.permutation(len(terms)))
        for term in rest:
            first = self.add("SUB" if change == "difference" else "ADD", first, term)
        pieces = b.ops("Slice", 4, first, axis=1, sourceType="TORCH")
        i, o, f, g = (pieces[k] for k in self.rng.permutation(4))
        if change == "gate twice":
            f = i
        hard = "TanH" if change == "activation" else "Sigmoid"
        i, o, f = b.op(hard, i), b.op("Sigmoid", o), b.op("Sigmoid", f)
        g = b.op("TanH", g)
        kept = self.add("MUL", f, h if change == "old output kept" else c)
        new = self.add("SUB" if change == "cell less" else "ADD", kept, self.add("MUL", i, g))
        out = self.add("MUL", o, b.op("TanH", c if change == "old cell shown" else new))
        after = b.binary("ADD", at, b.const(2 if change == "every second" else 1, np.int32))
        going = b.binary("LESSEQUAL" if change == "one more" else "LESS", at if change == "late end" else after, end)
        if change == "stops early":
            small = b.binary("LESS", b.op("Reduction", new, operation="SUM", dim=[0, 1], keepDims=False), 0.1)
            going = b.binary("MUL", going, small)
        shown = new if change == "cells listed" else out
        b.graph.outputs = [going, after, out, new, shown]
        if change == "clipped":
            b.graph.outputs[3] = b.op("ReLU6", new)
        propagate(b.graph)
        return b.graph


FEEDS = {"x": (5, 3, WIDTH), "h": (3, HIDDEN), "c": (3, HIDDEN)}


def feeds(seed: int, steps: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = FEEDS | {"x": (steps, 3, WIDTH)}
    return {k: rng.normal(0, 1, s).astype(np.float32) for k, s in sizes.items()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("steps", [5, "steps"])
def test_every_order_of_gates_and_operands(seed: int, steps: int | str) -> None:
    graph = Loop(seed, steps=steps).graph
    after = fires("lstm-loop", graph, feeds=feeds(seed))
    assert "Loop" not in ops(after)
    assert ops(after).count("OnnxLSTM") == 1


def test_a_sequence_without_steps() -> None:
    """The loop itself knows no size of what it lists in no turn."""
    after = fires("lstm-loop", Loop(3, steps="steps").graph, feeds=feeds(3))
    given = feeds(4, steps=0)
    h, c, listed = run_reference(after, given)
    np.testing.assert_array_equal(h, given["h"])
    np.testing.assert_array_equal(c, given["c"])
    assert np.shape(listed) == (0, 3, HIDDEN)


CHANGES = [
    "fewer turns", "starts late", "count used", "difference", "gate twice", "activation", "old output kept",
    "cell less", "old cell shown", "one more", "stops early", "cells listed", "clipped", "bias of one",
    "every second", "late end", "states of any number",
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_loop_that_differs_stays(change: str) -> None:
    graph = Loop(CHANGES.index(change) % 6, change).graph
    if change in ("one more", "late end"):  # reads past its sequence, which is an error or a clamp when it runs
        assert passes()["lstm-loop"].run(graph) == 0
        return
    changes, after = apply("lstm-loop", graph, feeds(1))
    assert changes == 0
    assert "Loop" in ops(after)


def test_the_length_of_something_else_stays() -> None:
    graph = Loop(2, "other length", "steps").graph
    changes, _ = apply("lstm-loop", graph, feeds(2))
    assert changes == 0
