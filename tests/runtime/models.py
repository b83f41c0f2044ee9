"""Small ONNX models for profiles and tuning, as graphs."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from MNN.frontends import load_graph
from MNN.ir.graph import Graph


def _weights(rng: np.random.Generator, name: str, *shape: int) -> TensorProto:
    scale = np.float32(1 / np.sqrt(np.prod(shape[1:]) or 1))
    return numpy_helper.from_array(rng.standard_normal(shape, np.float32) * scale, name)


def _graph(nodes: list[onnx.NodeProto], shape: list[str | int], constants: list[TensorProto]) -> Graph:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return load_graph(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def convolutions() -> Graph:
    """Two 3x3 convolutions with a ReLU, a depthwise one, and a mean over the picture."""
    rng = np.random.default_rng(3)
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", **same),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "depthwise", group=16, **same),
        helper.make_node("Conv", ["c2", "w3", "b3"], ["c3"], "conv3", **same),
        helper.make_node("GlobalAveragePool", ["c3"], ["y"], "mean"),
    ]
    constants = [
        _weights(rng, "w1", 16, 3, 3, 3), _weights(rng, "b1", 16), _weights(rng, "w2", 16, 1, 3, 3),
        _weights(rng, "w3", 24, 16, 3, 3), _weights(rng, "b3", 24),
    ]  # fmt: skip
    return _graph(nodes, ["n", 3, "h", "w"], constants)


def branching() -> Graph:
    """Rows picked by their values: how many there are is only known while the model runs."""
    rng = np.random.default_rng(4)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "product"),
        helper.make_node("ReduceSum", ["m", "axis"], ["s"], "sums", keepdims=0),
        helper.make_node("Abs", ["s"], ["positive"], "abs"),
        helper.make_node("Greater", ["positive", "zero"], ["chosen"], "greater"),
        helper.make_node("Compress", ["m", "chosen"], ["picked"], "compress", axis=0),
        helper.make_node("MatMul", ["picked", "w"], ["y"], "again"),
    ]
    constants = [
        _weights(rng, "w", 4, 4),
        numpy_helper.from_array(np.array([1], np.int64), "axis"),
        numpy_helper.from_array(np.array(0.0, np.float32), "zero"),
    ]
    return _graph(nodes, ["n", 4], constants)
