"""One hostile file put to the engine: loaded, planned, and run if that takes little."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.errors import MISFITS, MNNError
from MNN.frontends import load_graph
from MNN.frontends.mnn import load as load_mnn
from MNN.frontends.mnn import net_of
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.executor import Plan
from MNN.runtime.session import Session
from MNN.schema import write_net
from tests.hostile.checked import checked_programs

SIZE = 3
"""What open sizes of inputs are set to."""
MOST_INPUT = 1 << 20
MOST_WORK = 3e8
"""Multiplications above which a plan is not run here: such a model is slow, not wrong."""
MEMORY = 512 << 20
SECONDS = 4.0


def config(reference: bool) -> Config:
    """Settings for files that are not trusted."""
    return Config(reference=reference, cache=False, memory_limit=MEMORY, time_limit=SECONDS)


def feeds_of(graph: Graph) -> dict[str, np.ndarray] | None:
    """Small inputs that fit what the graph says of itself; None when it asks for large ones."""
    rng = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {}
    for value in graph.inputs:
        if value.is_const:
            continue
        dims = (SIZE, SIZE) if value.shape is None else value.shape
        shape = [d if isinstance(d, int) else SIZE for d in dims]
        if math.prod(shape) > MOST_INPUT or max(shape, default=0) > MOST_INPUT or len(shape) > 32:
            return None
        dtype = value.dtype or DType.F32
        numbers = rng.integers(0, 9, shape)
        feeds[value.name] = np.full(shape, "a", object) if dtype is DType.STR else numbers.astype(dtype.numpy)
    return feeds


def work(plan: Plan) -> float:
    """About how many multiplications a plan takes."""
    total = 0.0
    for prim in plan.stage.prims:
        out = float(sum(math.prod(t.shape) for t in prim.outputs))
        if isinstance(prim, p.MatMul):
            out *= prim.inputs[0].shape[-1]
        elif isinstance(prim, p.Conv):
            out *= math.prod(prim.inputs[1].shape[1:])
        elif isinstance(prim, p.Window):
            out *= math.prod(prim.kernel)
        elif isinstance(prim, p.Reduce):
            out = float(math.prod(prim.inputs[0].shape))
        total += out
    return total


def attempt(data: bytes, form: str, way: str, load: Callable[[bytes, str], Graph] = load_graph) -> str:
    """How it ends: ``refused``, ``refused when planned`` (run, converted), ``ran``, ``converted``, ``large``.

    ``way``: ``meaning`` runs by the reference implementation, ``kernels`` compiles; ``checked`` does both and wants
    equal answers of kernels that test every access;
    ``convert`` runs the graph passes and writes a .mnn file instead. Whatever is no MNNError comes out as it is.
    """
    try:
        graph = load(data, form)
    except MNNError as error:
        return _ended("refused", error)
    if way == "convert":
        return _convert(graph)
    feeds = feeds_of(graph)
    if feeds is None:
        return "large"
    session = Session(graph, config(way != "kernels"))
    try:
        plan = session.plan(feeds)
    except MNNError as error:
        return _ended("refused when planned", error)
    if work(plan) > (MOST_WORK if way != "checked" else MOST_WORK / 30):
        return "large"
    try:
        found = session.run(feeds)
    except MNNError as error:
        return _ended("refused when run", error)
    if way == "checked":
        with checked_programs():
            again = Session(graph, config(False)).run(feeds)
        chance = any(isinstance(q, p.Host) and not q.pure for plan in session.plans_used() for q in plan.stage.prims)
        for name in [] if chance else found:
            _compare(name, found[name], again[name])
    return "ran"


def _convert(graph: Graph) -> str:
    """All passes, and a file that is read again."""
    try:
        optimize(graph, 2)
        data = write_net(net_of(graph))
    except MNNError as error:
        return _ended("refused when converted", error)
    assert data is not None
    load_mnn(data)  # what was written can be read
    return "converted"


def _compare(name: str, wanted: Any, found: Any) -> None:
    if not isinstance(wanted, np.ndarray):  # a sequence, or nothing
        assert type(found) is type(wanted), f"{name}: {found} for {wanted}"
        for i, (a, b) in enumerate(zip(wanted or (), found or (), strict=True)):
            _compare(f"{name}[{i}]", a, b)
        return
    assert (wanted.shape, wanted.dtype) == (found.shape, found.dtype), f"{name}: {found.dtype}{list(found.shape)}"
    if wanted.dtype == object:
        assert np.array_equal(wanted, found), name
        return
    with np.errstate(all="ignore"):
        scale = float(np.abs(np.nan_to_num(wanted.astype(np.float64), posinf=0, neginf=0)).max(initial=0))
        same = np.isclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=1e-3, atol=1e-4 * scale, equal_nan=True
        )
    assert same.all(), f"{name}: {found[~same][:3]} for {wanted[~same][:3]}"


def _ended(how: str, error: MNNError) -> str:
    assert str(error).strip(), "an error without a message"
    return f"{how}, by accident" if isinstance(error.__cause__, MISFITS) and "damaged" in str(error) else how
