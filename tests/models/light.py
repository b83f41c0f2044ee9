"""The nine full-size classifiers that the onnx package carries, with stored outputs.

Their weights are constants filled by the graph itself, so that the stored answers are nearly uniform: right, but a weak
test. :func:`randomised` gives the same graphs seeded random weights, for comparing engines number by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx.backend.test
from onnx import numpy_helper

from tests.models.task import Array, Run

FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"
NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
# onnx's own tolerances of these cases
RTOL = {"densenet121": 2e-3}
ATOL = 1e-7


@dataclass(frozen=True)
class Light:
    """One such model: its file, its input as onnx's runner makes it, and its stored output."""

    name: str

    @property
    def path(self) -> Path:
        return FOLDER / f"light_{self.name}.onnx"

    def feeds(self) -> dict[str, Array]:
        """A ramp from 0 to 1 over all elements."""
        graph = onnx.load(str(self.path)).graph
        constants = {i.name for i in graph.initializer}
        (value,) = (v for v in graph.input if v.name not in constants)
        shape = tuple(d.dim_value if d.HasField("dim_value") else 1 for d in value.type.tensor_type.shape.dim)
        count = int(np.prod(shape))
        return {value.name: (np.arange(count).reshape(shape) / count).astype(np.float32)}

    def expected(self) -> dict[str, Array]:
        (output,) = onnx.load(str(self.path)).graph.output
        stored = onnx.TensorProto()
        stored.ParseFromString((FOLDER / f"light_{self.name}_output_0.pb").read_bytes())
        return {output.name: numpy_helper.to_array(stored)}

    def check(self, run: Run) -> None:
        found = run(self.feeds())
        for name, expected in self.expected().items():
            np.testing.assert_allclose(found[name], expected, rtol=RTOL.get(self.name, 1e-3), atol=ATOL)


LIGHT = tuple(Light(name) for name in NAMES)


# those whose weights stay below about 100 MB
SMALL = ("densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet")


def randomised(name: str, seed: int = 0) -> onnx.ModelProto:
    """The graph called ``name`` with random weights in place of its constant ones, ending before its softmax."""
    model = onnx.load(str(FOLDER / f"light_{name}.onnx"))
    graph = model.graph
    rng = np.random.default_rng(seed)
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    uses = {n: (node, k) for node in graph.node for k, n in enumerate(node.input)}
    kept, made = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        user, position = uses[node.output[0]]
        if user.op_type == "Unsqueeze":  # a scale or shift spread over the picture
            user, position = uses[user.output[0]]
        shape = tuple(int(d) for d in shapes[node.input[0]])
        made.append(numpy_helper.from_array(_weight(rng, user.op_type, position, shape), node.output[0]))
    if kept[-1].op_type == "Softmax":
        last = kept.pop()
        graph.output[0].name = last.input[0]
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(made)
    return model


def _weight(rng: np.random.Generator, op: str, position: int, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    if op in ("Conv", "Gemm") and position == 1:
        fan_in = int(np.prod(shape[1:]))
        data = rng.standard_normal(shape) * np.sqrt(2 / fan_in)
    elif op == "Mul" or (op == "BatchNormalization" and position in (1, 4)):  # scale, variance
        data = rng.uniform(0.5, 1.5, shape)
    else:  # bias, shift, mean
        data = rng.standard_normal(shape) * 0.1
    return data.astype(np.float32)
