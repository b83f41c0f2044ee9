"""One trained network in every format that it exists in, or that it can be written to.

``python -m tests.frontends.same_network`` prints what becomes of each, with times in turns
(minimum of many, one thread).
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.converter import convert
from MNN.frontends import Hints, load_graph
from MNN.ir.graph import Graph
from MNN.ops.core.base import traits
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests import zoo
from tests.frontends.torch.peer import written

TURNS = 20
VIEWS = (
    "Permute", "Squeeze", "Unsqueeze", "Reshape", "Identity", "Pack", "Unpack", "Shape", "Concat", "StridedSlice",
    "GatherV2", "Slice", "Flatten",
)  # fmt: skip
"""Operators that arrange: formats say the same arrangement with other ones."""


@dataclass(frozen=True)
class Form:
    """A network in one format, optimised."""

    graph: Graph
    session: Session

    @classmethod
    def of(cls, path: Path, hints: Hints = Hints()) -> Form:  # noqa: B008
        graph = load_graph(path, hints=hints)
        optimize(graph)
        return cls(graph, Session(graph, Config(precision="high", threads=1)))

    def run(self, x: np.ndarray) -> list[np.ndarray]:
        """The outputs, in an order that the formats share: by size, then by the sum of their numbers."""
        found = self.session.run({self.graph.inputs[0].name: x})
        return sorted(
            (np.asarray(a) for a in found.values()), key=lambda a: (a.size, float(a.reshape(-1)[:5000].sum()))
        )

    def work(self) -> Counter[str]:
        """Operators that compute, by name."""
        return Counter(_name(n.op) for n in self.graph.nodes if n.op not in VIEWS and not traits(n).moves)


def _name(op: str) -> str:
    return {"MatMul": "product", "Convolution": "product"}.get(op, op)


def basic_pitch(folder: Path) -> dict[str, Form]:
    del folder
    paths = {"onnx": zoo.path("basic_pitch"), "tflite": zoo.path("basic_pitch_tflite")}
    paths["tensorflow"] = zoo.path("basic_pitch_savedmodel").parent
    return {name: Form.of(path) for name, path in paths.items()}


def efficientnet(folder: Path) -> dict[str, Form]:
    """ONNX and two of PyTorch; ``.mnn``, and the ONNX file that is written from it."""
    made = written("trained_files", str(zoo.path("efficientnet_lite0_weights")))
    onnx = zoo.path("efficientnet_lite0")
    convert(onnx, folder / "net.mnn")
    convert(folder / "net.mnn", folder / "back.onnx")
    return {
        "onnx": Form.of(onnx),
        "torchscript": Form.of(made / "cases-net.pt", Hints({"x": "1x3x224x224"})),
        "exported program": Form.of(made / "cases-net.pt2"),
        "mnn": Form.of(folder / "net.mnn"),
        "onnx from mnn": Form.of(folder / "back.onnx"),
    }


NETWORKS: dict[str, tuple[Callable[[Path], dict[str, Form]], tuple[int, ...]]] = {
    "basic pitch": (basic_pitch, (1, 43844, 1)),
    "efficientnet": (efficientnet, (1, 3, 224, 224)),
}


def speeds(forms: Mapping[str, Form], x: np.ndarray, turns: int = TURNS) -> dict[str, float]:
    """Milliseconds of CPU time, the minimum of runs in turns."""
    best = dict.fromkeys(forms, float("inf"))
    for _ in range(turns):
        for name, form in forms.items():
            start = time.process_time()
            form.session.run({form.graph.inputs[0].name: x})
            best[name] = min(best[name], (time.process_time() - start) * 1e3)
    return best


def main() -> None:
    for network, (load, shape) in NETWORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            forms = load(Path(folder))
            x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * np.float32(0.1)
            first, *_ = (form.run(x) for form in forms.values())
            best = speeds(forms, x)
            for name, form in forms.items():
                pairs = zip(form.run(x), first, strict=True)
                error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)
                nodes = len(form.graph.nodes)
                print(f"{network:14} {name:18} {nodes:4} operators {best[name]:8.2f} ms  {error:.1e} from the first")


if __name__ == "__main__":
    main()
