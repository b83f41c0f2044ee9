"""Weights that front ends copy out of a file, and what passes compute of them, need no memory once they are packed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN
from MNN.cache import scratch
from MNN.cache.scratch import SMALLEST
from MNN.model import open_graph
from MNN.schema.files import in_file
from tests.frontends.caffe.build import caffemodel, inputs, layer, prototxt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems keep arrays where they are")
CHANNELS, SIDE = 96, 6


def _drawn() -> dict[str, np.ndarray]:
    """Filters, statistics of a normalisation behind them, and a matrix."""
    rng = np.random.default_rng(0)
    shapes = {"w": (CHANNELS, CHANNELS, 3, 3), "mean": (CHANNELS,), "matrix": (200, CHANNELS * SIDE * SIDE)}
    drawn = {name: rng.standard_normal(shape, np.float32) * np.float32(0.05) for name, shape in shapes.items()}
    return drawn | {"variance": rng.uniform(0.5, 2, CHANNELS).astype(np.float32)}


def _onnx(folder: Path) -> Path:
    ones = {"scale": np.ones(CHANNELS, np.float32), "shift": np.zeros(CHANNELS, np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("Flatten", ["n"], ["f"]),
        helper.make_node("Gemm", ["f", "matrix"], ["y"], transB=1),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, CHANNELS, SIDE, SIDE]), ("y", [1, 200]))
    ]
    constants = [numpy_helper.from_array(a, name) for name, a in (_drawn() | ones).items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _caffe(folder: Path) -> Path:
    drawn = _drawn()
    filters = {"num_output": CHANNELS, "kernel_size": [3], "pad": [1], "bias_term": False}
    product = {"num_output": 200, "bias_term": False}
    net = {
        "name": "net",
        "layer": [
            *inputs(x=(1, CHANNELS, SIDE, SIDE)),
            layer("Convolution", ["x"], ["c"], [drawn["w"]], convolution_param=filters),
            layer("BatchNorm", ["c"], ["n"], [drawn["mean"], drawn["variance"], np.ones(1, np.float32)]),
            layer("InnerProduct", ["n"], ["y"], [drawn["matrix"]], inner_product_param=product),
        ],
    }
    (folder / "net.prototxt").write_text(prototxt(net))
    path = folder / "net.caffemodel"
    path.write_bytes(caffemodel(net))
    return path


@pytest.mark.parametrize("write", [_onnx, _caffe])
def test_weights_lie_in_files(write: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All large ones, whether read or folded; answers are those of weights in memory."""
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(scratch, "_FILE", 4 << 20)
    path = write(tmp_path)
    x = np.random.default_rng(1).random((1, CHANNELS, SIDE, SIDE), np.float32)
    (expected,) = MNN.load(path, threads=1, cache=False).run({"x": x}).values()
    assert not any(map(in_file, _large(path)))
    monkeypatch.setattr("MNN.model.FEW", 0)
    assert len(_large(path)) >= 2
    assert all(map(in_file, _large(path)))
    (found,) = MNN.load(path, threads=1, cache=False).run({"x": x}).values()
    np.testing.assert_array_equal(found, expected)


def _large(path: Path) -> list[np.ndarray]:
    arrays = [v.data for v in open_graph(path).values() if isinstance(v.data, np.ndarray)]
    return [a for a in arrays if a.nbytes >= SMALLEST]
