"""``mnn run``: arrays, archives, pictures and noise in; a table and files out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import MNN
from tests.cli import models

IMAGE = np.linspace(0, 1, 2 * 64, dtype=np.float32).reshape(2, 1, 8, 8)


def _saved(folder: str = "out", name: str = "probability") -> np.ndarray:
    return np.load(Path(folder) / f"{name}.npy")


def _expected(model: Path, image: np.ndarray = IMAGE) -> np.ndarray:
    return MNN.load(model).run({"image": image})["probability"]


def test_arrays(mnn, digits, converted):
    np.save("x.npy", IMAGE)
    for model in (digits, converted):
        for given in ("image=x.npy", "x.npy"):
            result = mnn("run", model, "--input", given, "--output", "out")
            assert result.code == 0, result
            assert "probability" in result.out
            assert "2x10" in result.out
            np.testing.assert_array_equal(_saved(), _expected(model))


def test_doubles_become_what_the_model_takes(mnn, converted):
    np.save("x.npy", IMAGE.astype(np.float64))
    assert mnn("run", converted, "-i", "x.npy", "-o", "out").code == 0
    np.testing.assert_array_equal(_saved(), _expected(converted))


def test_archives(mnn, tmp_path):
    model = models.two_inputs(tmp_path / "m.onnx")
    image, k = np.ones((2, 3, 4, 5), np.float32), np.array([3, 4]).reshape(2, 1, 1, 1)
    np.savez("all.npz", image=image, k=k)
    assert mnn("run", model, "-i", "all.npz", "-o", "out").code == 0
    np.testing.assert_array_equal(_saved(name="y"), image + k)
    assert mnn("run", model, "-i", "image=all.npz", "-i", "k=all.npz", "-o", "two").code == 0
    np.testing.assert_array_equal(_saved("two", "y"), image + k)


def test_flat_arrays_take_the_shape_asked_for(mnn, refused, converted):
    np.save("x.npy", IMAGE.reshape(-1))
    assert mnn("run", converted, "-i", "x.npy", "--shape", "image=2x1x8x8", "-o", "out").code == 0
    np.testing.assert_array_equal(_saved(), _expected(converted))
    message = refused("run", converted, "-i", "x.npy", "--shape", "image=3x1x8x8")
    assert "image=3x1x8x8" in message
    assert "128" in message


def test_pictures(mnn, converted, picture):
    from PIL import Image

    assert mnn("run", converted, "-i", f"image={picture}", "-o", "out").code == 0
    with Image.open(picture) as opened:
        grey = np.asarray(MNN.cv.imread(str(picture), MNN.cv.IMREAD_GRAYSCALE))[:, :, 0]
        assert opened.size == (30, 20)
    small = np.asarray(Image.fromarray(grey).resize((8, 8), Image.Resampling.BILINEAR), np.float32) / 255
    np.testing.assert_allclose(_saved(), _expected(converted, small[None, None]), rtol=1e-5)


def test_pictures_scaled_per_channel_in_red_green_blue(mnn, tmp_path):
    from PIL import Image

    Image.new("RGB", (6, 5), (10, 20, 30)).save("flat.png")
    model = models.two_inputs(tmp_path / "m.onnx")
    np.save("k.npy", np.zeros((1, 1, 1, 1), np.int64))
    given = ["-i", "image=flat.png", "-i", "k=k.npy", "--shape", "image=1x3x4x7"]
    assert mnn("run", model, *given, "--mean", "1,2,3", "--norm", "1,1/2,0.1", "-o", "out").code == 0
    expected = np.broadcast_to(np.float32([9, 9, 2.7]).reshape(1, 3, 1, 1), (1, 3, 4, 7))
    np.testing.assert_allclose(_saved(name="y"), expected, rtol=1e-6)


def test_noise_is_the_same_every_time(mnn, converted):
    for folder in ("a", "b"):
        assert mnn("run", converted, "--random", "--shape", "image=5x1x8x8", "-o", folder).code == 0
    assert _saved("a").shape == (5, 10)
    np.testing.assert_array_equal(_saved("a"), _saved("b"))


def test_noise_fills_only_what_is_missing(mnn, tmp_path):
    model = models.two_inputs(tmp_path / "m.onnx")
    np.save("k.npy", np.full((1, 1, 1, 1), 1000))
    assert mnn("run", model, "-i", "k=k.npy", "--random", "--shape", "image=1x3x2x2", "-o", "out").code == 0
    assert _saved(name="y").min() > 900


def test_any_tensor_can_be_fetched(mnn, tmp_path):
    model = models.chain(tmp_path / "m.onnx")
    x = np.float32([[0, 1, 2, 3]])
    np.save("x.npy", x)
    result = mnn("run", model, "-i", "x.npy", "--fetch", "wave", "--fetch", "y", "-o", "out")
    assert result.code == 0
    assert sorted(p.name for p in Path("out").iterdir()) == ["wave.npy", "y.npy"]
    np.testing.assert_allclose(_saved(name="wave"), np.sin(2 * x), atol=1e-6)


def test_output_files_never_leave_the_folder(mnn, tmp_path):
    from onnx import TensorProto, helper

    value = (TensorProto.FLOAT, [1])
    names = ["../up", "..", "a/b", "a_b"]
    nodes = [helper.make_node("Relu", ["x"], [n]) for n in names]
    model = models.save(tmp_path / "m.onnx", nodes, {"x": value}, dict.fromkeys(names, value))
    assert mnn("run", model, "--random", "-o", "deep/out").code == 0
    assert len(list(Path("deep/out").iterdir())) == len(names)
    assert {p.name for p in tmp_path.iterdir()} == {"m.onnx", "deep"}


def test_threads_and_precision(mnn, converted):
    assert mnn("run", converted, "--random", "--threads", 2, "--precision", "high").code == 0


def test_missing_inputs_are_shown_with_dtypes_and_shapes(refused, tmp_path):
    message = refused("run", models.two_inputs(tmp_path / "m.onnx"))
    for text in ("missing inputs image, k", "image: f32 N x 3 x H x W", "k: i64 N x 1 x 1 x 1", "--input", "--random"):
        assert text in message


def test_unknown_inputs(refused, converted):
    np.save("x.npy", IMAGE)
    np.savez("x.npz", picture=IMAGE)
    for given in ("picture=x.npy", "x.npz"):
        message = refused("run", converted, "-i", given)
        assert "picture" in message
        assert "image: f32 batch x 1 x 8 x 8" in message
    assert "picture" in refused("run", converted, "--random", "--shape", "picture=1x1x8x8")


def test_several_inputs_need_names(refused, tmp_path):
    np.save("x.npy", IMAGE)
    assert "NAME=FILE" in refused("run", models.two_inputs(tmp_path / "m.onnx"), "-i", "x.npy")


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (np.zeros((1, 3, 8, 8), np.float32), ["image", "[1, 3, 8, 8]", "batch"]),
        (np.zeros((8, 8), np.float32), ["image", "[8, 8]"]),
        (np.zeros((1, 1, 8, 8), np.complex64), ["image", "complex64"]),
        (np.array(["text"]), ["image"]),
    ],
)
def test_arrays_that_do_not_fit(refused, converted, array, texts):
    np.save("x.npy", array)
    message = refused("run", converted, "-i", "x.npy")
    assert all(t in message for t in texts), message


def test_open_sizes_must_be_given(refused, tmp_path):
    message = refused("run", models.two_inputs(tmp_path / "m.onnx"), "--random")
    assert "--shape image=1x3x224x224" in message


def test_unknown_tensor(refused, converted):
    assert "no tensor named 'nothing'" in refused("run", converted, "--random", "--fetch", "nothing")


@pytest.mark.parametrize("text", ["1x1x8x8", "image=", "image=axb", "=1", "image=1x-1", "image=1xx2", "image=²"])
def test_shapes_that_are_none(refused, converted, text):
    assert "--shape takes NAME=1x3x224x224" in refused("run", converted, "--random", "--shape", text)


@pytest.mark.parametrize("text", ["a", "1,", "1/0", "1/2/3", ""])
def test_numbers_that_are_none(refused, converted, picture, text):
    assert "expected numbers" in refused("run", converted, "-i", picture, "--mean", text)


def test_numbers_per_channel_must_fit(refused, converted, picture):
    assert "--norm" in refused("run", converted, "-i", picture, "--norm", "1,2")


def test_settings_that_are_none(refused, converted):
    assert "between 1 and 256" in refused("run", converted, "--random", "--threads", 0)
    assert "high, normal, low" in refused("run", converted, "--random", "--precision", "exact")


def test_too_large_for_memory(refused, converted):
    assert "memory" in refused("run", converted, "--random", "--shape", f"image={10**12}x1x8x8")


def test_maps_and_sequences(mnn):
    path = models.maps_and_sequences(Path("m.onnx"))
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.save("x.npy", x)
    assert mnn("convert", path, "m.mnn", "--check", "1e-5").code == 0
    for model in (path, "m.mnn"):
        result = mnn("run", model, "-i", "x.npy", "-o", "out")
        assert result.code == 0, result
        np.testing.assert_array_equal(_saved(name="maps.cat"), x[:, 0])
        np.testing.assert_array_equal(_saved(name="parts_1_"), x[1:2])
        assert _saved(name="words").tolist() == [["0", "1"], ["2", "3"], ["4", "5"]]
