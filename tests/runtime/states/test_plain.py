"""Sessions of models that remember, run by themselves: their states are inputs and outputs like others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.frontends import load_graph
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.stateful import StatefulModel
from tests.runtime.states.kinds import KINDS, Kind


def opened(kind: Kind) -> StatefulModel:
    return MNN.load(kind.source(), precision="high", states={name: f"{name}.next" for name in kind.states})


@pytest.mark.parametrize("number", range(len(KINDS)), ids=lambda number: KINDS[number].__name__)
def test_beside_a_state(number: int) -> None:
    """Runs in turn with those of a state, on the same program: neither knows of the other's memory."""
    kind = KINDS[number](np.random.default_rng([11, number]))
    model, kept = opened(kind), kind.begin(2)
    for turn in range(4):
        feeds = kind.feeds(2, kept)
        given = {name: array.copy() for name, array in model.all_inputs(feeds).items()}  # states change where they lie
        before = {name: given[name].copy() for name in kind.states}
        wanted, after = kind.step(kept, feeds)
        plain = model.session.run(given)
        if turn % 2:
            plain = model.session.run(given)  # by the way that was found the first time
        found = model.run(feeds)["y"]
        again = model.session.run(given, fetch=["y", f"{kind.states[0]}.next"])
        for y in (plain["y"], found, again["y"]):
            np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-5 * max(1.0, np.abs(wanted).max(initial=0)))
        for name in kind.states:
            state = model.state[name]
            np.testing.assert_allclose(state, after[name], rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(plain[f"{name}.next"], state)
            np.testing.assert_array_equal(given[name], before[name])
        np.testing.assert_array_equal(again[f"{kind.states[0]}.next"], model.state[kind.states[0]])
        kept = after


def test_states_that_a_file_tells_of(tmp_path: Path) -> None:
    """Nobody has asked for memory that outlives runs: the file says that there are states."""
    kind = KINDS[-1](np.random.default_rng(5))
    graph = load_graph(kind.source())
    graph.meta["states"] = {name: f"{name}.next" for name in kind.states}
    session, kept = Session(graph, Config()), kind.begin(3)
    for _ in range(3):
        feeds = kind.feeds(3, kept)
        wanted, after = kind.step(kept, feeds)
        found = session.run({**feeds, **{name: kept[name].astype(np.float32) for name in kind.states}})
        np.testing.assert_allclose(found["y"], wanted, atol=1e-4)
        for name in kind.states:
            np.testing.assert_allclose(found[f"{name}.next"], after[name], atol=1e-4)
        kept = after
