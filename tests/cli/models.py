"""Small ONNX models that the tests of the commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Sequence[int | str]]],
    outputs: dict[str, tuple[int, Sequence[int | str]]],
    constants: dict[str, np.ndarray] | None = None,
    domains: dict[str, int] | None = None,
) -> Path:
    """Writes a model of opset 17; inputs and outputs are name to (element type, shape)."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(n, *t) for n, t in inputs.items()],
        [helper.make_tensor_value_info(n, *t) for n, t in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid(d, v) for d, v in {"": 17, **(domains or {})}.items()]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def unsupported(path: Path) -> Path:
    """Three nodes that nothing can convert, of two domains, around one that can be."""
    nodes = [
        helper.make_node("NoSuchOperator", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="fine"),
        helper.make_node("Vendor", ["b"], ["c"], name="second", domain="com.example"),
        helper.make_node("NoSuchOperator", ["c"], ["y"], name="third"),
    ]
    value = (TensorProto.FLOAT, [1, 4])
    return save(path, nodes, {"x": value}, {"y": value}, domains={"com.example": 3})


def chain(path: Path, third: float = 3.0) -> Path:
    """y = sigmoid((x * 2 + 1) * third - x), every step with a name; x is float Nx4."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["doubled"], name="double"),
        helper.make_node("Sin", ["doubled"], ["wave"], name="sine"),
        helper.make_node("Mul", ["wave", "third"], ["scaled"], name="scale"),
        helper.make_node("Sub", ["scaled", "x"], ["less"], name="subtract"),
        helper.make_node("Sigmoid", ["less"], ["y"], name="squash"),
    ]
    value = (TensorProto.FLOAT, ["N", 4])
    constants = {"two": np.float32([2.0]), "third": np.float32([third])}
    return save(path, nodes, {"x": value}, {"y": value}, constants)


def two_inputs(path: Path) -> Path:
    """sum of a float picture Nx3xHxW and an int64 per batch entry."""
    nodes = [
        helper.make_node("Cast", ["k"], ["f"], to=TensorProto.FLOAT, name="cast"),
        helper.make_node("Add", ["image", "f"], ["y"], name="add"),
    ]
    inputs = {
        "image": (TensorProto.FLOAT, ["N", 3, "H", "W"]),
        "k": (TensorProto.INT64, ["N", 1, 1, 1]),
    }
    return save(path, nodes, inputs, {"y": (TensorProto.FLOAT, ["N", 3, "H", "W"])})


def strings(path: Path) -> Path:
    """Two strings put together: an operator that the official engine does not have."""
    value = (TensorProto.STRING, [2])
    nodes = [helper.make_node("StringConcat", ["a", "b"], ["y"])]
    save(path, nodes, {"a": value, "b": value}, {"y": value})
    model = onnx.load(str(path))
    model.opset_import[0].version = 20
    onnx.save(model, str(path))
    return path


def pictures(path: Path) -> Path:
    """A ReLU over pictures of any size."""
    value = (TensorProto.FLOAT, ["N", 3, "height", "width"])
    return save(path, [helper.make_node("Relu", ["x"], ["y"])], {"x": value}, {"y": value})


def maps_and_sequences(path: Path) -> Path:
    """Outputs that are no tensors of numbers: a map for each row, the rows as a sequence, and strings."""
    nodes = [
        helper.make_node("ZipMap", ["x"], ["maps"], domain="ai.onnx.ml", classlabels_strings=["cat", "dog"]),
        helper.make_node("SplitToSequence", ["x"], ["parts"]),
        helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Cast", ["whole"], ["words"], to=TensorProto.STRING),
    ]
    inner = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    outputs = [
        helper.make_value_info("maps", helper.make_sequence_type_proto(inner)),
        helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("words", TensorProto.STRING, [3, 2]),
    ]
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path
