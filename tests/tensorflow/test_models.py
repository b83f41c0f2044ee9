"""Whole models of every kind of file, with answers that TensorFlow gave (``record_models.py``)."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.converter import convert
from MNN.errors import FormatError, MNNError
from MNN.frontends import kind_of, load_graph
from MNN.frontends.common.problems import UnsupportedModelError
from MNN.frontends.tensorflow import load
from MNN.frontends.tensorflow.messages import new, parse

ARCHIVE = Path(__file__).with_name("models.zip")
FILES = {
    "images": "saved_model",
    "sequences": "saved_model",
    "attention": "saved_model",
    "module": "saved_model",
    "session": "saved_model",
    "session ": "model.ckpt.meta",
    "fused": "frozen.pb",
}
"""Models, and the file or folder to open."""


def unpacked(name: str, folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """The folder of a model, and its answers."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        for member in archive.namelist():
            if member.startswith(f"{name}/"):
                archive.extract(member, folder)
        answers = np.load(io.BytesIO(archive.read(f"{name}/answers.npz")))
        return folder / name, {key: answers[key] for key in answers.files}


@pytest.mark.parametrize("key", FILES)
def test_models_answer_as_tensorflow_does(key: str, tmp_path: Path) -> None:
    folder, answers = unpacked(key.strip(), tmp_path)
    path = folder / FILES[key]
    assert kind_of(path) == "tensorflow"
    convert(path, tmp_path / "a.mnn")
    for file in (path, tmp_path / "a.mnn"):
        model = MNN.load(str(file), precision="high", cache=False)
        outputs = model.run({next(iter(model.inputs)): answers["in"]})
        found = outputs["y"] if "y" in outputs else next(iter(outputs.values()))
        np.testing.assert_allclose(found, answers["out"], atol=2e-6)


def test_inputs_have_the_names_and_sizes_of_the_signature(tmp_path: Path) -> None:
    folder, _ = unpacked("images", tmp_path)
    graph = load(folder / "saved_model")
    assert [v.name for v in graph.inputs] == ["image"]
    assert graph.inputs[0].shape == ("image.0", 12, 12, 3)
    assert graph.meta["signature"] == "serving_default"
    with pytest.raises(MNNError, match="serving_default"):
        load(folder / "saved_model", "training")


def test_no_transposition_is_left_between_image_operators(tmp_path: Path) -> None:
    folder, _ = unpacked("images", tmp_path)
    convert(folder / "saved_model", tmp_path / "a.mnn")
    ops = [node.op for node in load_graph(tmp_path / "a.mnn").nodes]
    assert ops.count("Permute") + ops.count("ConvertTensor") <= 2


def test_a_saved_model_without_its_variables_says_so(tmp_path: Path) -> None:
    folder, _ = unpacked("images", tmp_path)
    data = (folder / "saved_model" / "saved_model.pb").read_bytes()
    (tmp_path / "alone.pb").write_bytes(data)
    with pytest.raises(MNNError, match="variables"):
        load(_renamed(tmp_path, data))


def _renamed(folder: Path, data: bytes) -> Path:
    (folder / "bare").mkdir()
    (folder / "bare" / "saved_model.pb").write_bytes(data)
    return folder / "bare"


# -- graphs made here -------------------------------------------------------------------------------------------------


def graph_of(*nodes: tuple[str, str, list[str]]) -> bytes:
    """A GraphDef of (name, operator, inputs); placeholders are floats of 4."""
    graph = new("GraphDef")
    for name, op, inputs in nodes:
        node = graph.node.add(name=name, op=op, input=inputs)
        if op == "Placeholder":
            node.attr["dtype"].type = 1
            node.attr["shape"].shape.dim.add(size=4)
    data: bytes = graph.SerializeToString()
    return data


def test_everything_unsupported_is_listed_at_once_with_advice() -> None:
    data = graph_of(
        ("x", "Placeholder", []),
        ("a", "StringJoin", ["x"]),
        ("b", "Svd", ["x"]),
        ("c", "LookupTableFindV2", ["a", "b"]),
        ("d", "CudnnRNNV3", ["x"]),
        ("e", "QuantizedConv2D", ["x"]),
        ("f", "TensorArrayV2", ["x"]),
    )
    with pytest.raises(UnsupportedModelError) as caught:
        load(data)
    assert {p.op for p in caught.value.problems} == {
        "StringJoin", "Svd", "LookupTableFindV2", "CudnnRNNV3", "QuantizedConv2D", "TensorArrayV2",
    }  # fmt: skip
    for text in ("text processing", "Keras' LSTM", "in floats", "TensorArrayV3"):
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([("x", "Placeholder", []), ("y", "Relu", ["z"])], "'z'"),
        ([("a", "Relu", ["b"]), ("b", "Relu", ["a"]), ("c", "Relu", ["b"])], "cycle"),
        ([("x", "Placeholder", []), ("x", "Relu", ["x"])], "two nodes"),
        ([("x", "Placeholder", []), ("y", "Relu", ["x:7"])], "no output 7"),
        ([("x", "Placeholder", []), ("y", "Relu", [])], "input 0 is missing"),
        ([("x", "Placeholder", []), ("y", "Exit", ["x"])], "Switch"),
    ],
)
def test_graphs_that_make_no_sense_are_refused(nodes: list[tuple[str, str, list[str]]], text: str) -> None:
    with pytest.raises(FormatError, match=text):
        load(graph_of(*nodes))


def test_functions_that_call_each_other_without_end_are_refused() -> None:
    graph = parse("GraphDef", graph_of(("x", "Placeholder", []), ("y", "first", ["x"])), "it")
    for name, calls in (("first", "second"), ("second", "first")):
        function = graph.library.function.add()
        function.signature.name = name
        function.signature.input_arg.add(name="v")
        function.signature.output_arg.add(name="r")
        function.node_def.add(name="n", op=calls, input=["v"])
        function.ret["r"] = "n:r:0"
    with pytest.raises(FormatError, match="without end"):
        load(graph.SerializeToString())


def test_functions_that_double_are_refused_before_they_fill_memory() -> None:
    graph = parse("GraphDef", graph_of(("x", "Placeholder", []), ("y", "f0", ["x"])), "it")
    for k in range(40):
        function = graph.library.function.add()
        function.signature.name = f"f{k}"
        function.signature.input_arg.add(name="v")
        function.signature.output_arg.add(name="r")
        following = f"f{k + 1}" if k < 39 else "Relu"
        function.node_def.add(name="a", op=following, input=["v"])
        function.node_def.add(name="b", op=following, input=["a:r:0"])
        function.ret["r"] = "b:r:0"
    with pytest.raises(FormatError, match="more nodes than can be converted"):
        load(graph.SerializeToString())


def test_messages_nested_without_end_are_refused() -> None:
    def field(number: int, data: bytes) -> bytes:
        size, length = len(data), b""
        while True:
            length += bytes([size & 0x7F | (0x80 if size > 0x7F else 0)])
            size >>= 7
            if not size:
                return bytes([number << 3 | 2]) + length + data

    inner = b""
    for _ in range(2000):  # func within attr within func
        inner = field(10, field(2, field(1, b"k") + field(2, inner)))
    data = field(1, field(1, b"x") + field(2, b"Relu") + field(5, field(1, b"k") + field(2, inner)))
    with pytest.raises(FormatError, match="damaged"):
        load(data)
