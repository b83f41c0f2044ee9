"""The comparisons: models written here and run there, converted there and run here, compressed there and read here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.errors import MNNError
from MNN.frontends import load_graph
from MNN.frontends.mnn import write_mnn
from MNN.ir.graph import Graph
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.interop import official
from tests.interop.models import Model

#: The official engine's Winograd convolutions are loose; its own error on deep networks is about 1e-2.
WRITTEN = 2e-2
READ = 1e-4
#: Beyond the official engine's own error: its converter replaces some functions (GELU by its tanh form).
COMPRESSED = 1e-3
FLAGS: dict[str, tuple[str, ...]] = {
    "8bit": ("--weightQuantBits", "8"),
    "4bit": ("--weightQuantBits", "4"),
    "4bit-blocks": ("--weightQuantBits", "4", "--weightQuantBlock", "32"),
    "fp16": ("--fp16",),
    "external": ("--saveExternalData",),
}


@dataclass(frozen=True)
class Result:
    """One comparison: the largest error relative to the largest expected number, and what is allowed."""

    check: str
    model: str
    error: float
    allowed: float
    note: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.error <= self.allowed)

    def __str__(self) -> str:
        verdict = "ok  " if self.passed else "FAIL"
        return f"{verdict} {self.check:18} {self.model:30} {self.error:9.1e} of {self.allowed:.1e}  {self.note}"


def difference(expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> float:
    """Largest difference of any output, relative to that output's largest number; infinite when shapes differ."""
    worst = 0.0
    for name, a in expected.items():
        b = np.asarray(found[name])
        if a.size != b.size or [d for d in a.shape if d != 1] != [d for d in b.shape if d != 1]:
            return float("inf")
        wide = a.astype(np.float64).reshape(-1)
        if wide.size:
            error = np.abs(wide - b.astype(np.float64).reshape(-1)).max()
            worst = max(worst, float(error) / max(float(np.abs(wide).max()), 1e-12))
    return worst if worst == worst else float("inf")


def run_here(graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    given = {v.name: np.asarray(feeds[v.name]).astype(v.dtype.numpy if v.dtype else None) for v in graph.inputs}
    return Session(graph, Config(precision="high")).run(given)


def run_there(path: Path, graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [v.name for v in graph.outputs]
    given = {v.name: np.asarray(feeds[v.name]) for v in graph.inputs}
    return dict(zip(names, official.run(path, given, names), strict=True))


def guarded(check: str, model: Model, allowed: float, compare: Callable[[], Iterator[Result]]) -> Iterator[Result]:
    """Failures of either engine are results too."""
    try:
        yield from compare()
    except (MNNError, official.OfficialError) as error:
        yield Result(check, model.name, float("inf"), allowed, f"{type(error).__name__}: {str(error)[-300:]}")


def written(model: Model) -> Iterator[Result]:
    """Converted and written here: the official engine and this one against the model's own framework."""

    def compare() -> Iterator[Result]:
        expected, feeds = model.expected(), model.feeds()
        graph = model.graph()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.mnn"
            write_mnn(graph, path)
            there = run_there(path, graph, feeds)
            yield Result("written, run there", model.name, difference(expected, there), WRITTEN)
            again = run_here(load_graph(path), feeds)
            yield Result("written, read back", model.name, difference(expected, again), model.tolerance())

    return guarded("written", model, WRITTEN, compare)


def converted(model: Model) -> Iterator[Result]:
    """ONNX, converted there and read here: against onnxruntime, or against the official engine where its converter
    changes the model (GELU becomes its tanh form, recurrent layers get one step)."""

    def compare() -> Iterator[Result]:
        expected, feeds = model.expected(), model.feeds()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.mnn"
            official.convert(model.path, path)
            graph = load_graph(path)
            there, here = run_there(path, graph, feeds), run_here(graph, feeds)
            error, apart = difference(expected, here), difference(there, here)
            note = f"from the official engine {apart:.1e}, which is {difference(expected, there):.1e} off"
            yield Result("converted, run here", model.name, min(error, apart), READ, note)

    return guarded("converted", model, READ, compare)


def compressed(model: Model) -> Iterator[Result]:
    """Weights compressed by the official converter: this engine against the official one on the same file."""
    for name, flags in FLAGS.items():

        def compare(name: str = name, flags: tuple[str, ...] = flags) -> Iterator[Result]:
            feeds = model.feeds()
            with tempfile.TemporaryDirectory() as folder:
                path, copy = Path(folder) / "model.mnn", Path(folder) / "copy.mnn"
                official.convert(model.path, path, *flags)
                graph = load_graph(path)
                there, here = run_there(path, graph, feeds), run_here(graph, feeds)
                yield Result(f"{name}, run here", model.name, difference(there, here), COMPRESSED)
                write_mnn(graph, copy)
                again = run_here(load_graph(copy), feeds)
                yield Result(f"{name}, rewritten", model.name, difference(here, again), 0.0)
                there = run_there(copy, graph, feeds)
                yield Result(f"{name}, run there", model.name, difference(here, there), COMPRESSED)

        yield from guarded(name, model, COMPRESSED, compare)
