"""PyTorch's and TensorFlow Lite's models among those that are compared; torch and LiteRT say what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.frontends import load_graph
from MNN.ir.graph import Graph
from MNN.passes.manager import optimize
from tests import zoo
from tests.frontends.tflite.litert import Request, answers
from tests.frontends.tflite.test_models import CUSTOM, KEYS, _inputs
from tests.frontends.torch.peer import written
from tests.harness import run_reference
from tests.interop.models import Feeds, Model

PROGRAMS = (
    "convolutions attention encoder recurrent sizes images transposed scripted conditional pooled_to_size"
).split()
"""Programs of torch.export without states, and without Einsum, which the official engine does not have."""
TRACED = "convolutions recurrent images transposed scripted".split()


NOISY = ("tflite/mediapipe_pose_landmark_full", "tflite/mediapipe_selfie_segmentation")
"""Models that make so much of noise that LiteRT's results are 6e-4 of the largest number from numpy's: these are
expected, within 5e-4."""


class Converted(Model):
    """A model that is written as ``mnn convert`` does: what its framework writes otherwise is official form by then."""

    def graph(self) -> Graph:
        graph = load_graph(self.path)
        optimize(graph)
        return graph


@dataclass(frozen=True)
class TfliteModel(Converted):
    """A trained model, on noise."""

    def tolerance(self) -> float:
        return 5e-4 if self.name in NOISY else super().tolerance()

    def expected(self) -> dict[str, np.ndarray]:
        """Outputs by name, from LiteRT."""
        given = self.feeds()
        if self.name in NOISY:
            graph = load_graph(self.path)
            return dict(zip([v.name for v in graph.outputs], map(np.asarray, run_reference(graph, given)), strict=True))
        request = Request(self.path.read_bytes(), [[given[v.name] for v in load_graph(self.path).inputs]])
        answer = answers({"model": request})["model"]
        if answer.error:
            raise ValueError(f"{self.name}: {answer.error}")
        return dict(zip([v.name for v in load_graph(self.path).outputs], answer.outputs[0], strict=True))


@dataclass(frozen=True)
class TorchModel(Converted):
    """A program, with torch's answers in ``cases``."""

    cases: Path

    def expected(self) -> dict[str, np.ndarray]:
        """Outputs by name, from torch."""
        names = [v.name for v in load_graph(self.path).outputs]
        with np.load(self.cases) as file:
            return {name: file[f"0_out_{i}"] for i, name in enumerate(names)}


def _torch_feeds(path: Path, cases: Path) -> Feeds:
    with np.load(cases) as file:
        return {v.name: file[f"0_in_{i}"] for i, v in enumerate(load_graph(path).inputs)}


def _tflite_feeds(key: str) -> Feeds:
    return dict(zip([v.name for v in load_graph(zoo.path(key)).inputs], _inputs(key), strict=True))


def framework_models() -> Iterator[Model]:
    """Programs of PyTorch in both forms, and all trained TensorFlow Lite models."""
    for forms, names in ((".pt2", PROGRAMS), ("-traced.pt", TRACED)):
        for name in names:
            path = Path(f"{written('program_cases') / f'cases-{name}'}{forms}")
            cases = path.with_name(f"cases-{name}.npz")
            feeds = lambda p=path, c=cases: _torch_feeds(p, c)  # noqa: E731
            yield TorchModel(f"torch/{name}{forms}", path, feeds, cases)
    for key in KEYS:
        if key not in CUSTOM:
            yield TfliteModel(f"tflite/{key}", zoo.path(key), lambda k=key: _tflite_feeds(k))  # type: ignore[misc]
