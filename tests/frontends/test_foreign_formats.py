"""Files of other frameworks are called what they are, with the way from there to a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from MNN.errors import MNNError
from MNN.frontends import load_graph

FILES = {
    "a.pth": (b"\x80\x02}q" + bytes(100), "a PyTorch file", "torch.export.save"),
    "a.onnx": (b"<!DOCTYPE html><html>", "a web page", "download"),
    "b.onnx": (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS", "git lfs pull"),
    "a.safetensors": (b"\x40\0\0\0\0\0\0\0{}" + bytes(100), "safetensors", "without a graph"),
    "a.pdmodel": (b"\x0a\x05block", "PaddlePaddle", "paddle2onnx"),
    "inference.json": (b'{"base_code":{"magic":"pir"},"program":{}}', "PaddlePaddle", "paddle2onnx"),
    "net-symbol.json": (b'{\n  "nodes": [\n    {\n      "op": "null", \n "name": "data"', "MXNet", "mxnet.onnx"),
    "net-0000.params": (b"\x12\x01" + bytes(40), "MXNet", "mxnet.onnx"),
    "yolo.cfg": (b"[net]\nbatch=1\n[convolutional]", "Darknet", "ncnn"),
    "yolo.weights": (bytes(20), "Darknet", "ONNX"),
    "a.keras": (b"hello", "no archive", "model.save"),
    "text.pb": (b'node {\n  name: "x"\n', "written as text", "as_text=False"),
    "model.ckpt.index": (b"abc" * 9, "TensorFlow checkpoint", ".meta"),
    "model.ckpt.data-00000-of-00001": (bytes(99), "TensorFlow checkpoint", ".meta"),
    "a.meta": (b"\x0a\x04\x12\x02\x0a\x00", "a checkpoint, whose numbers", "put them beside it"),
    "a.pb": (b"", "is empty", "export it again"),
    "a.prototxt": (b"", "is empty", "download"),
    "model.json": (b'{"format": "graph-model", "weightsManifest": []}', "TensorFlow.js", "saved_model"),
}


@pytest.mark.parametrize("name", FILES)
def test_other_files_are_recognised(tmp_path: Path, name: str) -> None:
    content, what, advice = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(MNNError) as caught:
        load_graph(path)
    assert name in str(caught.value)
    assert what in str(caught.value)
    assert advice in str(caught.value)


def test_folders_are_models_where_they_hold_one(tmp_path: Path) -> None:
    with pytest.raises(MNNError, match=r"is a folder, .* a folder with saved_model\.pb in it"):
        load_graph(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(MNNError, match=r"saved_model\.pb' holds no graph; is it a SavedModel"):
        load_graph(tmp_path)


def test_half_a_model_is_called_that(tmp_path: Path) -> None:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.zeros((4, 1000), np.float32), "w")
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, s]) for n, s in (("x", 4), ("y", 1000))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", info[:1], info[1:], [weight])
    data = helper.make_model(graph).SerializeToString()
    (tmp_path / "half.onnx").write_bytes(data[: len(data) // 2])
    assert onnx.load_from_string(data).graph.name == "g"
    with pytest.raises(MNNError, match="missing or damaged: download or export it again"):
        load_graph(tmp_path / "half.onnx")
