"""Branches that are selected from: right whichever way the condition goes, and left out by the native loop where nobody
needs them."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.base.registry import backend
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.passes.build import Maker

DEPTH = 24


def tower(m: Maker, x: Value, rng: np.random.Generator) -> Value:
    """Layers that only one side needs, with sums, reshapes and products of their own."""
    for _ in range(int(rng.integers(1, 4))):
        kind = rng.choice(["product", "shape", "mean", "exp"])
        if kind == "product":
            x = m.op("ReLU", m.op("MatMul", x, m.noise(DEPTH, DEPTH)))
        elif kind == "shape":
            cut = m.op("Permute", m.op("Reshape", x, m.ints(2, 3, 8)), dims=[0, 2, 1])
            x = m.op("Reshape", cut, m.ints(2, DEPTH))
        elif kind == "mean":
            x = m.binary("SUB", x, m.op("Reduction", x, operation="MEAN", dim=[1], keepDims=True))
        else:
            x = m.op("UnaryOp", x, opType="TANH")
    return m.op("MatMul", x, m.noise(DEPTH, DEPTH)) if rng.random() < 0.7 else x


def drawn(seed: int) -> Graph:
    """Selections, within each other or one behind the other, of towers that share a trunk or not."""
    rng, m = np.random.default_rng(seed), Maker(seed)
    x = m.input(2, DEPTH)
    flags = [m.input(1, 1, name=f"flag{i}", dtype=DType.BOOL) for i in range(2)]
    score = m.op("Reduction", m.op("MatMul", x, m.noise(DEPTH, 1)), operation="SUM", dim=[0, 1], keepDims=True)
    flags.append(m.binary("GREATER", score, 0.0))
    trunk = m.op("ReLU", m.op("MatMul", x, m.noise(DEPTH, DEPTH)))
    outputs = []
    current = trunk
    for _ in range(int(rng.integers(1, 4))):
        starts = [x, trunk, current]
        left, right = (tower(m, starts[rng.integers(3)], rng) for _ in range(2))
        if rng.random() < 0.3:  # both conditions need it
            right = m.binary("ADD", right, left)
        if rng.random() < 0.3:
            outputs.append(left)  # whatever the condition
        current = m.op("Select", flags[rng.integers(3)], left, right)
    return m.done(current, *dict.fromkeys(outputs))


def feeds(rng: np.random.Generator) -> dict[str, np.ndarray]:
    named = {f"flag{i}": rng.random((1, 1)) < 0.5 for i in range(2)}
    return {"x": rng.standard_normal((2, DEPTH)).astype(np.float32), **named}


@pytest.mark.parametrize("seed", [101, 128, 171, 1144, 1, 2, 3, 4])
@pytest.mark.parametrize("threads", [1, 2])
def test_selections_of_towers(seed: int, threads: int) -> None:
    graph, rng = drawn(seed), np.random.default_rng(seed)
    session, reference = Session(graph, Config(threads=threads)), Session(graph, Config(reference=True))
    for _ in range(6):
        given = feeds(rng)
        found, wanted = session.run(given), reference.run(given)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4, err_msg=name)


def one_selection() -> Graph:
    m = Maker(3)
    x = m.input(2, DEPTH)
    flag = m.input(1, 1, name="flag", dtype=DType.BOOL)
    sides = []
    for _ in range(2):
        y = m.op("Softmax", m.op("MatMul", x, m.noise(DEPTH, DEPTH)), axis=1)
        sides.append(m.op("Softmax", m.op("MatMul", y, m.noise(DEPTH, DEPTH)), axis=1))
    return m.done(m.op("Select", flag, *sides))


def test_indices_of_what_is_left_out_are_not_used() -> None:
    """What one side computes shares no kernel with the selection where it could fail on numbers that mean nothing."""
    m = Maker(4)
    x = m.input(2, DEPTH)
    flag = m.input(1, 1, name="flag", dtype=DType.BOOL)
    best = m.op("ArgMax", m.op("MatMul", x, m.noise(DEPTH, DEPTH)), axis=1)
    row = m.op("GatherV2", m.noise(DEPTH, DEPTH), m.op("Reshape", best, m.ints(2)), m.ints(0))
    graph = m.done(m.op("Select", flag, row, x))
    session, reference = Session(graph, Config()), Session(graph, Config(reference=True))
    rng = np.random.default_rng(1)
    for said in (False, True, False, True):
        given = {"x": rng.standard_normal((2, DEPTH)).astype(np.float32), "flag": np.full((1, 1), said)}
        (found,), (wanted,) = session.run(given).values(), reference.run(given).values()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_is_left_out_does_not_run() -> None:
    session = Session(one_selection(), Config())
    given = {"x": np.random.default_rng(0).standard_normal((2, DEPTH)).astype(np.float32)}
    for said in (True, False):
        session.run({**given, "flag": np.full((1, 1), said)})
        (plan,) = session.plans_used()
        (part,) = plan.bound.parts()
        times = np.min([part.profile(1) for _ in range(20)], axis=0)
        ran: dict[bool, list[float]] = {True: [], False: []}
        for time, command in zip(times, part.program.commands, strict=True):
            if command.condition is not None:
                ran[command.condition[1] is said].append(time)
        assert ran[True]
        assert max(ran[False]) < max(ran[True]), ran


def test_conditions_are_stored_with_the_program() -> None:
    session = Session(one_selection(), Config())
    given = {"x": np.zeros((2, DEPTH), np.float32), "flag": np.ones((1, 1), bool)}
    session.run(given)
    (plan,) = session.plans_used()
    program = plan.bound.program
    portable = backend("cpu", True).portable(program)
    assert [c.condition for c in portable.commands] == [c.condition for c in program.commands]
    assert any(c.condition for c in portable.commands)
