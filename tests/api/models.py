"""Small models for these tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from MNN.converter import convert


def classifier(seed: int = 0, classes: int = 7) -> onnx.ModelProto:
    """``data`` [1, 3, 224, 224] to ``prob`` [1, classes]: two convolutions, an average, a product, a softmax."""
    rng = np.random.default_rng(seed)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) * 0.2, name)

    weights = [weight("w1", 8, 3, 7, 7), weight("b1", 8), weight("w2", 16, 8, 3, 3), weight("b2", 16)]
    weights += [weight("w3", 16, classes), weight("b3", classes)]
    nodes = [
        helper.make_node("Conv", ["data", "w1", "b1"], ["c1"], "conv1", strides=[8, 8], pads=[3, 3, 3, 3]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["mean"], "pool"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["logits"], "product"),
        helper.make_node("Softmax", ["logits"], ["prob"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, 224, 224])],
        [helper.make_tensor_value_info("prob", TensorProto.FLOAT, [1, classes])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def two_in_two_out() -> onnx.ModelProto:
    """``a`` [n, 4] and ``b`` [n, 4] (open first size), ``k`` int64 [1]: ``sum = a + b``, ``best`` int64 positions."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], "add"),
        helper.make_node("ArgMax", ["sum"], ["top"], "argmax", axis=1, keepdims=0),
        helper.make_node("Add", ["top", "k"], ["best"], "shift"),
    ]
    floats = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in ("a", "b", "sum")]
    graph = helper.make_graph(
        nodes,
        "two",
        [*floats[:2], helper.make_tensor_value_info("k", TensorProto.INT64, [1])],
        [floats[2], helper.make_tensor_value_info("best", TensorProto.INT64, ["n"])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def write(model: onnx.ModelProto, folder: Path, kind: str) -> str:
    """The model as a file of a kind (onnx or mnn)."""
    source = folder / "model.onnx"
    onnx.save(model, source)
    if kind == "onnx":
        return str(source)
    target = folder / "model.mnn"
    convert(source, target)
    return str(target)
