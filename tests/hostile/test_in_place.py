"""What sessions promise where results are written over operands: inputs, what is fetched and what is captured stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from MNN.compiler import in_place
from MNN.frontends.onnx.load import load
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.hostile.models import BOOL, F32, I64, Net, _subgraph

WIDTH, ROWS = 96, 64
"""Inputs of this size are read where the caller has them."""


def layers(net: Net, x: str, count: int) -> list[str]:
    """Products behind one another, each added to what it was made of."""
    found = []
    for _ in range(count):
        y = net.op("MatMul", net.op("Relu", net.op("MatMul", x, net.noise(WIDTH, WIDTH))), net.noise(WIDTH, WIDTH))
        x = net.op("Tanh", net.op("Add", y, x))
        found.append(x)
    return found


def numbers() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_inputs_and_what_is_fetched_stay(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(5)
    inner = layers(net, "x", 4)
    model = net.model({"x": (F32, [ROWS, WIDTH])}, {inner[-1]: F32})
    x = numbers()
    before = x.copy()
    plain = Session(load(model), Config(threads=threads))
    with monkeypatch.context() as without:
        without.setattr(in_place, "taken", lambda *_: {})
        want = plain.run({"x": x}, inner)
    session = Session(load(model), Config(threads=threads))
    for fetch in ([inner[-1]], inner, inner[1:3], [inner[-1]], inner[::-1]):
        for _ in range(2):
            found = session.run({"x": x}, fetch)
            assert x.tobytes() == before.tobytes()
            for name in fetch:
                assert found[name].tobytes() == want[name].tobytes()


@pytest.mark.parametrize("yes", [True, False])
def test_what_branches_capture_stays(yes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(6)
    *_, made = layers(net, "x", 2)
    _renamed(net, made, "first")
    branches = {}
    for name, seed in (("then_branch", 7), ("else_branch", 8)):
        branch = Net(seed)
        last = layers(branch, "first", seed - 5)[-1]
        for old in [o for node in branch.nodes for o in node.output] + [c.name for c in branch.constants]:
            _renamed(branch, old, f"{name}_{old}")
        branches[name] = _subgraph(name, {}, branch, {f"{name}_{last}": F32})
    chosen = net.op("If", "flag", **branches)
    last = net.op("Add", net.op("MatMul", chosen, net.noise(WIDTH, WIDTH)), "first")
    model = net.model({"x": (F32, [ROWS, WIDTH]), "flag": (BOOL, [])}, {last: F32, "first": F32})
    feeds = {"x": numbers(), "flag": np.array(yes)}
    same_without(monkeypatch, model, feeds)


def same_without(monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    """Runs a model with results over operands and without: all bits are equal, again and again."""
    with monkeypatch.context() as without:
        without.setattr(in_place, "taken", lambda *_: {})
        want = Session(load(model)).run(feeds)
    session = Session(load(model))
    for _ in range(3):
        found = session.run(feeds)
        assert all(found[name].tobytes() == want[name].tobytes() for name in want)


def _renamed(net: Net, old: str, new: str) -> None:
    for node in net.nodes:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
    for constant in net.constants:
        if constant.name == old:
            constant.name = new


def test_a_loop_carries_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn adds to what it was given, which is needed twice more."""
    net, body = Net(10), Net(11)
    inner = layers(body, "state", 2)
    body.nodes.append(helper.make_node("Identity", ["more"], ["again"]))
    body.nodes.append(helper.make_node("Add", [inner[-1], "state"], ["next"]))
    for constant in list(body.constants):
        _renamed(body, constant.name, f"body_{constant.name}")
    loop = _subgraph(
        "body",
        {"i": (I64, []), "more": (BOOL, []), "state": (F32, [ROWS, WIDTH])},
        body,
        {"again": BOOL, "next": F32, inner[0]: F32},
    )
    *_, first = layers(net, "x", 1)
    net.nodes.append(helper.make_node("Loop", ["turns", "", first], ["state_out", "all"], body=loop))
    last = net.op("Add", "state_out", first)
    model = net.model({"x": (F32, [ROWS, WIDTH]), "turns": (I64, [])}, {last: F32, "all": F32})
    feeds = {"x": numbers(), "turns": np.array(3)}
    same_without(monkeypatch, model, feeds)
