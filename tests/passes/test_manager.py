from __future__ import annotations

import pytest

from MNN.errors import MNNError
from MNN.passes import manager
from MNN.passes.manager import Pass, optimize, passes
from tests.passes.build import Maker, ops


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    m = Maker()
    with pytest.raises(MNNError, match=r"no-such-pass.*constant-folding"):
        optimize(m.done(m.op("ReLU", m.input(1))), disabled=["no-such-pass"])


def test_each_pass_can_be_left_out() -> None:
    for name in passes():
        m = Maker()
        totals = optimize(m.done(m.op("ReLU", m.input(1))), 2, [name])
        assert set(totals) == set(passes()) - {name}


def test_passes_work_together_in_rounds() -> None:
    """conv -> norm -> squeeze -> relu -> unsqueeze -> pad -> conv of one dimension leaves two convolutions."""
    m = Maker()
    x = m.op("Unsqueeze", m.input("n", 3, 20), squeezeDims=[2])
    y = m.conv(x, 4, 3, kernel=1, bias=False)
    y = m.op("BatchNorm", y, m.noise(4), m.noise(4), m.noise(4), m.const(m.rng.uniform(1, 2, 4)))
    y = m.op("ReLU", m.op("Squeeze", y, squeezeDims=[2]))
    y = m.op("Unsqueeze", m.op("Identity", y), squeezeDims=[2])
    y = m.op("Padding", y, m.ints(0, 0, 0, 0, 0, 0, 1, 1), mode="CONSTANT")
    y = m.op("Convolution", y, m.noise(5, 4, 1, 3), kernelX=3, kernelY=1)
    graph = m.done(m.op("Squeeze", y, squeezeDims=[2]))
    totals = optimize(graph)
    assert ops(graph) == ["Unsqueeze", "Convolution", "Convolution", "Squeeze"]
    assert totals["pad-folding"] > 0
    assert optimize(graph) == dict.fromkeys(totals, 0)


def test_no_pass_runs_twice_on_a_graph_that_it_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph changed by the third of five: in the second round the last two have seen it already."""
    ran: list[str] = []

    def named(name: str, changes: list[int]) -> Pass:
        return Pass(name, lambda graph: (ran.append(name), changes.pop() if changes else 0)[1], 1)

    known = {name: named(name, [1] if name == "c" else []) for name in "abcde"}
    monkeypatch.setattr(manager, "passes", lambda: known)
    m = Maker()
    assert optimize(m.done(m.op("ReLU", m.input(1)))) == {**dict.fromkeys("abcde", 0), "c": 1}
    assert "".join(ran) == "abcdeabc"
