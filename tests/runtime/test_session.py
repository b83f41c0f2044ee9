"""Sessions: what they check, and whose memory results are."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.session import Session


def relu_graph() -> tuple[Graph, np.ndarray]:
    x, y = Value("x", DType.F32, ("n", 3)), Value("y", DType.F32)
    constant = Value("c", DType.F32, (2,), np.array([1.0, 2.0], np.float32))
    graph = Graph("g", [x], [y, constant, x], [Node("ReLU", "act", [x], [y])])
    assert isinstance(constant.data, np.ndarray)
    return graph, constant.data


def test_results_are_the_callers_own() -> None:
    graph, constant = relu_graph()
    session = Session(graph)
    data = np.array([[-1.0, 0.0, 2.0]], np.float32)
    first = session.run({"x": data})
    for array in first.values():
        array[...] = 99
    assert constant.tolist() == [1.0, 2.0]
    assert data.tolist() == [[-1.0, 0.0, 2.0]]
    assert session.run({"x": data})["y"].tolist() == [[0.0, 0.0, 2.0]]


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, ["missing input(s) x", "x: f32 nx3"]),
        ({"x": np.zeros((1, 3), np.float32), "z": np.zeros(1)}, ["unknown input(s) z"]),
        ({"x": np.zeros((1, 4), np.float32)}, ["[1, 4]", "['n', 3]"]),
        ({"x": np.zeros((1, 3), np.float64)}, ["f64", "f32"]),
        ({"x": np.zeros((1, 3), np.complex64)}, ["complex64"]),
    ],
)
def test_misfits_are_named(feeds: dict[str, np.ndarray], words: list[str]) -> None:
    with pytest.raises(ShapeError) as error:
        Session(relu_graph()[0]).run(feeds)
    assert all(w in str(error.value) for w in words)


def test_any_tensor_can_be_fetched() -> None:
    x, a, y = Value("x", DType.F32, (2,)), Value("a", DType.F32), Value("y", DType.F32)
    graph = Graph("g", [x], [y], [Node("ReLU", "r", [x], [a]), Node("Sigmoid", "s", [a], [y])])
    session = Session(graph)
    data = np.array([-1.0, 1.0], np.float32)
    assert session.run({"x": data}, ["a"])["a"].tolist() == [0.0, 1.0]
    with pytest.raises(ShapeError, match="no tensor named 'q'"):
        session.run({"x": data}, ["q"])


def test_strings_pass_through() -> None:
    from onnx import TensorProto, helper

    from MNN.frontends.onnx import load

    tensor = helper.make_tensor_value_info
    node = helper.make_node("StringConcat", ["a", "b"], ["c"])
    sides = [tensor(n, TensorProto.STRING, ["n"]) for n in "ab"]
    graph = helper.make_graph([node], "g", sides, [tensor("c", TensorProto.STRING, ["n"])])
    session = Session(load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])))
    words = np.array(["x", "yz"], dtype=object)
    assert session.run({"a": words, "b": words})["c"].tolist() == ["xx", "yzyz"]
