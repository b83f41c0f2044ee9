"""Loops carry no more than they need: constants of the loop, lists that are written in order, views of other values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.passes.manager import passes
from tests.harness import run_reference
from tests.passes.build import Maker, apply, fires, ops

WIDTH = 3
Turn = Callable[["Loop", Value, Value], Value]


class Loop:
    """``h = tanh(h + x[t])`` for ``turns`` turns over ``x[rows]``, and one more carried value, which ``turn`` gives."""

    def __init__(self, first: np.ndarray | None, turn: Turn, turns: int = 4, rows: int = 4, from_: int = 0) -> None:
        self.m, self.body = Maker(1), Maker(2)
        self.x = self.m.input(rows, WIDTH, name="x")
        h = self.m.input(WIDTH, name="h")
        more = self.m.input(rows, WIDTH, name="list") if first is None else self.m.const(first)
        start = self.m.const(from_, np.int32)
        body = self._body(more, turn, self.body.const(turns, np.int32))
        outputs = self.m.ops("Loop", 3, None, self.m.const(True, np.bool_), start, h, more, body=body)
        self.graph = self.m.done(*outputs[1:])

    def _body(self, first: Value, turn: Turn, end: Value) -> Graph:
        b = self.body
        b.input(name="turn", dtype=DType.I64)
        b.input(name="going", dtype=DType.BOOL)
        self.at = b.input(name="at", dtype=DType.I32)
        h = b.input(WIDTH, name="old")
        assert first.shape is not None
        carried = b.input(*first.shape, name="carried")
        step = b.op("GatherV2", self.x, self.at, b.const(0, np.int32))
        new = b.op("TanH", b.binary("ADD", h, step))
        new.dtype, new.shape = DType.F32, (WIDTH,)
        self.after = b.binary("ADD", self.at, b.const(1, np.int32))
        made = turn(self, carried, new)
        going = b.binary("LESS", self.after, end)
        going.dtype = DType.BOOL
        b.graph.outputs = [going, self.after, new, made]
        return b.graph

    def shaped(self, value: Value, *shape: int) -> Value:
        made = self.body.op("Reshape", value, self.body.ints(*shape))
        made.dtype, made.shape = value.dtype, shape
        return made

    def row(self, value: Value) -> Value:
        return self.shaped(self.body.op("GatherV2", value, self.at, self.body.const(0, np.int32)), WIDTH)

    def squared(self, value: Value) -> Value:
        made = self.body.op("UnaryOp", value, opType="SQUARE")
        made.dtype, made.shape = value.dtype, value.shape
        return made

    def written(self, carried: Value, item: Value, at: Value | None = None) -> Value:
        """One element of a list, as TensorFlow's front end writes it."""
        place = self.shaped(self.at if at is None else at, 1, 1)
        return self.body.op("ScatterNd", place, self.shaped(item, 1, WIDTH), self.body.op("Shape", carried), carried)

    def joined(self, carried: Value, item: Value, behind: Value | None = None) -> Value:
        """One element of a list, as files for TensorFlow Lite write it."""
        b, start = self.body, self.after if behind is None else behind

        def number(value: Value, rest: int) -> Value:
            return b.op("Concat", self.shaped(value, 1), b.const([rest], np.int32), axis=0)

        low = b.op("SliceTf", carried, b.const([0, 0], np.int32), number(self.at, -1))
        high = b.op("SliceTf", carried, number(start, 0), b.const([-1, -1], np.int32))
        return b.op("Concat", low, self.shaped(item, 1, WIDTH), high, axis=0)


def given(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {v.name: rng.normal(0, 1, v.shape).astype(np.float32) for v in graph.inputs}


def loop_of(graph: Graph) -> Node:
    return next(n for n in graph.nodes if n.op == "Loop")


ROWS = np.zeros((4, WIDTH), np.float32)
LIGHTER: dict[str, Loop] = {
    "constant": Loop(ROWS, lambda loop, v, h: v),
    "a copy": Loop(None, lambda loop, v, h: loop.body.op("Identity", v)),
    "list": Loop(None, lambda loop, v, h: loop.written(v, h)),
    "list of something else": Loop(None, lambda loop, v, h: loop.written(v, loop.squared(h))),
    "joined list": Loop(None, lambda loop, v, h: loop.joined(v, h)),
    "row": Loop(np.ones((1, WIDTH), np.float32), lambda loop, v, h: loop.shaped(h, 1, WIDTH)),
}


@pytest.mark.parametrize("name", LIGHTER)
def test_values_need_not_be_carried(name: str) -> None:
    graph = LIGHTER[name].graph
    after = fires("loop-values", graph, feeds=given(graph))
    assert len(loop_of(after).inputs) == 4  # most turns, a condition, the counter and h
    assert "ScatterNd" not in ops(after)


STAYS: dict[str, Loop] = {
    "fewer turns": Loop(None, lambda loop, v, h: loop.written(v, h), turns=3),
    "from the second": Loop(None, lambda loop, v, h: loop.written(v, h), from_=1),
    "always the first": Loop(None, lambda loop, v, h: loop.written(v, h, loop.body.const(0, np.int32))),
    "one place on": Loop(None, lambda loop, v, h: loop.joined(v, h, loop.at)),
    "asked for": Loop(None, lambda loop, v, h: loop.written(v, loop.row(v))),
    "in the end": Loop(None, lambda loop, v, h: loop.body.binary("ADD", loop.written(v, h), 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_values_that_turns_change_in_other_ways_stay(name: str) -> None:
    graph = STAYS[name].graph
    changes, after = apply("loop-values", graph, given(graph))
    assert changes == 0
    assert len(loop_of(after).inputs) == 5


def test_a_row_that_no_turn_may_write_stays() -> None:
    """The condition is computed: where it is false at once, the row is what it was in the beginning."""
    loop = Loop(np.ones((1, WIDTH), np.float32), lambda loop, v, h: loop.shaped(h, 1, WIDTH))
    node = loop_of(loop.graph)
    numbers = given(loop.graph)
    flag = loop.m.input(name="flag", dtype=DType.BOOL)
    node.inputs[1] = flag
    assert passes()["loop-values"].run(loop.graph) == 0
    _, row = run_reference(loop.graph, {**numbers, "flag": np.asarray(False)})
    np.testing.assert_array_equal(row, np.ones((1, WIDTH)))
