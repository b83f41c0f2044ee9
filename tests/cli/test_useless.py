"""What would change nothing is refused with a sentence, not ignored."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from MNN.cli import mnnconvert
from tests.cli import models
from tests.cli.conftest import run_command


def fixed(path):
    """A ReLU over a batch of one."""
    value = (TensorProto.FLOAT, [1, 4])
    return models.save(path, [helper.make_node("Relu", ["x"], ["y"])], {"x": value}, {"y": value})


@pytest.mark.parametrize("name", ["a.json", "a.tflite", "a.TFLITE", "a.mnn.weight"])
def test_a_mnn_file_is_not_written_under_another_kind_of_name(refused, digits, name):
    message = refused("convert", digits, name)
    assert f"{name}: what is written is a .mnn model" in message
    assert ".mnn\n" in message
    result = run_command("--modelFile", digits, "--MNNModel", name, application=mnnconvert.app)
    assert result.code == 2
    assert "what is written is a .mnn model" in result.err
    assert not os.listdir()


@pytest.mark.parametrize("name", ["a.mnn", "a.MNN", "a", "net-1.0", "v1.12"])
def test_names_that_say_nothing_else_are_taken(mnn, digits, name):
    assert mnn("convert", digits, name).code == 0
    assert os.listdir() == [name]


def test_a_batch_for_a_model_whose_batch_is_fixed(mnn, refused, tmp_path):
    model = fixed(tmp_path / "m.onnx")
    message = refused("convert", "--batch", 4, model, "a.mnn")
    assert "--batch 4: no input of this model has an open first size: 'x' (1x4)" in message
    assert mnn("convert", "--batch", 1, model, "a.mnn").code == 0


@pytest.mark.parametrize("option", ["--mean", "--norm"])
@pytest.mark.parametrize("command", ["run", "compare"])
def test_scaling_without_a_picture(mnn, refused, converted, picture, command, option):
    noise = ["--random"] if command == "run" else []
    assert f"{option} would change nothing" in refused(command, converted, *noise, option, "0.5")
    np.save("x.npy", np.zeros((1, 1, 8, 8), np.float32))
    assert f"{option} would change nothing" in refused(command, converted, "-i", "x.npy", option, "0.5")
    assert mnn(command, converted, "-i", f"image={picture}", option, "0.5").code == 0


def test_an_input_given_twice(refused, converted, tmp_path):
    for name in ("x.npy", "y.npy"):
        np.save(name, np.zeros((1, 1, 8, 8), np.float32))
    message = refused("run", converted, "-i", "image=x.npy", "-i", "image=y.npy")
    assert "input 'image' is given twice: --input image=x.npy and --input image=y.npy" in message
    np.savez("all.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    assert "given twice" in refused("run", converted, "-i", "all.npz", "-i", "y.npy")
    assert "given twice" in refused("compare", converted, "-i", "x.npy", "-i", "y.npy")
    message = refused("run", converted, "--random", "--shape", "image=1x1x8x8", "--shape", "image=2x1x8x8")
    assert "--shape gives 'image' twice: 1x1x8x8 and 2x1x8x8" in message


def test_inputs_of_a_check_that_is_not_made(refused, digits):
    np.save("x.npy", np.zeros((1, 1, 8, 8), np.float32))
    assert "--input would change nothing" in refused("convert", digits, "a.mnn", "-i", "image=x.npy")
    assert "--shape would change nothing" in refused("convert", digits, "a.mnn", "--shape", "image=1x1x8x8")
    assert os.listdir() == ["x.npy"]


def test_a_json_file_stays_as_it_is(mnn, refused, converted):
    """Unless something is asked for that changes it: then it is converted as the file that was dumped would be."""
    assert mnn("dump", converted, "a.json").code == 0
    assert "there is nothing to check" in refused("convert", "a.json", "b.mnn", "--check", "1e-3")
    assert mnn("convert", "a.json", "b.mnn").code == 0
    with open("b.mnn", "rb") as file:
        assert file.read() == converted.read_bytes()
    for options in (["--fp16", "--check", "1e-2"], ["--batch", 2], ["--bizCode", "b"], ["--optimizeLevel", 2]):
        assert mnn("convert", "a.json", "b.mnn", *options).code == 0
        assert mnn("convert", converted, "c.mnn", *options).code == 0
        with open("b.mnn", "rb") as one, open("c.mnn", "rb") as other:
            assert one.read() == other.read()
    assert mnn("convert", "a.json", "b.onnx").code == 0
    onnx.checker.check_model("b.onnx")


def test_views_of_bench(refused, digits):
    assert "--top would change nothing without --profile or --tune" in refused("bench", digits, "--top", 3)
    assert "--check would change nothing with --profile" in refused("bench", digits, "--check", "--profile")
    assert "--json would change nothing with --asm" in refused("bench", digits, "--asm", 1, "--json", "a.json")


def test_options_of_bisecting(refused, digits):
    for options in (["--fp16"], ["--optimizeLevel", 2], ["--disable-pass", "silu"]):
        assert f"{options[0]} would change nothing without --bisect" in refused("compare", digits, *options)
