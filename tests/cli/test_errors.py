"""Whatever a file holds or a path leads to, a command ends with one message and exit code 2."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

MODEL_COMMANDS = {
    "convert": ["convert", "{}", "out.mnn"],
    "info": ["info", "{}"],
    "dump": ["dump", "{}", "out.json"],
    "run": ["run", "{}", "--random"],
    "bench": ["bench", "{}", "--runs", "1"],
    "compare": ["compare", "{}"],
    "compare second": ["compare", "good.mnn", "{}"],
}


def _with(arguments: list[str], path: str) -> list[str]:
    return [a.replace("{}", path) for a in arguments]


@pytest.fixture(params=sorted(MODEL_COMMANDS))
def command(request, converted, tmp_path):
    (tmp_path / "good.mnn").write_bytes(converted.read_bytes())
    return MODEL_COMMANDS[request.param]


def test_no_such_file(refused, command):
    assert "no such file: none.onnx" in refused(*_with(command, "none.onnx"))


def test_a_folder(refused, command):
    Path("folder.onnx").mkdir()
    assert "folder.onnx is a folder" in refused(*_with(command, "folder.onnx"))


def test_an_empty_file(refused, command):
    Path("m.mnn").touch()
    assert "m.mnn is empty" in refused(*_with(command, "m.mnn"))


def test_a_file_as_a_folder(refused, command):
    message = refused(*_with(command, "good.mnn/m.mnn"))
    assert "good.mnn/m.mnn" in message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe(refused, command):
    os.mkfifo("m.mnn")
    assert "m.mnn" in refused(*_with(command, "m.mnn"))


@pytest.mark.parametrize("name", ["m.onnx", "m.mnn", "m.json", "m"])
def test_junk(refused, command, name):
    Path(name).write_bytes(np.random.default_rng(3).bytes(1000))
    assert name in refused(*_with(command, name))
    assert not Path("out.mnn").exists()
    assert not Path("out.json").exists()


def test_half_a_model(refused, command, digits, converted):
    for name, whole in (("half.onnx", digits), ("half.mnn", converted)):
        Path(name).write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
        refused(*_with(command, name))
        assert not Path("out.mnn").exists()


DATA = {
    "none.npy": None,
    "empty.npy": b"",
    "empty.npz": b"",
    "empty.jpg": b"",
    "junk.npy": b"junk" * 20,
    "junk.npz": b"PK\x03\x04" + b"junk" * 20,
    "junk.jpg": b"\xff\xd8\xff\xe0" + b"junk" * 20,
    "junk.png": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 2**31) + b"IHDR" + b"junk" * 20,
    "junk.gif": b"GIF89a" + b"\xff" * 30,
    "junk.tiff": b"II*\0" + b"\xff" * 40,
    "header.npy": b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((((",
    "huge.npy": b"\x93NUMPY\x01\x00\x76\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999, 9999999), }".ljust(117)
    + b"\n",
    "pickle.npy": b"\x80\x04\x95",
    "words.txt": b"hello",
}


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("name", sorted(DATA))
def test_bad_inputs(refused, converted, name):
    data = DATA[name]
    if data is not None:
        Path(name).write_bytes(data)
    for arguments in (["run", converted], ["compare", converted]):
        assert name in refused(*arguments, "-i", f"image={name}")


def test_object_arrays_are_not_unpickled(refused, converted):
    np.save("x.npy", np.array([{}], object), allow_pickle=True)
    np.savez("x.npz", image=np.array([{}], object))
    for name in ("x.npy", "x.npz"):
        assert name in refused("run", converted, "-i", name)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".jpg", ""])
def test_a_folder_as_input(refused, converted, suffix):
    Path(f"folder{suffix}").mkdir()
    assert f"folder{suffix} is a folder" in refused("run", converted, "-i", f"image=folder{suffix}")


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".gif", ".bmp", ".webp"])
def test_damaged_pictures(mnn, converted, suffix, tmp_path):
    """Cut or altered anywhere: a result (formats without checks) or a message."""
    from PIL import Image

    rng = np.random.default_rng(4)
    good = tmp_path / f"good{suffix}"
    Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(good)
    data = good.read_bytes()
    for i in range(25):
        damaged = bytearray(data)
        if i % 2:
            damaged = damaged[: int(rng.integers(1, len(data)))]
        else:
            for place in rng.integers(0, len(data), 4):
                damaged[place] ^= int(rng.integers(1, 256))
        Path(f"bad{suffix}").write_bytes(damaged)
        result = mnn("run", converted, "-i", f"bad{suffix}")
        assert result.code in (0, 2), result
        assert result.code == 0 or f"bad{suffix}" in result.err


def test_a_picture_for_what_takes_none(refused, picture, tmp_path):
    from tests.cli import models

    message = refused("run", models.chain(tmp_path / "m.onnx"), "-i", picture, "--shape", "x=1x4")
    assert "1 or 3 channels" in message


OUTPUTS = {
    "convert": ["convert", "good.mnn", "{}"],
    "convert external": ["convert", "--saveExternalData", "good.mnn", "{}"],
    "dump": ["dump", "good.mnn", "{}"],
    "bench": ["bench", "good.mnn", "--runs", "1", "--json", "{}"],
}


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_outputs_that_cannot_be_written(refused, converted, tmp_path, name):
    (tmp_path / "good.mnn").write_bytes(converted.read_bytes())
    Path("folder").mkdir()
    for place in ("none/out", "folder", "good.mnn/out"):
        assert f"cannot write {place}" in refused(*_with(OUTPUTS[name], place))
    assert sorted(os.listdir()) == ["folder", "good.mnn"]
    assert not os.listdir("folder")


def test_output_folders_that_cannot_be_made(refused, converted):
    Path("file").touch()
    for place in ("file", "file/below"):
        assert f"cannot make the folder {place}" in refused("run", converted, "--random", "-o", place)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["convert"],
        ["convert", "a.onnx"],
        ["convert", "--optimizeLevel", "7", "a.onnx", "b.mnn"],
        ["convert", "--optimizeLevel", "x", "a.onnx", "b.mnn"],
        ["convert", "--nosuch", "a.onnx", "b.mnn"],
        ["run"],
        ["bench"],
        ["bench", "a.mnn", "--runs", "0"],
        ["compare", "a.onnx", "--tolerance", "-1"],
    ],
)
def test_wrong_usage(mnn, arguments):
    result = mnn(*arguments)
    assert result.code == 2
    assert "Traceback" not in result.err
    assert "Usage" in result.err
    assert not os.listdir()


def test_batch_and_levels(refused, digits):
    assert "--batch must be at least 1" in refused("convert", "--batch", 0, digits, "a.mnn")
    arguments = ["convert", "--optimizeLevel", 0, "--disable-pass", "silu", digits, "a.mnn"]
    assert "runs no passes" in refused(*arguments)
    assert not os.listdir()


def test_a_model_is_not_written_over_itself(refused, digits, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(digits.read_bytes())
    assert "would be lost" in refused("convert", copy, copy)
    assert copy.read_bytes() == digits.read_bytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("more", [[], ["--check", "1e-3"], ["--saveExternalData"]])
def test_a_device_or_pipe_keeps_its_place(refused, digits, tmp_path, more):
    """A file in place of /dev/null would break the system of who may do everything."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        assert "a device or pipe is there" in refused("convert", digits, name, *more)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()


def test_two_reports_are_two_files(refused, digits):
    assert "would both be r.html" in refused("convert", digits, "a.mnn", "--report", "r.html", "--optimize-report",
                                             "r.html")  # fmt: skip


@pytest.mark.parametrize("size", ["9" * 5000, "9" * 18])
def test_sizes_that_no_memory_holds(refused, digits, size):
    assert "--shape" in refused("run", digits, "--random", "--shape", f"image={size}x1x8x8")


@pytest.mark.parametrize("more", [("no/such/a.mnn",), ("a.mnn", "--report", "no/such/r.html")])
def test_folders_that_are_not_there_are_named_before_anything_is_done(refused, digits, more):
    assert "there is no folder no/such" in refused("convert", digits, *more)
    assert not Path("a.mnn").exists()


def test_a_folder_with_models_inside_names_them(refused, tmp_path, digits):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(digits.read_bytes())
    assert "m.onnx" in refused("convert", folder, "a.mnn")
