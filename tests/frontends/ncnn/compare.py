"""Our answers beside ncnn's."""

from __future__ import annotations

import numpy as np

import MNN
from MNN.frontends.ncnn import load
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.ncnn.build import Model
from tests.frontends.ncnn.cases import Case
from tests.frontends.ncnn.peer import Answer

_HIGH = Config(precision="high")


def ours(model: Model, binary: bool = False) -> dict[str, np.ndarray]:
    """The outputs of a model, by their names in its text form."""
    graph = load(model.binary() if binary else model.text(), weights=model.weights())
    names = {str(i): name for name, i in model.numbers().items()} if binary else {}
    optimize(graph)
    feeds = {v.name: model.feeds[names.get(v.name, v.name)] for v in graph.inputs}
    found = Session(graph, _HIGH).run(feeds)
    return {names.get(name, name): np.asarray(array) for name, array in found.items()}


def difference(case: Case, answer: Answer) -> str:
    """What is wrong with our answers, empty for nothing."""
    try:
        found = ours(case.model)
    except MNN.MNNError as error:
        return f"{type(error).__name__}: {error}"
    if set(found) != set(answer.outputs):
        return f"outputs {sorted(found)}, expected {sorted(answer.outputs)}"
    for name, b in answer.outputs.items():
        said = _apart(case, found[name], b)
        if said:
            return f"output {name}: {said}"
    return ""


def _apart(case: Case, a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape:
        return f"shape {a.shape}, expected {b.shape}"
    if a.dtype.kind == "i":
        most = int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0))
        return "" if most <= case.steps else f"{most} steps apart ({a.reshape(-1)[:6]}, expected {b.reshape(-1)[:6]})"
    b = np.where(np.abs(b) == np.finfo(np.float32).max, np.copysign(np.inf, b), b)  # a maximum of nothing
    scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=0)), 1e-6)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, apart)
    worst = float(np.nan_to_num(apart, nan=np.inf).max(initial=0)) / scale
    return "" if worst <= case.tolerance else f"{worst:.1e} apart ({a.reshape(-1)[:4]}, expected {b.reshape(-1)[:4]})"
