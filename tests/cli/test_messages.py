"""Messages name what was found, what was expected and what to do; what they suggest works."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import MNN
from MNN.errors import FormatError, ShapeError
from tests.cli import models


def test_dump_of_an_onnx_model(mnn, refused, digits, tmp_path):
    (tmp_path / "m.onnx").write_bytes(digits.read_bytes())
    message = refused("dump", "m.onnx")
    assert "m.onnx is a model of kind onnx; mnn dump shows .mnn files" in message
    for command in re.search(r"\((mnn .*) && (mnn .*)\)", message).groups():  # what it suggests
        assert mnn(*shlex.split(command)[1:]).code == 0


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "TIFF"])
@pytest.mark.parametrize("command", ["dump", "info", "run", "convert"])
def test_a_picture_that_is_called_a_model(refused, kind, command):
    Image.new("RGB", (9, 7), (1, 2, 3)).save("m.mnn", kind)
    more = {"run": ["--random"], "convert": ["a.mnn"]}.get(command, [])
    message = refused(command, "m.mnn", *more)
    assert "'m.mnn' is a picture" in message
    assert kind.lower() in message.lower()
    assert "byte" not in message


def test_an_array_that_is_called_a_model(refused):
    np.save("m.npy", np.zeros(3))
    assert "is a numpy array: a model file is expected here" in refused("info", "m.npy")


@pytest.mark.parametrize(("data", "why"), [(b"", "it is empty"), (b"junk" * 20, "of no known kind of picture")])
def test_files_that_are_no_pictures(refused, converted, tmp_path, data, why):
    (tmp_path / "x.jpg").write_bytes(data)
    message = refused("run", converted, "-i", "image=x.jpg")
    assert "'x.jpg' is not a picture that can be read" in message
    assert why in message
    assert "0x" not in message
    assert "<" not in message
    with pytest.raises(FormatError, match=why):
        MNN.cv.imread(str(tmp_path / "x.jpg"))


@pytest.mark.parametrize("text", ["image=", "="])
def test_an_input_without_a_file(refused, converted, text):
    message = refused("run", converted, "-i", text)
    assert f"--input {text}: the file is missing; write --input" in message
    assert "folder" not in message


def test_an_input_without_a_name(refused, converted):
    assert "--input =x.npy: the name is missing; write --input NAME=x.npy" in refused("run", converted, "-i", "=x.npy")


def test_letters_that_the_terminal_does_not_have(tmp_path):
    """They are written as numbers: names, and the lines of tables."""
    shutil.copy(str(files("MNN") / "assets" / "digits.onnx"), tmp_path / "größe.onnx")
    command = [sys.executable, "-c", "from MNN.cli.main import main; main()", "info", "größe.onnx"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(command, cwd=tmp_path, env=ascii_only, capture_output=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    assert rb"gr\xf6\xdfe.onnx" in found.stdout


def pyramid(path, levels=5):
    """Valid convolutions of stride two: what is smaller than 2^levels pixels and a border cannot run."""
    nodes = [
        helper.make_node("Conv", ["images" if not i else f"t{i}", "w"], [f"t{i + 1}"], strides=[2, 2], name=f"conv{i}")
        for i in range(levels)
    ]
    weights = np.random.default_rng(0).standard_normal((3, 3, 3, 3)).astype(np.float32)
    shape = (TensorProto.FLOAT, ["N", 3, "h", "w_"])
    return models.save(path, nodes, {"images": shape}, {f"t{levels}": (TensorProto.FLOAT, None)}, {"w": weights})


def test_suggested_shapes_run(mnn, refused, tmp_path):
    small = refused("run", pyramid(tmp_path / "m.onnx"), "--random", "--shape", "images=1x3x8x8")
    assert "conv" in small  # the shape that used to be suggested
    for model in (pyramid(tmp_path / "m.onnx"), models.pictures(tmp_path / "p.onnx"), sentence(tmp_path / "s.onnx")):
        message = refused("run", model, "--random")
        advice = re.findall(r"--shape \S+", message)
        assert advice, message
        result = mnn("run", model, "--random", *(word for option in advice for word in option.split()))
        assert result.code == 0, result


def sentence(path):
    """A sum over words and positions, which are two inputs of one open length, and at most 16."""
    table = numpy_helper.from_array(np.ones((1, 16, 4), np.float32), "table")
    nodes = [
        helper.make_node("Slice", ["table", "zero", "length", "one"], ["positions"]),
        helper.make_node("Shape", ["words"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "one"], ["length"], axis=0),
        helper.make_node("Add", ["words", "positions"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1]), "table": numpy_helper.to_array(table)}
    value = (TensorProto.FLOAT, ["N", "length", 4])
    return models.save(path, [nodes[1], nodes[2], nodes[0], nodes[3]], {"words": value}, {"y": value}, constants)


def test_shapes_that_nothing_fits_are_not_made_up(refused, tmp_path):
    nodes = [helper.make_node("Add", ["x", "c"], ["y"])]
    value = (TensorProto.FLOAT, [1, "n"])
    model = models.save(tmp_path / "m.onnx", nodes, {"x": value}, {"y": value}, {"c": np.ones((1, 77), np.float32)})
    message = refused("run", model, "--random")
    assert "give sizes that it was made for: --shape x=1xN" in message


ARRAYS = {
    "f64": np.linspace(0, 1, 64, dtype=np.float64).reshape(1, 1, 8, 8),
    "f16": np.linspace(0, 1, 64, dtype=np.float16).reshape(1, 1, 8, 8),
    "u8": np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8),
    "i64": np.arange(64).reshape(1, 1, 8, 8),
    "huge": np.full((1, 1, 8, 8), 1e300),
    "bool": np.ones((1, 1, 8, 8), bool),
    "complex": np.ones((1, 1, 8, 8), np.complex64),
}


@pytest.mark.parametrize("kind", sorted(ARRAYS))
def test_the_command_line_takes_the_arrays_that_the_api_takes(mnn, converted, kind):
    array = ARRAYS[kind]
    np.save("x.npy", array)
    result = mnn("run", converted, "-i", "x.npy", "-o", "out")
    model = MNN.load(str(converted))
    if kind in ("f64", "f16"):
        assert result.code == 0, result
        wanted = model.run({"image": array})["probability"]
        np.testing.assert_array_equal(np.load("out/probability.npy"), wanted)
    else:
        with pytest.raises(ShapeError) as refusal:
            model.run({"image": array})
        assert result.code == 2
        assert f"x.npy: {refusal.value}" in result.err


@pytest.mark.filterwarnings("default:the kernel cache")  # it is to be shown
def test_warnings_are_sentences(mnn, digits, tmp_path, monkeypatch):
    from MNN.cache.entries import Cache

    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "objects").mkdir()
    (folder / "objects").chmod(0o777)
    monkeypatch.setenv("MNN_CACHE_DIR", str(folder))
    monkeypatch.setattr(Cache, "_off_everywhere", False)
    monkeypatch.setattr("MNN.backends.cpu.codegen.library._libraries", {})
    result = mnn("run", digits, "--random")
    assert result.code == 0
    assert result.err.startswith(f"warning: the kernel cache {folder / 'objects'} is not used: others own it")
    assert ".py" not in result.err


def test_names_between_colons_are_no_pictures(refused):
    assert "no such file: :cat:.onnx" in refused("info", ":cat:.onnx")
