"""A check that fails says how to find the cause, with all options that matter; following it finds the cause."""

from __future__ import annotations

import re
import shlex

import numpy as np
import onnxruntime
import pytest

from MNN.comparison import error_of
from MNN.frontends import load_graph
from MNN.passes import manager
from MNN.passes.manager import Pass
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.cli import models
from tests.cli.test_bisect import _spoil


def _advised(message: str) -> list[str]:
    """The command that a message says finds the cause."""
    found = re.search(r"Nothing was written; (mnn compare .*) finds the cause", message)
    assert found, message
    return shlex.split(found.group(1))[1:]


def test_half_precision_of_weights(mnn, refused, digits):
    arguments = _advised(refused("convert", digits, "a.mnn", "--fp16", "--check", "1e-5"))
    assert "--fp16" in arguments
    assert arguments[arguments.index("--tolerance") + 1] == "1e-05"
    result = mnn(*arguments)
    assert result.code == 1, result
    assert "weights in half precision (--fp16) make the difference" in result.out
    without = mnn(*(a for a in arguments if a != "--fp16"))
    assert without.code == 0
    assert "every step agrees" in without.out


def test_a_tolerance_below_the_rounding_of_fp32(refused, mnn, digits):
    message = refused("convert", digits, "a.mnn", "--check", "1e-9")
    assert "so small a difference is rounding of fp32" in message
    assert "--bisect" not in message
    advised = re.search(r"--check (\S+)", message).group(1)
    assert mnn("convert", digits, "a.mnn", "--check", advised).code == 0


@pytest.fixture
def spoiled(monkeypatch):
    """A pass of level 2 that is wrong."""
    known = {**manager.passes(), "spoiler": Pass("spoiler", _spoil, rank=500, level=2)}
    monkeypatch.setattr(manager, "passes", lambda: known)


def test_the_level_the_passes_and_the_inputs_are_carried_over(mnn, refused, tmp_path, spoiled):
    model = models.chain(tmp_path / "a model.onnx")
    np.save("x.npy", np.float32([[1, 2, 3, 4], [5, 6, 7, 8]]))
    options = ["--optimizeLevel", 2, "--disable-pass", "silu", "--check", "1e-3"]
    arguments = _advised(refused("convert", model, "a.mnn", *options, "-i", "x=x.npy"))
    assert arguments[arguments.index("--optimizeLevel") + 1] == "2"
    assert arguments[arguments.index("--disable-pass") + 1] == "silu"
    assert arguments[arguments.index("--input") + 1] == "x=x.npy"
    result = mnn(*arguments)
    assert result.code == 1
    assert "pass spoiler made it wrong" in result.out
    assert mnn(*arguments, "--disable-pass", "spoiler").code == 0


def test_sizes_are_carried_over(mnn, refused, tmp_path, spoiled):
    model = models.chain(tmp_path / "m.onnx")
    options = ["--optimizeLevel", 2, "--check", "1e-3"]
    for more in (["--batch", 3], ["--shape", "x=3x4"]):
        arguments = _advised(refused("convert", model, "a.mnn", *options, *more))
        assert arguments[arguments.index("--shape") + 1] == "x=3x4"
        assert "pass spoiler made it wrong" in mnn(*arguments).out


@pytest.mark.parametrize("precision", ["high", "normal", "low"])
def test_compare_computes_as_it_is_told_to(mnn, digits, precision):
    """The error of the output is what it is when both engines are asked directly."""
    x = np.random.default_rng(3).standard_normal((4, 1, 8, 8)).astype(np.float32)
    np.save("x.npy", x)
    (wanted,) = onnxruntime.InferenceSession(str(digits)).run(["probability"], {"image": x})
    found = Session(load_graph(digits), Config(2, precision)).run({"image": x}, ["probability"])["probability"]
    error = error_of(found, wanted)
    options = ["-i", "x.npy", "--precision", precision, "--threads", 2, "--tolerance", 1]
    result = mnn("compare", digits, *options)
    assert result.code == 0, result
    (row,) = [line.split() for line in result.out.splitlines() if line.startswith("probability ")]
    assert float(row[1]) == pytest.approx(error, rel=0.01)
    limit = error / 2
    assert mnn("compare", digits, *options[:-1], limit).code == 1
    verdict = mnn("compare", digits, "--bisect", *options[:-1], limit)
    assert verdict.code == 1, verdict


def test_settings_of_compare_that_are_none(refused, digits):
    assert "between 1 and 256" in refused("compare", digits, "--threads", 0)
    assert "high, normal, low" in refused("compare", digits, "--precision", "exact")
