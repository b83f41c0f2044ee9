"""Our answers beside LiteRT's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import MNN
from MNN.frontends import load_graph
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.stateful import StatefulModel
from tests.frontends.tflite.cases import Case
from tests.frontends.tflite.litert import Answer

_HIGH = Config(precision="high")
_TIES = 0.01


def ours(model: bytes, runs: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """The outputs of every run of a model."""
    graph = load_graph(model)
    states = graph.meta.get("states") or {}
    assert isinstance(states, dict)
    inputs = [v.name for v in graph.inputs if v.name not in states]
    outputs = [v.name for v in graph.outputs if v.name not in states.values()]
    optimize(graph)
    session = Session(graph, _HIGH)
    run = StatefulModel(session).run if states else session.run
    found = []
    for arrays in runs:
        made = run(dict(zip(inputs, arrays, strict=True)))
        found.append([np.asarray(made[name]) for name in outputs])
    return found


def difference(case: Case, answer: Answer) -> str:
    """What is wrong with our answers, empty for nothing."""
    try:
        found = ours(case.model.finish(), case.runs)
    except MNN.MNNError as error:
        return f"{type(error).__name__}: {error}"
    for i, (mine, theirs) in enumerate(zip(found, answer.outputs, strict=True)):
        for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            said = _apart(case, a, b)
            if said:
                return f"run {i}, output {k}: {said}"
    return ""


def _apart(case: Case, a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape:
        return f"shape {a.shape}, expected {b.shape}"
    if b.dtype.kind in "OS":
        texts = [t.decode() if isinstance(t, bytes) else str(t) for t in b.reshape(-1)]
        return "" if [str(t) for t in a.reshape(-1)] == texts else f"{a!r}, expected {texts}"
    if a.dtype != b.dtype:
        return f"dtype {a.dtype}, expected {b.dtype}"
    if case.drawn:
        return ""
    if b.dtype.kind in "biu":
        most = int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0))
        return "" if most <= case.steps else f"{most} steps apart ({a.reshape(-1)[:6]}, expected {b.reshape(-1)[:6]})"
    scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=0)), 1e-6)
    with np.errstate(invalid="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, apart)
    apart = np.nan_to_num(apart, nan=np.inf) / scale
    if case.ties and apart.max(initial=0) <= case.ties and np.mean(apart > case.tolerance) <= _TIES:
        return ""
    worst = float(apart.max(initial=0))
    return "" if worst <= case.tolerance else f"{worst:.1e} apart ({a.reshape(-1)[:4]}, expected {b.reshape(-1)[:4]})"
