"""A second back end, numpy in a memory of its own, behind the same seam as the CPU; graphs cut between both."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from MNN.backends.base import registry
from MNN.cli.inputs import random_feeds
from MNN.compiler.cut import cut
from MNN.compiler.minimum_cut import FlowNetwork
from MNN.errors import MNNError
from MNN.frontends import load_graph
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import body_of
from MNN.runtime.config import Config
from MNN.runtime.cut_program import Call, CutProgram
from MNN.runtime.session import Session
from tests import zoo
from tests.backends.numpy_device import DEVICE, NumpyDevice, numpy_device
from tests.runtime.models import branching, convolutions

KINDS = [
    p.Map,
    p.Reduce,
    p.MatMul,
    p.Conv,
    p.Window,
    p.Pad,
    p.Concat,
    p.Gather,
    p.Reshape,
    p.Permute,
    p.Slice,
    p.Expand,
]


def compared(graph: Graph, feeds: dict[str, np.ndarray]) -> Session:
    session = Session(graph, Config(backend=NumpyDevice.name))
    for again in range(2):  # with numbers of the run before in memory
        found, want = session.run(feeds), Session(graph, Config()).run(feeds)
        for name in want:
            np.testing.assert_allclose(found[name], want[name], rtol=2e-4, atol=2e-5, err_msg=f"{name}, run {again}")
    return session


def test_a_device_that_does_everything_gets_everything() -> None:
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 14, 10), np.float32)}
    with numpy_device() as device:
        session = compared(convolutions(), feeds)
        bound = session.plan(feeds).bound
        assert isinstance(bound, CutProgram)
        assert {name for name, _ in bound.placement()} == {NumpyDevice.name}
        assert device.copies == [2, 2]  # the input and the output, in each of two runs
        (call,) = [step for step in bound.steps if isinstance(step, Call)]
        assert call.bound.program.space == DEVICE
        assert any(len(c.kernel.prims) > 1 for c in call.bound.program.commands), "nothing was fused"


@pytest.mark.parametrize("seed", range(40))
def test_what_a_device_cannot_do_the_cpu_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    able = {kind for kind in KINDS if rng.random() < 0.6}
    graph = branching() if seed % 4 == 3 else convolutions()
    shape = (7, 4) if seed % 4 == 3 else (1, 3, int(rng.integers(5, 20)), int(rng.integers(5, 20)))
    feeds = {"x": rng.standard_normal(shape, np.float32)}
    with numpy_device(lambda prim: type(prim) in able):
        session = compared(graph, feeds)
        for plan in session.plans_used():
            if isinstance(plan.bound, CutProgram):
                for step in plan.bound.steps:
                    if isinstance(step, Call) and step.part.backend.name == NumpyDevice.name:
                        assert all(type(q) in able for q in step.part.prims)


@pytest.mark.real
@pytest.mark.parametrize("latency", [0.0, 1e-4])
@pytest.mark.parametrize(
    ("name", "shapes"), [("ppocr_cls", {"x": (1, 3, 48, 192)}), ("swift_f0", {"audio": (1, 8000)})]
)
def test_a_real_network_in_parts(name: str, shapes: dict[str, tuple[int, ...]], latency: float) -> None:
    """Products on the device, the rest on the CPU, as long as copies are worth it."""
    graph = load_graph(zoo.path(name))
    feeds = random_feeds(Session(graph), shapes)
    with numpy_device(lambda prim: isinstance(prim, (p.Conv, p.MatMul, p.Reshape, p.Permute)), latency):
        session = compared(graph, feeds)
        bound = session.plan(feeds).bound
        assert isinstance(bound, CutProgram)
        machines = [name for name, _ in bound.placement()]
        assert latency or {"cpu", NumpyDevice.name} == set(machines)


def program(rng: np.random.Generator, count: int) -> tuple[list[Prim], list[Tensor]]:
    """A random graph of element-wise primitives, and its outputs."""
    tensors = [Tensor(DType.F32, (8,)) for _ in range(2)]
    prims: list[Prim] = []
    for i in range(count):
        chosen = [tensors[int(k)] for k in rng.integers(0, len(tensors), 2)]
        out = Tensor(DType.F32, (8,), name=f"t{i}")
        prim = p.Map(chosen, [out], f"node {i}", body=body_of([DType.F32, DType.F32], lambda b, x, y: b("add", x, y)))
        out.producer = prim
        prims.append(prim)
        tensors.append(out)
    used = {t for q in prims for t in q.inputs}
    return prims, [q.outputs[0] for q in prims if q.outputs[0] not in used]


class Priced(NumpyDevice):
    """Costs by node."""

    def __init__(self, prices: dict[str, float | None], transfer: float) -> None:
        super().__init__()
        self._prices, self._transfer = prices, transfer

    def cost(self, prim: Prim) -> float | None:
        return self._prices[prim.origin]

    def transfer_cost(self, nbytes: int) -> float:
        return self._transfer


def price(prims: list[Prim], outputs: list[Tensor], there: dict[Prim, bool], device: Priced, host: Priced) -> float:
    """What an assignment costs, counted plainly."""
    total = 0.0
    maker = {t: q for q in prims for t in q.outputs}
    for q in prims:
        found = (device if there[q] else host).cost(q)
        total += np.inf if found is None else found
    for t in {t for q in prims for t in (*q.inputs, *q.outputs)}:
        home = t in maker and there[maker[t]]
        sides = {there[q] for q in prims if t in q.inputs} | ({False} if t in outputs else set())
        total += device.transfer_cost(0) * len(sides - {home})
    return total


@pytest.mark.parametrize("seed", range(60))
def test_no_other_cut_is_cheaper(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prims, outputs = program(rng, int(rng.integers(1, 9)))
    prices = {q.origin: None if rng.random() < 0.2 else float(rng.random()) for q in prims}
    device = Priced(prices, float(rng.random()) * 0.5)
    host = Priced({q.origin: float(rng.random()) for q in prims}, 0.0)
    parts = cut(prims, outputs, device, host)
    there = {q: part.backend is device for part in parts for q in part.prims}
    assert sorted(map(id, there)) == sorted(map(id, prims))
    done: set[Tensor] = set()
    for part in parts:  # in an order in which they can run
        made = {t for q in prims for t in q.outputs}
        assert set(part.inputs) & made <= done
        done |= {t for q in part.prims for t in q.outputs}
    best = min(
        price(prims, outputs, dict(zip(prims, sides, strict=True)), device, host)
        for sides in itertools.product((False, True), repeat=len(prims))
    )
    assert price(prims, outputs, there, device, host) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(30))
def test_a_cut_is_worth_a_flow(seed: int) -> None:
    """Against all cuts of small random networks."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(2, 8))
    edges = [(int(a), int(b), float(rng.integers(1, 10))) for a, b in rng.integers(0, nodes, (14, 2)) if a != b]
    network = FlowNetwork(nodes)
    for edge in edges:
        network.edge(*edge)

    def worth(side: set[int]) -> float:
        return sum(c for a, b, c in edges if a in side and b not in side)

    inner = range(1, nodes - 1)
    all_sides = [{0, *some} for n in range(nodes - 1) for some in itertools.combinations(inner, n)]
    found = network.cut(0, nodes - 1)
    assert 0 in found
    assert nodes - 1 not in found
    assert worth(found) == pytest.approx(min(map(worth, all_sides)))


def test_copies_that_cost_too_much_are_not_made() -> None:
    feeds = {"x": np.zeros((1, 3, 8, 8), np.float32)}
    with numpy_device(latency=10.0) as device:
        session = compared(convolutions(), feeds)
        assert device.copies == [0, 0]
        bound = session.plan(feeds).bound
        assert isinstance(bound, CutProgram)
        assert {name for name, _ in bound.placement()} == {"cpu"}


@pytest.mark.parametrize("name", ["abacus", "base", "", 3, None, ["cpu"], {}])
def test_unknown_back_ends_are_refused(name: Any) -> None:
    with pytest.raises(MNNError, match=rf"there is no back end {re.escape(repr(name))}; choose one of cpu"):
        Config(backend=name)
    assert registry.names() == ["cpu"]
