"""Every model gives ONNX Runtime's answer with every pass off in turn, with all passes, and with none.

Most passes have nothing to do in most models: those that change nothing among all passes are not switched off. A graph
that came out the same before is not run again: graphs are told apart by operators, attributes, connections and the
numbers of all constants.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from MNN.frontends.onnx.load import load
from MNN.ir.graph import Graph, Value
from MNN.passes.manager import optimize, passes
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.models.runners import onnxruntime_runner
from tests.models.task import largest_error
from tests.passes.build import clone
from tests.passes.models import MODELS, Model

TOLERANCE = 1e-4  # of the largest output

pytestmark = pytest.mark.real


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_every_pass_off_in_turn(model: Model, tmp_path: Path) -> None:
    path = model.path(tmp_path)
    feeds = model.feeds()
    expected = onnxruntime_runner(path)(feeds)
    original = load(path)
    kept = {id(v.data) for v in _constants(original)}
    seen: dict[str, str] = {}
    wrong: dict[str, float] = {}
    used = optimize(clone(original), 2)
    for off in ("all", "none", *(name for name in passes() if used.get(name))):
        graph = clone(original)
        if off != "all":
            totals = optimize(graph, 2, () if off == "none" else (off,))
            assert off not in totals
        assert [v.name for v in graph.outputs] == [v.name for v in original.outputs]
        key = fingerprint(graph, kept)
        if key not in seen:
            seen[key] = off
            error = largest_error(Session(graph, Config(precision="high")).run(feeds), expected)
            if not error <= TOLERANCE:
                wrong[off] = error
    assert not wrong, f"errors with these passes off: {wrong}"


def _constants(graph: Graph) -> list[Value]:
    found = [v for v in graph.values() if v.data is not None]
    for node in graph.nodes:
        for _, sub in node.subgraphs():
            found += _constants(sub)
    return found


def fingerprint(graph: Graph, kept: set[int]) -> str:
    """A hash of everything that decides the result. ``kept``: arrays that are known by identity already."""
    digest = hashlib.blake2b()
    numbers: dict[Value, str] = {}

    def name(value: Value | None) -> str:
        if value is None:
            return "-"
        if value not in numbers:
            numbers[value] = str(len(numbers))
            if value.data is not None:
                digest.update(_content(value.data, kept).encode())
        return numbers[value]

    def visit(inner: Graph) -> None:
        digest.update(f"in {[name(v) for v in inner.inputs]};".encode())
        for node in inner.nodes:
            attrs = {k: _text(v) for k, v in sorted(node.attrs.items()) if not isinstance(v, Graph)}
            operands = [name(v) for v in node.inputs]
            digest.update(f"{node.op} {attrs} {operands} {[name(v) for v in node.outputs]};".encode())
            for key, sub in node.subgraphs():
                digest.update(key.encode())
                visit(sub)
        digest.update(f"out {[name(v) for v in inner.outputs]};".encode())

    visit(graph)
    return digest.hexdigest()


def _content(data: object, kept: set[int]) -> str:
    if id(data) in kept or not isinstance(data, np.ndarray):
        return f"array {id(data)}"
    if data.dtype == object:
        return repr(data.tolist())
    return f"{data.dtype}{data.shape}{hashlib.blake2b(np.ascontiguousarray(data).data).hexdigest()}"


def _text(value: object) -> str:
    return f"{value.dtype}{value.tolist()}" if isinstance(value, np.ndarray) else repr(value)


def test_fingerprint_sees_differences() -> None:
    from tests.passes.build import Maker

    def build(number: float, kind: str, swap: bool) -> Graph:
        m = Maker()
        x = m.input(2)
        c = m.const([number, 2.0])
        return m.done(m.binary(kind, *((c, x) if swap else (x, c))))

    found = {fingerprint(build(n, k, s), set()) for n in (1.0, -1.0) for k in ("SUB", "DIV") for s in (False, True)}
    assert len(found) == 8
    assert fingerprint(build(1.0, "SUB", True), set()) in found
