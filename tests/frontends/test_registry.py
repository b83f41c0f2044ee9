"""``load_graph`` tells kinds of model files by what they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from MNN.errors import FormatError, MNNError
from MNN.frontends import Kind, kinds, load_graph, register_kind, registry
from MNN.frontends.mnn import net_of, write_mnn
from MNN.ir.graph import Graph
from MNN.schema import to_json
from tests.frontends.mnn.graphs import small_net


def _onnx() -> bytes:
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    data: bytes = model.SerializeToString()
    return data


def test_kinds_are_told_by_content_whatever_the_name(tmp_path: Path) -> None:
    graph, _ = small_net()
    for suffix in ("mnn", "onnx", "json", "bin"):
        (tmp_path / f"a.{suffix}").write_bytes(_onnx())
        assert load_graph(tmp_path / f"a.{suffix}").meta["source"] == "ONNX"
        write_mnn(graph, tmp_path / f"b.{suffix}")
        assert len(load_graph(tmp_path / f"b.{suffix}").nodes) == len(graph.nodes)
        (tmp_path / f"c.{suffix}").write_text(to_json(net_of(graph)))
        assert len(load_graph(tmp_path / f"c.{suffix}").nodes) == len(graph.nodes)


def test_bytes_and_a_named_kind_work_too() -> None:
    assert [n.op for n in load_graph(_onnx()).nodes] == ["ReLU"]
    assert [n.op for n in load_graph(_onnx(), "onnx").nodes] == ["ReLU"]
    with pytest.raises(FormatError):
        load_graph(_onnx(), "mnn")


def test_a_model_without_ir_version_is_still_onnx() -> None:
    model = onnx.load_from_string(_onnx())
    model.ClearField("ir_version")
    assert [n.op for n in load_graph(model.SerializeToString()).nodes] == ["ReLU"]


@pytest.mark.parametrize("data", [b"", b"\0", b"hello world, this is text", np.zeros(200, np.uint8).tobytes()])
def test_other_files_are_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        load_graph(data)
    for suffix in ("txt", "mnn", "onnx", "json"):
        (tmp_path / f"a.{suffix}").write_bytes(data)
        with pytest.raises(FormatError):
            load_graph(tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("suffix", ["tflite", "mnn", "caffemodel", "keras", "pt2", "pt", "param", "json"])
def test_damaged_files_are_told_what_their_name_says(suffix: str, tmp_path: Path) -> None:
    """Also where the first byte could be ONNX's; a whole ONNX file is read under any name."""
    rng = np.random.default_rng(1)
    path = tmp_path / f"a.{suffix}"
    for first in (8, 0x12, 0x3A, 0x72):
        path.write_bytes(bytes([first, 7, 0x12]) + rng.bytes(97))
        with pytest.raises(FormatError) as caught:
            load_graph(path)
        assert "ONNX model" not in str(caught.value)
    model = onnx.load_from_string(_onnx())
    model.doc_string = "x" * 100_000  # longer than what recognisers see
    for data in (_onnx(), model.SerializeToString()):
        path.write_bytes(data)
        assert load_graph(path).meta["source"] == "ONNX"


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.mnn", tmp_path):
        with pytest.raises(MNNError, match=str(path)):
            load_graph(path)
    with pytest.raises(MNNError, match="mystery"):
        load_graph(b"", "mystery")


def test_new_kinds_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    register_kind(Kind("toy", (".toy",), lambda head, size: head.startswith(b"TOY!"), lambda source: Graph("toy")))
    assert "toy" in kinds()
    assert load_graph(b"TOY!").name == "toy"
    with pytest.raises(ValueError, match="toy"):
        register_kind(Kind("toy", (), lambda head, size: False, lambda source: Graph()))
