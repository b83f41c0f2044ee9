"""Our answers beside numpy's and OpenCV's."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import MNN
from MNN.frontends.caffe import load
from MNN.ir.graph import Graph
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.caffe.build import caffemodel, prototxt
from tests.frontends.caffe.cases import Case
from tests.frontends.caffe.opencv import Answer, Request

_HIGH = Config(precision="high")


def request(case: Case) -> Request:
    """What OpenCV is asked."""
    return Request(prototxt(case.net), caffemodel(case.net), case.feeds, case.outputs)


def graph_of(case: Case) -> Graph:
    """A case, read from its two files."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "net.caffemodel"
        path.write_bytes(caffemodel(case.net))
        path.with_suffix(".prototxt").write_text(prototxt(case.net), encoding="utf-8")
        return load(path)


def ours(case: Case) -> dict[str, np.ndarray]:
    """The outputs of a case."""
    graph = graph_of(case)
    optimize(graph)
    found = Session(graph, _HIGH).run(case.feeds)
    return {name: np.asarray(found[name]) for name in case.outputs}


def difference(case: Case, answer: Answer | None) -> str:
    """What is wrong with our answers, empty for nothing. ``answer`` is OpenCV's, if it was asked."""
    wanted = dict(case.wanted)
    if not wanted:
        if not isinstance(answer, Mapping):
            return f"OpenCV: {answer}"
        wanted = dict(answer)
    try:
        found = ours(case)
    except MNN.MNNError as error:
        return f"{type(error).__name__}: {error}"
    for name, array in wanted.items():
        said = apart(found[name], array, case)
        if said:
            return f"'{name}': {said}"
    return ""


def apart(a: np.ndarray, b: np.ndarray, case: Case) -> str:
    """How two arrays differ; empty where they do not."""
    if case.rows:
        a, b = _sorted(a), _sorted(b)
    if a.shape != b.shape:
        return f"shape {a.shape}, expected {b.shape}"
    if not b.size:
        return ""
    scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=0)), 1e-6)
    with np.errstate(invalid="ignore"):
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a.astype(np.float64) - b))
    worst = float(np.nan_to_num(off, nan=np.inf).max()) / scale
    return "" if worst <= case.tolerance else f"{worst:.1e} apart ({a.reshape(-1)[:4]}, expected {b.reshape(-1)[:4]})"


def _sorted(rows: np.ndarray) -> np.ndarray:
    """Rows of detections, which OpenCV fills up with zeros, in one order."""
    rows = rows.reshape(-1, rows.shape[-1])
    rows = rows[np.abs(rows).sum(1) > 0]
    return rows[np.lexsort([np.round(c, 4) for c in rows.T[::-1]])]
