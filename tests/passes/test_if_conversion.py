from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.passes.arranging.if_conversion import PASS, WORK
from MNN.passes.arranging.shape_propagation import run as propagate
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.passes.build import Maker, clone, fires, ops, stays


def branch(m: Maker, seed: int, x: Value, width: int, kind: str = "ReLU") -> Graph:
    """A layer on a value from outside; its own values are called as those of other branches are."""
    inner = Maker(seed)
    y = inner.op("MatMul", x, inner.noise(8, width))
    made = {
        "ReLU": lambda: inner.op("ReLU", y),
        "EXP": lambda: inner.op("UnaryOp", y, opType="EXP"),
        "drawn": lambda: inner.op("RandomUniform", inner.ints(2, width)),
    }[kind]()
    inner.graph.outputs = [made]
    propagate(inner.graph)
    return inner.graph


def chosen(computed: bool = True, width: int = 5, kind: str = "ReLU") -> Graph:
    """``x @ a`` if its first product with ``b`` is positive, else ``x @ c``."""
    m = Maker()
    x = m.input(2, 8)
    if computed:
        start = m.op("MatMul", x, m.noise(8, 1))
        score = m.op("Reduction", start, operation="SUM", dim=[0, 1], keepDims=False)
        condition = m.binary("GREATER", score, 0.0)
    else:
        condition = m.input(name="flag", dtype=DType.BOOL)
    then, other = branch(m, 1, x, width, kind), branch(m, 2, x, width)
    return m.done(m.op("If", condition, then_graph=then, else_graph=other))


def test_both_branches_are_taken() -> None:
    before = chosen()
    after = clone(before)
    assert PASS.run(after) > 0
    assert "If" not in ops(after)
    sessions, rng = [Session(g, Config()) for g in (before, after)], np.random.default_rng(0)
    seen = set()
    for _ in range(20):
        x = rng.standard_normal((2, 8)).astype(np.float32)
        wanted, found = (next(iter(s.run({"x": x}).values())) for s in sessions)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        weight = next(n.inputs[1] for n in before.nodes if n.op == "MatMul")
        assert weight is not None
        seen.add(bool((x @ weight.data).sum() > 0))
    assert seen == {True, False}


def test_what_is_not_taken_may_be_no_number() -> None:
    """An infinity of the branch that is not taken stays there."""
    before = chosen(kind="EXP")
    graph = fires("if-conversion", before)
    assert ops(graph).count("Select") == 1
    x = np.random.default_rng(3).standard_normal((2, 8)).astype(np.float32) * 1e3
    for given in (x, -x):
        wanted, found = (next(iter(Session(g, Config()).run({"x": given}).values())) for g in (before, graph))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("reason", ["a flag decides", "large", "drawn"])
def test_stays(reason: str) -> None:
    if reason == "a flag decides":
        stays("if-conversion", chosen(computed=False))
    elif reason == "large":
        stays("if-conversion", chosen(width=WORK // 16))
    else:
        stays("if-conversion", chosen(kind="drawn"))
