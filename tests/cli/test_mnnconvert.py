"""``mnnconvert``, the official spelling."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from MNN.cli.mnnconvert import app
from tests.cli.conftest import run_command


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def official(*arguments: object):
    return run_command(*arguments, application=app)


def test_as_in_the_official_documentation(digits, mnn):
    result = official("-f", "ONNX", "--modelFile", digits, "--MNNModel", "a.mnn", "--bizCode", "biz")
    assert result.code == 0, result
    assert mnn("convert", "--bizCode", "biz", digits, "b.mnn").code == 0
    assert Path("a.mnn").read_bytes() == Path("b.mnn").read_bytes()


def test_options(digits):
    arguments = ["-f", "onnx", "--modelFile", digits, "--MNNModel", "a.mnn", "--fp16", "--saveExternalData"]
    assert official(*arguments, "--optimizeLevel", "0", "--batch", "2", "--keepInputFormat=0").code == 0
    assert sorted(os.listdir()) == ["a.mnn", "a.mnn.weight"]


def test_json_goes_there_and_back_exactly(converted):
    assert official("-f", "MNN", "--modelFile", converted, "--JsonFile", "a.json").code == 0
    assert official("-f", "JSON", "--modelFile", "a.json", "--MNNModel", "b.mnn").code == 0
    assert Path("b.mnn").read_bytes() == converted.read_bytes()


def test_the_named_kind_is_what_is_read(converted):
    result = official("-f", "ONNX", "--modelFile", converted, "--MNNModel", "b.mnn")
    assert result.code == 2
    assert "ONNX" in result.err
    assert not os.listdir()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-f", "MXNET", "--modelFile", "a", "--MNNModel", "b"], "known are ONNX, TF"),
        (["-f", "ONNX", "--modelFile", "a", "--MNNModel", "b"], "no such file: a"),
        (["-f", "ONNX", "--modelFile", "a"], "--MNNModel"),
        (["-f", "ONNX", "--modelFile", "a", "--JsonFile", "b"], "-f MNN"),
        (["-f", "ONNX", "--MNNModel", "b"], "--modelFile"),
    ],
)
def test_mistakes(arguments, text):
    result = official(*arguments)
    assert result.code == 2
    assert text in result.err
    assert not os.listdir()


def test_version():
    import MNN

    for option in ("--version", "-v"):
        result = official(option)
        assert result.code == 0
        assert result.out == f"MNN in Python {MNN.__version__}\n"


VALUES = [("1", True), ("True", True), ("true", True), ("0", False), ("False", False)]


@pytest.mark.parametrize(("value", "half"), VALUES)
def test_switches_with_values_as_in_the_official_converter(digits, value, half):
    base = ["-f", "ONNX", "--modelFile", digits, "--MNNModel"]
    for name, more in (("apart.mnn", ["--fp16", value]), ("joined.mnn", [f"--fp16={value}"])):
        result = official(*base, name, *more, "--bizCode", "x")
        assert result.code == 0, result
    assert official(*base, "wanted.mnn", *(["--fp16"] if half else []), "--bizCode", "x").code == 0
    wanted = Path("wanted.mnn").read_bytes()
    assert Path("apart.mnn").read_bytes() == Path("joined.mnn").read_bytes() == wanted
    assert official(*base, "other.mnn", "--bizCode", "x", *([] if half else ["--fp16"])).code == 0
    assert Path("other.mnn").read_bytes() != wanted
