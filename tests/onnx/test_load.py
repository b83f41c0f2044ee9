"""Reading models: what survives, what is refused, and how it is said."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.frontends.common.problems import UnsupportedModelError
from MNN.frontends.onnx import load, registry
from tests.harness import run_reference
from tests.onnx.models import control_net, conv_net, function_net, model, value

X = np.array([-3, 0.5, 2], np.float32)


def test_names_and_metadata_survive():
    proto = conv_net()
    proto.producer_name = "maker"
    graph = load(proto)
    names = {v.name for v in graph.values()}
    assert {"x", "w", "c", "r", "p", "f", "z", "y"} <= names
    assert [v.name for v in graph.inputs] == ["x"]
    assert [v.name for v in graph.outputs] == ["y"]
    assert graph.meta["opsets"] == {"": 18}
    assert graph.meta["producer"] == "maker"


def test_sizes_and_types_are_known_before_running():
    graph = load(conv_net())
    known = {v.name: (v.dtype.value, v.shape) for v in graph.values() if v.dtype}
    assert known["c"] == ("f32", ("n", 8, 4, 4))
    assert known["p"] == ("f32", ("n", 8, 1, 1))
    assert known["f"][1][0] == "n"
    assert known["y"][1] == ("n", 5)


def test_control_flow_sees_values_from_outside():
    graph = load(control_net())
    for x in (np.array([0.25, 0.5, 1], np.float32), np.array([5, 5, 1], np.float32)):
        y, sums = run_reference(graph, {"x": x})
        total, expected = x + x if x.sum() > 10 else x - 1, []
        while not expected or expected[-1] < 10:
            total = total + x
            expected.append(total.sum())
        np.testing.assert_allclose(y, total)
        np.testing.assert_allclose(sums, expected)


def test_local_functions_are_expanded():
    (y,) = run_reference(load(function_net()), {"x": X})
    np.testing.assert_allclose(y, np.maximum(X * 1.5 * 1.5, -1))


def test_nodes_in_any_order_are_sorted():
    nodes = [helper.make_node("Neg", ["h"], ["y"]), helper.make_node("Abs", ["x"], ["h"])]
    proto = model(nodes)
    before = proto.SerializeToString()
    (y,) = run_reference(load(proto), {"x": X})
    assert y.tolist() == (-np.abs(X)).tolist()
    assert proto.SerializeToString() == before, "the caller's model was changed"


def test_an_output_may_be_an_input_or_a_constant():
    graph = load(model([], ["x"], ["x", "c"], [("c", np.arange(3, dtype=np.float32))]))
    x, c = run_reference(graph, {"x": X})
    assert x.tolist() == X.tolist()
    assert c.tolist() == [0, 1, 2]


def test_every_unsupported_operator_is_listed_at_once():
    branch = helper.make_graph(
        [helper.make_node("Deep", ["x"], ["d"], name="inner", domain="far")], "b", [], [value("d")]
    )
    nodes = [
        helper.make_node("First", ["x"], ["a"], name="n1", domain="far"),
        helper.make_node("First", ["a"], ["b"], name="n2", domain="far"),
        helper.make_node("Cast", ["b"], ["f8"], name="cast", to=TensorProto.COMPLEX64),
        helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch),
    ]
    with pytest.raises(UnsupportedModelError) as caught:
        load(model(nodes, ["x", value("flag", (), TensorProto.BOOL)], ["y"], far=3))
    found = {(p.node, p.op, p.defined) for p in caught.value.problems}
    far = "domain far, opset 3"
    assert {("n1", "First", far), ("n2", "First", far), ("inner", "Deep", far)} <= found
    assert any(p.node == "cast" for p in caught.value.problems)
    text = str(caught.value)
    assert "n1, n2" in text
    assert "COMPLEX64" in text
    assert "register_operator" in text


def test_attributes_that_nobody_reads_are_not_lost_silently():
    with pytest.raises(UnsupportedError, match="attribute 'strange'"):
        load(model([helper.make_node("Relu", ["x"], ["y"], strange=1)]))


@pytest.mark.parametrize(("opset", "error"), [(10_000, "upgrade onnx"), (0, "opset 0")])
def test_opsets_out_of_range(opset, error):
    with pytest.raises(MNNError, match=error):
        load(model([helper.make_node("Relu", ["x"], ["y"])], opset=opset))


def _without_opset():
    proto = model([helper.make_node("Relu", ["x"], ["y"])])
    del proto.opset_import[:]
    return proto


def _wrong_type():
    proto = model([helper.make_node("Softmax", ["x"], ["y"], axis=1)])
    proto.graph.node[0].attribute[0].type = AttributeProto.FLOAT
    return proto


def _tensor(change):
    proto = model([helper.make_node("Add", ["x", "c"], ["y"])], initializers=[("c", np.ones(3, np.float32))])
    change(proto.graph.initializer[0])
    return proto


def _bytes_as_name():
    raw = model([helper.make_node("Relu", ["x"], ["y"], name="QQQQ")]).SerializeToString()
    return raw.replace(b"QQQQ", b"\xff\xfe\xfd\xfc")


def _recursive():
    call = helper.make_node("F", ["a"], ["b"], domain="own")
    function = helper.make_function("own", "F", ["a"], ["b"], [call], [helper.make_opsetid("own", 1)])
    return model([helper.make_node("F", ["x"], ["y"], domain="own")], functions=[function], own=1)


def _exploding():
    """Each of 40 functions calls the next one twice."""
    functions = []
    for i in range(40):
        inner = "Abs" if i == 39 else f"F{i + 1}"
        domain = "" if i == 39 else "own"
        calls = [
            helper.make_node(inner, ["a"], ["h"], domain=domain),
            helper.make_node(inner, ["h"], ["b"], domain=domain),
        ]
        opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 18)]
        functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], calls, opsets))
    return model([helper.make_node("F0", ["x"], ["y"], domain="own")], functions=functions, own=1)


def _deep():
    inner = helper.make_node("Relu", ["x"], ["y"])
    for _ in range(28):
        branch = helper.make_graph([inner], "b", [], [value("y")])
        inner = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=onnx.GraphProto())
    return model([inner], ["x", value("c", (), TensorProto.BOOL)])


MALFORMED = {
    "nothing makes its input 'gone'": lambda: model([helper.make_node("Relu", ["gone"], ["y"])]),
    "nothing makes output 'gone'": lambda: model([helper.make_node("Relu", ["x"], ["y"])], outputs=["gone"]),
    "made twice": lambda: model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])]),
    "needs its own result": lambda: model(
        [
            helper.make_node("Add", ["x", "b"], ["a"]),
            helper.make_node("Abs", ["a"], ["b"]),
            helper.make_node("Abs", ["b"], ["y"]),
        ]
    ),
    "names no opset": _without_opset,
    "attribute 'axis' has type": _wrong_type,
    "input 1 .* is missing": lambda: model([helper.make_node("Conv", ["x", ""], ["y"])]),
    "1 inputs, opset 18 expects 2": lambda: model([helper.make_node("Add", ["x"], ["y"])]),
    "attribute 'to' is missing": lambda: model([helper.make_node("Cast", ["x"], ["y"])]),
    "bytes are there|12 are there": lambda: _tensor(lambda t: t.dims.append(1 << 40)),
    "negative size": lambda: _tensor(lambda t: t.dims.append(-1)),
    "not UTF-8": _bytes_as_name,
    "calls itself": _recursive,
    "more than 200000 nodes": _exploding,
    "nested deeper": _deep,
    "not an ONNX model|no opset": lambda: b"this is no protobuf",
    "no opset": lambda: b"",
}


@pytest.mark.parametrize("message", sorted(MALFORMED))
def test_malformed_models_are_refused(message):
    with pytest.raises(FormatError, match=message):
        load(MALFORMED[message]())


def test_missing_files_and_folders(tmp_path):
    for path in (tmp_path / "no.onnx", tmp_path):
        with pytest.raises(MNNError, match="cannot open"):
            load(path)


# -- external data ----------------------------------------------------------------------------------------------------


def external(tmp_path, location="w.bin", offset=0, length=None, content=None, dims=(3,)):
    """A model whose constant lies in another file."""
    proto = model([helper.make_node("Add", ["x", "c"], ["y"])])
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    entries = {"location": location, "offset": str(offset)} | ({} if length is None else {"length": str(length)})
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    proto.graph.initializer.append(tensor)
    folder = tmp_path / "models"
    folder.mkdir(exist_ok=True)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    if content is not None:
        (folder / "w.bin").write_bytes(content)
    return folder / "m.onnx"


NUMBERS = np.array([1, 2, 3, 4], np.float32)


def test_external_data_is_mapped(tmp_path):
    path = external(tmp_path, offset=4, length=12, content=NUMBERS.tobytes())
    graph = load(path)
    (y,) = run_reference(graph, {"x": X})
    assert y.tolist() == (X + NUMBERS[1:]).tolist()
    constant = next(v for v in graph.values() if v.name == "c")
    assert not constant.data.flags.owndata


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "a/../../secret", "", "w\0bin", "sub\\..\\w.bin"])
def test_external_names_that_lead_outside_are_refused(tmp_path, location):
    (tmp_path / "secret").write_bytes(NUMBERS.tobytes())
    with pytest.raises(MNNError, match=r"refused|without a location"):
        load(external(tmp_path, location))


def test_links_are_refused(tmp_path):
    (tmp_path / "secret").write_bytes(NUMBERS.tobytes())
    path = external(tmp_path)
    os.symlink(tmp_path / "secret", path.parent / "w.bin")
    with pytest.raises(MNNError, match="link"):
        load(path)
    os.remove(path.parent / "w.bin")
    os.link(tmp_path / "secret", path.parent / "w.bin")
    with pytest.raises(MNNError, match="hard link"):
        load(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offset": 8, "content": NUMBERS.tobytes()}, "incomplete"),
        ({"offset": -4, "content": NUMBERS.tobytes()}, "are asked for"),
        ({"length": 4, "content": NUMBERS.tobytes()}, "its dims need"),
        ({"dims": (1 << 50,), "content": NUMBERS.tobytes()}, "incomplete"),
        ({"offset": "x", "content": NUMBERS.tobytes()}, "not a number"),
        ({}, "cannot open"),
    ],
)
def test_external_data_that_does_not_fit(tmp_path, options, message):
    with pytest.raises(MNNError, match=message):
        load(external(tmp_path, **options))


def test_external_data_needs_a_path(tmp_path):
    data = external(tmp_path, content=NUMBERS.tobytes()).read_bytes()
    with pytest.raises(FormatError, match="load the model from its path"):
        load(data)


# -- tensors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        "FLOAT",
        "FLOAT16",
        "BFLOAT16",
        "DOUBLE",
        "INT8",
        "UINT8",
        "INT16",
        "UINT16",
        "INT32",
        "UINT32",
        "INT64",
        "UINT64",
        "BOOL",
    ],
)
def test_every_element_type_is_read(kind, raw):
    code = getattr(TensorProto, kind)
    numbers = [1, 0, 1, 1] if kind == "BOOL" else [0, 1, 100, 3]
    array = np.array(numbers).astype(helper.tensor_dtype_to_np_dtype(code)).reshape(2, 2)
    proto = numpy_helper.from_array(array, "c") if raw else helper.make_tensor("c", code, (2, 2), array.reshape(-1))
    assert proto.HasField("raw_data") == raw
    built = model([helper.make_node("Identity", ["c"], ["y"])], [], [value("y", (2, 2), code)])
    built.graph.initializer.append(proto)
    (y,) = run_reference(load(built), {})
    assert y.dtype == array.dtype
    assert np.array_equal(y, array)


@pytest.mark.parametrize(("kind", "numbers"), [("INT4", [-8, 7, -1]), ("UINT4", [0, 15, 9])])
def test_packed_integers_are_held_in_bytes(kind, numbers):
    code = getattr(TensorProto, kind)
    built = model(
        [helper.make_node("DequantizeLinear", ["c", "s"], ["y"])], [], initializers=[("s", np.float32(0.5))], opset=21
    )
    built.graph.initializer.append(helper.make_tensor("c", code, (3,), numbers))
    (y,) = run_reference(load(built), {})
    assert y.tolist() == [n * 0.5 for n in numbers]


def test_a_standard_function_without_a_handler_is_expanded():
    assert registry.find("CenterCropPad", "", 18) is None, "choose an operator without a handler"
    node = helper.make_node("CenterCropPad", ["x", "size"], ["y"])
    (y,) = run_reference(load(model([node], initializers=[("size", np.array([5]))])), {"x": X})
    assert y.tolist() == [0, *X, 0]


def test_affine_grid_of_one_picture():
    theta = np.array([[[1, 0, 0.25], [0, 2, -0.5]]], np.float32)
    node = helper.make_node("AffineGrid", ["theta", "size"], ["y"])
    built = model([node], [value("theta", (1, 2, 3))], ["y"], [("size", np.array([1, 1, 2, 4]))], opset=20)
    (y,) = run_reference(load(built), {"theta": theta})
    xs, ys = np.array([-0.75, -0.25, 0.25, 0.75]), np.array([-0.5, 0.5])
    np.testing.assert_allclose(y[0, ..., 0], np.tile(xs + 0.25, (2, 1)), atol=1e-6)
    np.testing.assert_allclose(y[0, ..., 1], np.tile(2 * ys[:, None] - 0.5, (1, 4)), atol=1e-6)
