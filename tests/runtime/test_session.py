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


def test_outputs_that_are_the_same_do_not_share_memory() -> None:
    x, y, z = Value("x", DType.F32, ("n", 3)), Value("y", DType.F32), Value("z", DType.F32)
    nodes = [Node("ReLU", "act", [x], [y]), Node("Identity", "same", [y], [z])]
    session = Session(Graph("g", [x], [y, z, x], nodes))
    for _ in range(3):
        found = session.run({"x": np.ones((1, 3), np.float32)})
        found["y"][...] = 99
        assert found["z"].tolist() == found["x"].tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, ["missing input x", "x: f32 n x 3"]),
        ({"x": np.zeros((1, 3), np.float32), "z": np.zeros(1)}, ["unknown input z"]),
        ({"x": np.zeros((1, 4), np.float32)}, ["[1, 4]", "['n', 3]"]),
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


def test_widths_are_converted_and_kinds_are_not() -> None:
    session = Session(relu_graph()[0])
    want = [[1.0, 0.0, 3.0]]
    for kind in (np.float32, np.float64, np.float16):
        assert session.run({"x": np.array([[1, -2, 3]], kind)})["y"].tolist() == want
    assert session.run({"x": [[1, -2, 3]]})["y"].tolist() == want
    with pytest.raises(ShapeError, match=r"'x' is u8 but the model takes f32.*astype\(np.float32\) / 255"):
        session.run({"x": np.zeros((1, 3), np.uint8)})
    with pytest.raises(ShapeError, match="numbers that f32, which the model takes, cannot hold"):
        session.run({"x": np.array([[1e300, 0, 0]])})
    assert np.isnan(session.run({"x": np.array([[np.nan, 0, 0]])})["y"][0, 0])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64, np.bool_])
def test_whole_numbers_of_other_widths(kind: type) -> None:
    x, y = Value("x", DType.I16, (2,)), Value("y", DType.I16)
    session = Session(Graph("g", [x], [y], [Node("UnaryOp", "n", [x], [y], {"opType": "NEG"})]))
    assert session.run({"x": np.array([0, 1], kind)})["y"].tolist() == [0, -1]
    if np.dtype(kind).itemsize > 2:
        with pytest.raises(ShapeError, match="cannot hold: they are from 0 to 40000"):
            session.run({"x": np.array([0, 40000], kind)})
    with pytest.raises(ShapeError, match="'x' is f32 but the model takes i16"):
        session.run({"x": np.zeros(2, np.float32)})


def test_what_is_no_dict_of_arrays() -> None:
    session = Session(relu_graph()[0])
    data = np.array([[1, -2, 3]], np.float32)
    assert session.run(data)["y"].tolist() == session.run(data.tolist())["y"].tolist() == [[1, 0, 3]]
    assert session.run(data, "y")["y"].tolist() == [[1, 0, 3]]
    for feeds, words in ((None, "not nothing"), ("x", "not the text 'x'")):
        with pytest.raises(ShapeError, match=f"a run takes a dict of arrays by name, {words}: {{'x': array}}"):
            session.run(feeds)
    for fetch in (3, b"y", [1], {"y"}):
        with pytest.raises(ShapeError, match=r"fetch takes names of tensors, such as \['y', 'c'\], not"):
            session.run({"x": data}, fetch)


def test_as_onnxruntime_has_it() -> None:
    session = Session(relu_graph()[0])
    data = np.array([[1, -2, 3]], np.float32)
    assert [found.tolist() for found in session.run(None, {"x": data})] == [[[1, 0, 3]], [1, 2], [[1, -2, 3]]]
    for names in (["y"], "y"):
        (found,) = session.run(names, {"x": data})
        assert found.tolist() == [[1, 0, 3]]
    (given,) = session.get_inputs()
    assert (given.name, given.type, list(given.shape)) == ("x", "tensor(float)", ["n", 3])
    assert [o.name for o in session.get_outputs()] == ["y", "c", "x"]
