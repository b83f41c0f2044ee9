"""Engines as :data:`tests.models.task.Run`: a model file in, a function from feeds to outputs out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnxruntime

from MNN.frontends import load_graph
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests import reference_sessions
from tests.kept import kept_run
from tests.models.task import Run

Runner = Callable[[Path], Run]


def onnxruntime_runner(path: Path, optimise: bool = True) -> Run:
    """ONNX Runtime on the CPU, one thread; ``optimise=False`` computes the graph node by node as written. Its answers
    are kept (:mod:`tests.kept`)."""

    def make() -> Run:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        if not optimise:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))

    options = Path(reference_sessions.__file__).read_text(encoding="utf-8")
    return kept_run(path, f"onnxruntime {onnxruntime.__version__} {optimise=} {options}", make)


def plain_onnxruntime_runner(path: Path) -> Run:
    return onnxruntime_runner(path, optimise=False)


def mnn_runner(path: Path) -> Run:
    """This engine on the file as it is."""
    session = Session(load_graph(path))
    return lambda feeds: session.run(dict(feeds))


def low_runner(path: Path) -> Run:
    """This engine in 16 bits; for answers, not for numbers."""
    session = Session(load_graph(path), Config(precision="low"))
    return lambda feeds: session.run(dict(feeds))


# Every engine here is put to all task checks and compared with ONNX Runtime. The second entry is the control: the same
# engine with a different order of computation must pass, or the tolerances are wrong.
RUNNERS: dict[str, Runner] = {
    "onnxruntime": onnxruntime_runner,
    "onnxruntime-plain": plain_onnxruntime_runner,
    "mnn": mnn_runner,
}
REFERENCE = "onnxruntime"
