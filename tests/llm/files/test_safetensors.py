"""Safetensors files: what ones written by the format's rules come out as, and what those rules forbid."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.files import open_weights, read_config
from MNN.llm.files.places import find
from MNN.llm.files.safetensors import read_safetensors
from tests import zoo
from tests.llm.files.writing import safetensors


def test_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {
        str(dtype): rng.integers(0, 100, shape).astype(dtype)
        for dtype, shape in [("f4", (3, 5)), ("f2", (7,)), ("f8", ()), ("i8", (2, 1, 2)), ("i4", (0, 4)), ("u1", (9,))]
    }
    arrays["bf16"] = rng.standard_normal((4, 6)).astype(ml_dtypes.bfloat16)
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors(arrays, {"bf16": "BF16"}))
    weights = open_weights(file)
    assert set(weights) == set(arrays)
    for name, array in arrays.items():
        assert weights[name].shape == array.shape
        np.testing.assert_array_equal(weights[name].numpy(), array)
        assert weights[name].numpy().dtype == array.dtype
        assert weights[name].float32().dtype == np.float32
        assert weights[name].quantized() is None
    np.testing.assert_array_equal(weights["bf16"].rows(np.array([3, 1])), arrays["bf16"][[3, 1]].astype(np.float32))


@pytest.mark.real
def test_trained_model() -> None:
    """MiniLM, read once more by plain numpy."""
    file = zoo.path("minilm_weights")
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    weights = open_weights(file)
    assert set(weights) == set(header) - {"__metadata__"}
    for name, tensor in weights.items():
        first, end = header[name]["data_offsets"]
        kind = {"F32": "<f4", "I64": "<i8"}[header[name]["dtype"]]
        expected = np.frombuffer(data[8 + size + first : 8 + size + end], kind).reshape(header[name]["shape"])
        np.testing.assert_array_equal(tensor.numpy(), expected)
    assert read_config(file)["model_type"] == "bert"


def sharded(folder: Path) -> dict[str, Any]:
    files = {"one.safetensors": {"a": np.arange(3.0), "b": np.arange(4.0)}, "two.safetensors": {"c": np.arange(5.0)}}
    for name, arrays in files.items():
        (folder / name).write_bytes(safetensors(arrays))
    index: dict[str, Any] = {"weight_map": {key: name for name, arrays in files.items() for key in arrays}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return index


def test_several_files(tmp_path: Path) -> None:
    sharded(tmp_path)
    weights = open_weights(tmp_path)
    assert {name: weights[name].size for name in weights} == {"a": 3, "b": 4, "c": 5}
    (tmp_path / "adapter.safetensors").write_bytes(safetensors({"d": np.arange(6.0)}))
    assert find(tmp_path).weights == (tmp_path / "one.safetensors", tmp_path / "two.safetensors")


@pytest.mark.parametrize(
    "name", ["../one.safetensors", "/etc/passwd", "sub/one.safetensors", "..", "c:one.safetensors"]
)
def test_an_index_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    index = sharded(tmp_path)
    index["weight_map"]["c"] = name
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FormatError, match="files beside it"):
        open_weights(tmp_path)


def test_an_index_names_what_there_is(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    index["weight_map"]["d"] = "one.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FormatError, match="lacks 'd'"):
        open_weights(tmp_path)
    index["weight_map"]["d"] = "three.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(MNNError, match=r"three.safetensors cannot be read"):
        open_weights(tmp_path)


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('{"a":{},"a":{}}', "twice"),
        (json.dumps({"a": entry(), "b": entry()}), "overlaps"),
        (json.dumps({"a": entry(shape=[1], offsets=[4, 8])}), "gap"),
        (json.dumps({"a": entry(offsets=[0, 16], shape=[4])}), "leaves"),
        (json.dumps({"a": entry(offsets=[8, 0])}), "leaves"),
        (json.dumps({"a": entry(shape=[3])}), "takes 12 bytes"),
        (json.dumps({"a": entry(shape=[-2])}), "make no tensor"),
        (json.dumps({"a": entry(shape=[True, 2])}), "make no tensor"),
        (json.dumps({"a": entry(shape=[1 << 62, 1 << 62])}), "make no tensor"),
        (json.dumps({"a": entry(shape=[1 << 40, 1 << 40])}), "takes"),
        (json.dumps({"a": entry(shape=2)}), "make no tensor"),
        (json.dumps({"a": entry(offsets=[0, 8.0])}), "make no tensor"),
        (json.dumps({"a": {"dtype": "F32"}}), "needs dtype"),
        (json.dumps({"a": 5}), "needs dtype"),
        (json.dumps({"a": entry(shape=[1], offsets=[0, 4])}), "8 bytes of data"),
        ("[1]", "brace"),
        ("{" * 9, "not JSON"),
        ('{"a":' * 100000, "not JSON"),
        (' {"a":1}', "brace"),
    ],
)
def test_what_the_format_forbids(tmp_path: Path, header: str, message: str) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(8))
    with pytest.raises(FormatError, match=message):
        read_safetensors(file)


def test_other_bad_files(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    header = json.dumps({"a": entry("F7")}).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(UnsupportedError, match=r"F7.*BF16"):
        read_safetensors(file)
    for data, message in [
        (b"", "empty"),
        (b"abc", "too few"),
        (b"\xff" * 20, "claims a header"),
        (struct.pack("<Q", 99) + b"{}", "ends within"),
        (struct.pack("<Q", 3) + b"{\xff}", "UTF-8"),
    ]:
        file.write_bytes(data)
        with pytest.raises(FormatError, match=message):
            read_safetensors(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files there")
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(MNNError, match="no regular file"):
        read_config(tmp_path)
    sharded(tmp_path)
    (tmp_path / "two.safetensors").unlink()
    os.mkfifo(tmp_path / "two.safetensors")
    with pytest.raises(MNNError, match="no regular file"):
        open_weights(tmp_path / "model.safetensors.index.json")


def test_pickles_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(UnsupportedError, match="save_pretrained"):
        open_weights(tmp_path)
