"""Operators of ours written as several official ones: they mean the same, and come back as they were."""

from __future__ import annotations

import json

import numpy as np
import pytest

from MNN.errors import FormatError
from MNN.frontends.mnn import extras as side
from MNN.frontends.mnn import graph_of, net_of
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node
from MNN.ir.verify import verify
from MNN.schema.record import Record
from MNN.schema.versions import all_ops
from tests.frontends.mnn.graphs import assert_same_answers, const, value
from tests.frontends.mnn.samples import SAMPLES, Sample
from tests.harness import run_reference


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_it_is_written_with_official_operators_that_mean_the_same(sample: Sample) -> None:
    graph, feeds = sample.make()
    net = net_of(graph)
    assert not [op.main.type for op in all_ops(net) if op.type == "Extra"]
    expected = run_reference(graph, feeds)
    again = graph_of(_without_notes_on_wholes(net))
    verify(again, "read")
    assert [n.op for n in again.nodes] != [n.op for n in graph.nodes]
    for want, got in zip(expected, run_reference(again, feeds), strict=True):
        assert isinstance(want, np.ndarray)
        assert isinstance(got, np.ndarray)
        assert got.shape == want.shape
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_it_is_read_back_as_it_was(sample: Sample) -> None:
    graph, feeds = sample.make()
    again = graph_of(net_of(graph))
    verify(again, "read")
    assert [n.op for n in again.nodes] == [n.op for n in graph.nodes]
    assert [n.name for n in again.nodes] == [n.name for n in graph.nodes]
    assert_same_answers(graph, again, feeds)


def _without_notes_on_wholes(net: Record) -> Record:
    return _with_notes(net, lambda graph: graph.pop("wholes", None))


def _with_notes(net: Record, change: object) -> Record:
    """The net with its notes changed: ``change`` is called with the JSON of every graph's notes."""
    notes, texts = side.load(net)
    assert notes is not None
    for graph in notes.graphs.values():
        data = {"wholes": graph.composite_ops}
        change(data)  # type: ignore[operator]
        graph.composite_ops = data.get("wholes", [])
    net.extraInfo.buffer = side.store(notes, texts)
    return net


def _two() -> tuple[Graph, dict[str, np.ndarray]]:
    x, middle, out = value("x", (2, 3)), value("middle", (2, 3)), value("out", (2, 3))
    nodes = [
        Node("LogSoftmax", "first", [x], [middle], {"axis": 1}),
        Node("LogSoftmax", "second", [middle], [out], {"axis": 0}),
    ]
    return Graph("g", [x], [out], nodes), {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}


def test_operators_one_after_the_other_come_back_one_by_one() -> None:
    graph, feeds = _two()
    again = graph_of(net_of(graph))
    assert [(n.op, n.name) for n in again.nodes] == [("LogSoftmax", "first"), ("LogSoftmax", "second")]
    assert_same_answers(graph, again, feeds)


@pytest.mark.parametrize("change", [
    lambda g: g["wholes"][0].update(outputs=["no such tensor"]),
    lambda g: g["wholes"][0].update(inputs=["no such tensor"]),
    lambda g: g["wholes"][0]["parts"][0].__setitem__(1, "Softmax"),
    lambda g: g["wholes"][0]["parts"].pop(0),
    lambda g: g["wholes"][0].update(outputs=[]),
])  # fmt: skip
def test_where_the_file_says_something_else_the_operators_are_read_as_they_stand(change: object) -> None:
    graph, feeds = _two()
    again = graph_of(_with_notes(net_of(graph), change))
    assert "LogSoftmax" in [n.op for n in again.nodes]  # the other note holds
    assert "Reduction" in [n.op for n in again.nodes]
    for want, got in zip(run_reference(graph, feeds), run_reference(again, feeds), strict=True):
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), atol=1e-6)


_WRONG = [
    3,
    [3],
    [{"op": 1}],
    [{"op": "x", "name": "y", "inputs": [], "outputs": [4]}],
    [{"op": "x", "name": "y", "inputs": [], "outputs": [], "parts": [["a"]]}],
]


@pytest.mark.parametrize("composite_ops", _WRONG)
def test_malformed_notes_are_refused(composite_ops: object) -> None:
    net = net_of(_two()[0])
    notes, _ = side.load(net)
    assert notes is not None
    text = json.dumps({"meta": {}, "graphs": {"": {**notes.graphs[""].to_json(), "wholes": composite_ops}}})
    with pytest.raises(FormatError, match="put together"):
        side._parse(text)


def test_large_constants_that_the_official_form_does_not_take_are_not_written_twice() -> None:
    x, out = value("x", (1, 5000, 4)), value("out", (1, 5000, 4))
    scale = const("scale", np.ones(5000), np.float32)
    graph = Graph("g", [x], [out], [Node("InstanceNorm", "n", [x, scale, scale], [out], {"epsilon": 1e-5})])
    net = net_of(graph)
    assert not [op.main.type for op in all_ops(net) if op.type == "Extra"]
    assert "InstanceNorm" not in [n.op for n in graph_of(net).nodes]
    assert DType.F32 is graph_of(net).outputs[0].dtype
