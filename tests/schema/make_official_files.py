"""Writes the .mnn files of ``data/`` with the official converter, from random networks.

Run by hand, with a Python of its own environment that has ``MNN==3.6.1``, ``numpy`` and ``onnx``:

    python -m venv official && official/bin/pip install MNN==3.6.1 numpy onnx
    rm official/lib/python*/site-packages/MNN/tools/utils/log.py    # it reports usage
    official/bin/python tests/schema/make_official_files.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DATA = Path(__file__).with_name("data")
RNG = np.random.default_rng(0)
F32 = TensorProto.FLOAT
Shape = list[Any]


def weight(*shape: int, density: float = 1.0) -> np.ndarray:
    values = (RNG.standard_normal(shape) * 0.2).astype(np.float32)
    values[RNG.random(shape) >= density] = 0
    return values


def save(path: Path, nodes: list[Any], x: Shape, y: Shape, constants: dict[str, Any]) -> None:
    inits = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, path.stem, [info("x", F32, x)], [info("y", F32, y)], inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)


def convnet(path: Path) -> None:
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        n("Relu", ["a"], ["b"]),
        n("Conv", ["b", "w2", "b2"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=16),
        n("Clip", ["c", "lo", "hi"], ["d"]),
        n("Conv", ["d", "w3"], ["e"], kernel_shape=[1, 1]),
        n("GlobalAveragePool", ["e"], ["p"]),
        n("Flatten", ["p"], ["q"]),
        n("Gemm", ["q", "w4", "b4"], ["y"], transB=1),
    ]
    constants = {"w1": weight(16, 3, 3, 3), "b1": weight(16), "w2": weight(16, 1, 3, 3), "b2": weight(16)}
    constants |= {"lo": np.float32(0), "hi": np.float32(6), "w3": weight(32, 16, 1, 1)}
    constants |= {"w4": weight(10, 32), "b4": weight(10)}
    save(path, nodes, [1, 3, 16, 16], [1, 10], constants)


def attn(path: Path) -> None:
    n = helper.make_node
    nodes = [
        n("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1),
        n("MatMul", ["n", "wq"], ["q"]),
        n("MatMul", ["n", "wk"], ["k"]),
        n("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        n("MatMul", ["q", "kt"], ["s"]),
        n("Softmax", ["s"], ["sm"], axis=-1),
        n("MatMul", ["sm", "n"], ["o"]),
        n("Gather", ["emb", "idx"], ["em"], axis=0),
        n("Add", ["o", "em"], ["y"]),
    ]
    constants = {"g": weight(32), "b": weight(32), "wq": weight(32, 32), "wk": weight(32, 32)}
    constants |= {"emb": weight(100, 32), "idx": np.arange(8)}
    save(path, nodes, ["n", 8, 32], ["n", 8, 32], constants)


def branch(path: Path) -> None:
    n, info = helper.make_node, helper.make_tensor_value_info
    two, one = (numpy_helper.from_array(np.float32(v), k) for k, v in (("two", 2), ("one", 1)))
    then = helper.make_graph([n("Mul", ["x", "two"], ["t"])], "then", [], [info("t", F32, None)], [two])
    other = helper.make_graph([n("Add", ["x", "one"], ["e"])], "else", [], [info("e", F32, None)], [one])
    nodes = [
        n("ReduceSum", ["x"], ["s"], keepdims=0),
        n("Greater", ["s", "z"], ["c"]),
        n("If", ["c"], ["i"], then_branch=then, else_branch=other),
        n("LSTM", ["i", "W", "R", "B"], ["y", "yh", "yc"], hidden_size=4),
    ]
    constants = {"z": np.float32(0), "W": weight(1, 16, 3), "R": weight(1, 16, 4), "B": weight(1, 32)}
    save(path, nodes, [5, 1, 3], [5, 1, 1, 4], constants)


def misc(path: Path) -> None:
    n = helper.make_node
    nodes = [
        n("Resize", ["x", "", "sc"], ["r"], mode="nearest"),
        n("Slice", ["r", "s0", "s1"], ["s"]),
        n("Pad", ["s", "pads"], ["p"]),
        n("Cast", ["p"], ["i"], to=TensorProto.INT32),
        n("Cast", ["i"], ["j"], to=F32),
        n("ConvTranspose", ["j", "w"], ["t"], strides=[2, 2]),
        n("Conv", ["t", "w3"], ["u"], kernel_shape=[1, 1]),
        n("Clip", ["u", "", "hi"], ["y"]),
    ]
    constants = {"sc": np.array([1, 1, 2, 2], np.float32), "s0": np.array([0, 0, 1, 1]), "s1": np.array([1, 4, 9, 9])}
    constants |= {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "w": weight(4, 8, 2, 2), "w3": weight(64, 8, 1, 1)}
    save(path, nodes, [1, 4, 6, 6], ["a", "b", "c", "d"], constants | {"hi": np.float32(1)})


def sparse(path: Path) -> None:
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        n("Relu", ["a"], ["b"]),
        n("Conv", ["b", "w3"], ["y"], kernel_shape=[1, 1]),
    ]
    constants = {"w1": weight(64, 32, 3, 3, density=0.1), "b1": weight(64), "w3": weight(64, 64, 1, 1, density=0.1)}
    save(path, nodes, [1, 32, 8, 8], [1, 64, 8, 8], constants)


FILES = {
    convnet: {"f32": [], "w4h": ["--weightQuantBits", "4", "--weightQuantBlock", "16"]},
    misc: {"w3": ["--weightQuantBits", "3"]},
    branch: {"f32": []},
    attn: {
        "fp16": ["--fp16"],
        "w8": ["--weightQuantBits", "8"],
        "ext4": ["--saveExternalData", "--weightQuantBits", "4"],
    },
    sparse: {
        "s4": ["--detectSparseSpeedUp", "1", "--weightQuantBits", "4"],
        "se": ["--detectSparseSpeedUp", "1", "--saveExternalData"],
    },
}


def main() -> None:
    import _tools

    import MNN  # noqa: F401  (loads the library that _tools needs)

    with tempfile.TemporaryDirectory() as folder:
        for make, variants in FILES.items():
            source = Path(folder, f"{make.__name__}.onnx")
            make(source)
            for tag, options in variants.items():
                target = DATA / f"{make.__name__}.{tag}.mnn"
                arguments = ["x", "-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(target), "--bizCode", "b"]
                _tools.mnnconvert(arguments + options)


if __name__ == "__main__":
    main()
