"""``--signature``: which entry of a model that has several is converted, run and shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.cli import models
from tests.frontends.tflite.test_files import two_entries
from tests.tensorflow.test_models import unpacked


def test_an_entry_of_a_tflite_model(mnn, refused):
    Path("a.tflite").write_bytes(two_entries())
    np.save("x.npy", np.array([0.5, 1.0, -2.0], np.float32))
    for name, wanted in (("encode", np.exp), ("decode", np.negative)):
        assert mnn("convert", "a.tflite", "a.mnn", "--signature", name).code == 0
        for arguments in (["a.mnn"], ["a.tflite", "--signature", name]):
            assert mnn("run", *arguments, "-i", "x.npy", "-o", "out").code == 0
            (file,) = Path("out").glob("*.npy")
            np.testing.assert_allclose(np.load(file), wanted(np.load("x.npy")), rtol=1e-6)
            file.unlink()
    assert "signatures: encode, decode (this one)" in mnn("info", "a.tflite", "--signature", "decode").out
    assert "it has encode, decode" in refused("run", "a.tflite", "--random", "--signature", "train")


def test_an_entry_of_a_saved_model(mnn, refused, tmp_path):
    folder, answers = unpacked("attention", tmp_path)
    np.save("x.npy", answers["in"])
    named = mnn("info", folder / "saved_model", "--signature", "serve").out
    assert "signatures: serve (this one), serving_default" in named
    assert mnn("run", folder / "saved_model", "--signature", "serve", "-i", "x.npy", "-o", "out").code == 0
    (file,) = Path("out").glob("*.npy")
    np.testing.assert_allclose(np.load(file), answers["out"], atol=1e-5)
    assert "serving_default" in refused("convert", folder / "saved_model", "a.mnn", "--signature", "train")
    assert not Path("a.mnn").exists()


def test_files_without_entries_say_so(refused, tmp_path):
    frozen = unpacked("fused", tmp_path)[0] / "frozen.pb"
    assert "frozen graph" in refused("info", frozen, "--signature", "serve")
    message = refused("run", models.chain(tmp_path / "m.onnx"), "--random", "--signature", "serve")
    assert "--signature is for files of tflite, tensorflow" in message


def test_shapes_that_a_file_does_not_tell_are_given_to_run_too(mnn, refused, tmp_path):
    message = refused("run", models.chain(tmp_path / "m.onnx"), "--random", "--input-shape", "x")
    assert "NAME=1x3x224x224" in message
    message = refused("info", models.chain(tmp_path / "m.onnx"), "--input-shape", "x=1x4")
    assert "--input-shape is for files of" in message
