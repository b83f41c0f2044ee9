"""Two ways to compute a model, tensor by tensor: where do their results part?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.errors import MNNError
from MNN.frontends import load_graph
from MNN.ir.graph import Graph
from MNN.runtime.config import Config
from MNN.runtime.session import Session

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Difference:
    """One tensor on both sides. ``error`` is the largest difference over the largest magnitude of the reference."""

    tensor: str
    node: str
    op: str
    error: float
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """All tensors that both sides know, in the order in which they are computed, and who the sides were."""

    reference: str
    differences: list[Difference]
    tolerance: float
    first: Difference | None
    """Where the error begins: above the tolerance although all of the node's compared inputs are below it."""


def compare(
    reference: Path, model: Path, feeds: Arrays, tolerance: float = 1e-4, use_onnxruntime: bool = True
) -> Comparison:
    """Runs ``model`` with kernels and ``reference`` by onnxruntime (ONNX files, where installed) or its numpy meaning.

    Both get ``feeds``. Every tensor that exists on both sides under the same name is compared.
    """
    graph = load_graph(model)
    names = [v.name for n in graph.nodes for v in n.outputs]
    other: Graph | None = load_graph(reference) if model != reference else graph
    assert other is not None
    known = {v.name for n in other.nodes for v in n.outputs} | {v.name for v in other.outputs}
    shared = [n for n in dict.fromkeys(names) if n in known]
    wanted, who = None, "the numpy meaning of the operators"
    if use_onnxruntime and reference.suffix == ".onnx":
        wanted = _onnxruntime(reference, feeds, shared)
        who = "onnxruntime"
    if wanted is None:
        wanted = Session(other, Config(reference=True)).run(feeds, shared)
        who = "the numpy meaning of the operators"
    shared = [n for n in shared if n in wanted]
    found = Session(graph, Config()).run(feeds, shared)
    makers = {v.name: n for n in graph.nodes for v in n.outputs}
    differences = [
        Difference(n, makers[n].name, makers[n].op, error_of(found[n], wanted[n]), tuple(found[n].shape))
        for n in shared
    ]
    return Comparison(who, differences, tolerance, _begin(graph, differences, tolerance))


def error_of(found: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference relative to the largest magnitude of ``wanted``; infinite for other shapes or stray NaNs."""
    if found.shape != wanted.shape:
        return float("inf")
    if found.dtype == object or found.size == 0:
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if odd.any() and not np.array_equal(a[odd], b[odd], equal_nan=True):
        return float("inf")
    a, b = np.where(odd, 0.0, a), np.where(odd, 0.0, b)
    difference, scale = np.abs(a - b), float(np.abs(b).max())
    return float(difference.max()) / scale if scale else float(difference.max())


def _begin(graph: Graph, differences: list[Difference], tolerance: float) -> Difference | None:
    errors = {d.tensor: d for d in differences}
    for node in graph.nodes:
        inputs = [errors[v.name].error for v in node.inputs if v is not None and v.name in errors]
        if any(e > tolerance for e in inputs):
            continue
        for value in node.outputs:
            if value.name in errors and errors[value.name].error > tolerance:
                return errors[value.name]
    return None


def _onnxruntime(path: Path, feeds: Arrays, names: list[str]) -> dict[str, np.ndarray] | None:
    """Intermediate tensors by onnxruntime; None when it is not installed or cannot run the model."""
    try:
        import onnxruntime
    except ImportError:
        return None
    import onnx

    try:
        model = onnx.shape_inference.infer_shapes(onnx.load(str(path)))
    except (OSError, ValueError) as error:
        raise MNNError(f"{path}: cannot be read by onnx: {error}") from error
    typed = {v.name: v for v in (*model.graph.value_info, *model.graph.output)}
    wanted = [n for n in names if n in typed]
    del model.graph.output[:]
    model.graph.output.extend(typed[n] for n in wanted)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(wanted, session.run(wanted, {k: np.asarray(v) for k, v in feeds.items()}), strict=True))
