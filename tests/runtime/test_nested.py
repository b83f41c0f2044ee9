"""Sequences, maps and optionals as inputs and outputs of sessions, modules and interpreters."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import MNN
from MNN.converter import convert
from MNN.errors import ShapeError, UnsupportedError

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def tensor(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def sequence(name, kind=FLOAT):
    return helper.make_tensor_sequence_value_info(name, kind, None)


def a_map(name, key, kind=FLOAT):
    return helper.make_value_info(name, helper.make_map_type_proto(key, helper.make_tensor_type_proto(kind, None)))


def maps(name, key):
    inner = helper.make_map_type_proto(key, helper.make_tensor_type_proto(FLOAT, None))
    return helper.make_value_info(name, helper.make_sequence_type_proto(inner))


def optional(name):
    return helper.make_value_info(name, helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, None)))


def model(nodes, inputs, outputs):
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, ir_version=9)
    return made.SerializeToString()


@pytest.fixture(params=["onnx", "mnn"])
def opened(request, tmp_path):
    """A way to open a model: as it is, and converted."""

    def open_model(data):
        if request.param == "onnx":
            return MNN.load(data)
        convert(data, tmp_path / "m.mnn")
        return MNN.load(str(tmp_path / "m.mnn"))

    return open_model


def same(got, wanted):
    assert type(got) is type(wanted)
    if isinstance(wanted, list):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            same(a, b)
    elif isinstance(wanted, np.ndarray):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    else:
        assert got == wanted


def against_onnxruntime(data, feeds, opened):
    arrays = {k: np.asarray(v) if isinstance(v, np.generic) else v for k, v in feeds.items()}
    wanted = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, arrays)
    found = opened(data).run(feeds)
    for got, expected in zip(found.values(), wanted, strict=True):
        same(got, expected)
    return list(found.values())


def test_a_sequence_in_and_out(opened):
    nodes = [
        helper.make_node("SequenceAt", ["s", "at"], ["one"]),
        helper.make_node("Relu", ["one"], ["two"]),
        helper.make_node("SequenceInsert", ["s", "two", "at"], ["longer"]),
        helper.make_node("SequenceErase", ["longer"], ["out"]),
        helper.make_node("SequenceLength", ["out"], ["n"]),
    ]
    data = model(nodes, [sequence("s"), tensor("at", INT64, [])], [sequence("out"), tensor("n", INT64, [])])
    for count, at in ((2, 0), (3, -1)):
        given = [X[:i] - 2 for i in range(1, count + 1)]
        found = against_onnxruntime(data, {"s": given, "at": np.int64(at)}, opened)
        assert len(found[0]) == count == found[1]


def test_results_are_the_callers_own(opened):
    nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["s"])]
    (found,) = opened(model(nodes, [tensor("x", shape=[4, 3])], [sequence("s")])).run({"x": X}).values()
    found[0][:] = -1
    assert X.min() == 0
    assert found[1].min() == 0


def test_a_sequence_over_a_stage_that_waits_for_numbers(opened):
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=0, keepdims=0),
        helper.make_node("NonZero", ["x"], ["where"]),
        helper.make_node("SequenceEmpty", [], ["e"]),
        helper.make_node("Cast", ["where"], ["places"], to=FLOAT),
        helper.make_node("SequenceInsert", ["s", "places"], ["out"]),
    ]
    against_onnxruntime(model(nodes, [tensor("x", shape=[4, 3])], [sequence("out"), sequence("e")]), {"x": X}, opened)


def growing(condition):
    """A loop that carries a sequence, for as many turns as an input says."""
    body_nodes = [
        helper.make_node("Cast", ["i"], ["number"], to=FLOAT),
        helper.make_node("Add", ["x", "number"], ["row"]),
        helper.make_node("SequenceInsert", ["s_in", "row"], ["s_out"]),
    ]
    if condition:
        body_nodes += [
            helper.make_node("ReduceSum", ["row"], ["total"], keepdims=0),
            helper.make_node("Less", ["total", "limit"], ["go"]),
        ]
    else:
        body_nodes.append(helper.make_node("Identity", ["c"], ["go"]))
    body = helper.make_graph(
        body_nodes,
        "body",
        [tensor("i", INT64, []), tensor("c", TensorProto.BOOL, []), sequence("s_in")],
        [tensor("go", TensorProto.BOOL, []), sequence("s_out")],
    )
    nodes = [
        helper.make_node("SequenceEmpty", [], ["s"]),
        helper.make_node("Loop", ["n", "", "s"], ["out"], body=body),
        helper.make_node("ConcatFromSequence", ["out"], ["joined"], axis=0, new_axis=1),
    ]
    inputs = [tensor("x", shape=[3]), tensor("n", INT64, []), tensor("limit", shape=[])]
    return model(nodes, inputs, [sequence("out"), tensor("joined")])


@pytest.mark.parametrize("condition", [False, True])
def test_a_loop_that_grows_a_sequence(condition, opened):
    feeds = {"x": X[1], "limit": np.float32(20)}
    lengths = []
    for turns in (2, 5):
        found = against_onnxruntime(growing(condition), {**feeds, "n": np.int64(turns)}, opened)
        lengths.append(len(found[0]))
    assert lengths == ([2, 4] if condition else [2, 5])


def test_a_branch_gives_one_sequence_or_another(opened):
    short = helper.make_graph([helper.make_node("SequenceConstruct", ["x"], ["a"])], "t", [], [sequence("a")])
    long = helper.make_graph([helper.make_node("SplitToSequence", ["x"], ["b"])], "e", [], [sequence("b")])
    nodes = [helper.make_node("If", ["c"], ["out"], then_branch=short, else_branch=long)]
    data = model(nodes, [tensor("x", shape=[4, 3]), tensor("c", TensorProto.BOOL, [])], [sequence("out")])
    assert [len(against_onnxruntime(data, {"x": X, "c": np.bool_(c)}, opened)[0]) for c in (True, False)] == [1, 4]


def test_optionals(opened):
    nodes = [helper.make_node("OptionalHasElement", ["o"], ["has"]), helper.make_node("Identity", ["o"], ["same"])]
    session = opened(model(nodes, [optional("o")], [tensor("has", TensorProto.BOOL, []), optional("same")]))
    for value in (None, X):
        found = session.run({"o": value})
        assert found["has"] == (value is not None)
        same(found["same"], value)


def test_a_map_for_every_row(opened):
    for labels, key in (({"classlabels_strings": ["a", "b", "c"]}, STRING), ({"classlabels_int64s": [7, 5, 3]}, INT64)):
        nodes = [helper.make_node("ZipMap", ["x"], ["m"], domain="ai.onnx.ml", **labels)]
        (found,) = against_onnxruntime(model(nodes, [tensor("x", shape=[None, 3])], [maps("m", key)]), {"x": X}, opened)
        assert found[1] == dict(zip(next(iter(labels.values())), [3.0, 4.0, 5.0], strict=True))


def test_maps_in(opened):
    words = helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", string_vocabulary=["x", "y", "z"])
    data = model([words], [a_map("m", STRING)], [tensor("y")])
    against_onnxruntime(data, {"m": {"z": 2.5, "x": 1.0, "other": 4.0}}, opened)
    numbers = helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", int64_vocabulary=[5, 6])
    against_onnxruntime(model([numbers], [a_map("m", INT64)], [tensor("y")]), {"m": {6: 2.0}}, opened)


@pytest.mark.parametrize(("to", "kind"), [("TO_FLOAT", FLOAT), ("TO_INT64", INT64), ("TO_STRING", STRING)])
@pytest.mark.parametrize("form", [{}, {"map_form": "SPARSE", "max_map": 6}])
def test_cast_map(to, kind, form, opened):
    node = helper.make_node("CastMap", ["m"], ["y"], domain="ai.onnx.ml", cast_to=to, **form)
    data = model([node], [a_map("m", INT64, STRING)], [tensor("y", kind)])
    (found,) = opened(data).run({"m": {5: "3", 1: "2"}}).values()
    row = ["2", "3"] if not form else ["", "2", "", "", "", "3"]
    wanted = np.array([[w if kind == STRING else float(w or 0) for w in row]])
    assert found.tolist() == wanted.astype(found.dtype).tolist()
    assert found.dtype == {FLOAT: np.float32, INT64: np.int64, STRING: object}[kind]


def test_what_does_not_fit():
    nodes = [helper.make_node("SequenceAt", ["s", "at"], ["y"])]
    session = MNN.load(model(nodes, [sequence("s"), tensor("at", INT64, [])], [tensor("y")]))
    with pytest.raises(ShapeError, match="give a list of arrays"):
        session.run({"s": X, "at": np.int64(0)})
    with pytest.raises(ShapeError, match="outside a sequence of 1"):
        session.run({"s": [X], "at": np.int64(1)})
    node = helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", int64_vocabulary=[5, 6])
    session = MNN.load(model([node], [a_map("m", INT64)], [tensor("y")]))
    with pytest.raises(ShapeError, match="give a dict"):
        session.run({"m": [X]})
    with pytest.raises(ShapeError, match="keys of str, the vocabulary of i64"):
        session.run({"m": {"a": 1.0}})
    with pytest.raises(ShapeError, match="a dict from strings or integers"):
        session.run({"m": {1.5: 1.0}})


def test_pymnn_ways(tmp_path):
    nodes = [helper.make_node("SplitToSequence", ["x"], ["s"]), helper.make_node("SequenceLength", ["s"], ["n"])]
    path = tmp_path / "m.mnn"
    convert(model(nodes, [tensor("x", shape=[4, 3])], [sequence("s"), tensor("n", INT64, [])]), path)
    rows, count = MNN.nn.load_module_from_file(str(path), [], []).forward([X])
    assert len(rows) == 4
    assert int(count.read()) == 4
    np.testing.assert_array_equal(rows[2].read(), X[2:3])
    interpreter = MNN.Interpreter(str(path))
    with pytest.raises(UnsupportedError, match=r"'s' is a sequence, which no Tensor can hold; use MNN.load\(\)"):
        interpreter.createSession()
    session = interpreter.createSession({"outputPaths": ["n"]})
    interpreter.runSession(session)
    assert interpreter.getSessionOutput(session, "n").getNumpyData() == 4
    joined = [helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)]
    convert(model(joined, [sequence("s")], [tensor("y")]), path)
    (found,) = MNN.nn.load_module_from_file(str(path), [], []).forward([[rows[0], X[3:]]])
    np.testing.assert_array_equal(found.read(), X[[0, 3]])
