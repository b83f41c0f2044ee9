"""Two ways to compute a model, tensor by tensor: where do their results part?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.frontends import NOTHING, Hints, load_graph
from MNN.ir.graph import Graph
from MNN.progress import ReportProgress, silent
from MNN.runtime.config import Config
from MNN.runtime.session import Session

Arrays = Mapping[str, np.ndarray]
NUMPY = "the reference implementation of the operators"
EXACT = Config(precision="high")
"""By default kernels compute what is meant, not how ``normal`` rounds it."""


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
    note: str = ""
    """Why the reference is not onnxruntime, where that was asked for and is there."""


def compare(
    reference: Path,
    model: Path,
    feeds: Arrays,
    tolerance: float = 5e-4,
    use_onnxruntime: bool = True,
    config: Config = EXACT,
    report_progress: ReportProgress = silent,
    hints: Hints = NOTHING,
) -> Comparison:
    """Runs ``model`` with kernels and ``reference`` by onnxruntime (ONNX files, where installed) or by the
    reference implementation.

    Both get ``feeds``; ``config`` is for the kernels, ``hints`` for reading ``reference``. Every tensor that exists on
    both sides under the same name is compared. Raises :class:`MNNError` when they share none.
    """
    report_progress("reading")
    graph = load_graph(model)
    other = load_graph(reference, hints=hints) if model != reference else graph
    known = {v.name for n in other.nodes for v in n.outputs} | {v.name for v in other.outputs}
    shared = [n for n in dict.fromkeys(v.name for n in graph.nodes for v in n.outputs) if n in known]
    if not shared:
        raise MNNError(f"{reference} and {model} share no tensor name, so that nothing can be compared")
    wanted, who, note = None, NUMPY, ""
    if use_onnxruntime and reference.suffix.lower() == ".onnx":
        report_progress("running onnxruntime")
        wanted, note = onnxruntime_tensors(reference, feeds, shared)
        who = NUMPY if wanted is None else "onnxruntime"
    if wanted is None:
        report_progress(f"running {NUMPY}")
        wanted = Session(other, Config(reference=True)).run(_suited(other, feeds), shared)
    shared = [n for n in shared if n in wanted]
    report_progress("compiling and running")
    found = tensors(graph, config, feeds, shared)
    makers = {v.name: n for n in graph.nodes for v in n.outputs}
    differences = []
    for i, n in enumerate(shared):
        report_progress("comparing tensors", i, len(shared))
        differences.append(Difference(n, makers[n].name, makers[n].op, error_of(found[n], wanted[n]), _shape(found[n])))
    return Comparison(who, differences, tolerance, where_it_begins(graph, differences, tolerance), note)


def tensors(graph: Graph, config: Config, feeds: Arrays, names: Sequence[str]) -> dict[str, Any]:
    """Tensors of a graph as kernels compute them. Where kernels may round what lies between them, outputs are as they
    come when nothing else is asked for: what is asked for is not fused, and so rounded otherwise."""
    found = Session(graph, config).run(feeds, list(names))
    if config.precision != EXACT.precision:
        outputs = [v.name for v in graph.outputs if v.name in found]
        found.update(Session(graph, config).run(feeds, outputs))
    return found


def error_of(found: Any, wanted: Any) -> float:
    """Largest difference relative to the largest magnitude of ``wanted``; infinite for other shapes or stray NaNs.

    Of sequences and maps, the largest of their items'."""
    if isinstance(wanted, (list, dict)) or wanted is None or found is None:
        if type(found) is not type(wanted) or found is None:
            return 0.0 if found is wanted else float("inf")
        if len(found) != len(wanted) or (isinstance(wanted, dict) and set(found) != set(wanted)):
            return float("inf")
        keys = wanted if isinstance(wanted, dict) else range(len(wanted))
        return max((error_of(found[k], wanted[k]) for k in keys), default=0.0)
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return float("inf")
    if found.dtype == object or wanted.dtype == object or found.size == 0:
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if odd.any() and not np.array_equal(a[odd], b[odd], equal_nan=True):
        return float("inf")
    a, b = np.where(odd, 0.0, a), np.where(odd, 0.0, b)
    difference, scale = np.abs(a - b), float(np.abs(b).max())
    return float(difference.max()) / scale if scale else float(difference.max())


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(np.shape(value)) if isinstance(value, np.ndarray) else (len(value),) if value is not None else ()


def _suited(graph: Graph, feeds: Arrays) -> dict[str, np.ndarray]:
    """The feeds in the dtypes of this side, where only the width differs."""
    types = {v.name: v.dtype for v in graph.inputs}
    result = {}
    for name, array in feeds.items():
        dtype = types.get(name)
        fits = dtype is None or array.dtype == object or not np.can_cast(array.dtype, dtype.numpy, "same_kind")
        result[name] = array if fits or dtype is None else array.astype(dtype.numpy)
    return result


def where_it_begins(graph: Graph, differences: list[Difference], tolerance: float) -> Difference | None:
    """The first tensor above the tolerance whose node's compared inputs are all below it."""
    errors = {d.tensor: d for d in differences}
    wrong = {d.tensor for d in differences if not d.error <= tolerance}
    for node in graph.nodes:
        if not any(v is not None and v.name in wrong for v in node.inputs):
            for value in node.outputs:
                if value.name in wrong:
                    return errors[value.name]
    return None


def onnxruntime_tensors(path: Path, feeds: Arrays, names: list[str]) -> tuple[dict[str, np.ndarray] | None, str]:
    """Intermediate tensors by onnxruntime; None when it is not installed or cannot run the model, and then why."""
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError:
        return None, ""
    import onnx

    kinds = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NotImplemented", "RuntimeException")
    refusals = tuple(getattr(state, k) for k in kinds if hasattr(state, k))
    try:
        model = onnx.load(str(path), load_external_data=False)
        declared = {v.name for v in model.graph.output}
        wanted = [n for n in names if n in declared or any(n in node.output for node in model.graph.node)]
        model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted if n not in declared)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(wanted, {k: np.asarray(v) for k, v in feeds.items()})
    except (*refusals, ValueError) as error:
        return None, f"onnxruntime cannot run {path}: {str(error).splitlines()[0][:300]}"
    return dict(zip(wanted, results, strict=True)), ""
