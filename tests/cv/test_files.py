from __future__ import annotations

import io
import pathlib

import numpy as np
import pytest
from PIL import Image

import MNN.cv as cv
from MNN.errors import FormatError, MNNError, ShapeError
from tests.cv.opencv_cases import pictures

SMOOTH = pictures()["smooth"]


@pytest.mark.parametrize("ext", ["png", "bmp", "tiff", "ppm"])
def test_lossless_round_trip(tmp_path: pathlib.Path, ext: str) -> None:
    path = tmp_path / f"a.{ext}"
    assert cv.imwrite(path, SMOOTH)
    assert np.array_equal(cv.imread(path), SMOOTH)
    gray = cv.cvtColor(SMOOTH, cv.COLOR_BGR2GRAY)
    assert np.array_equal(cv.imread(str(path), cv.IMREAD_GRAYSCALE), gray)
    assert cv.imwrite(path, gray)
    assert np.array_equal(cv.imread(path), np.repeat(gray, 3, 2))
    floats = cv.imread(path, cv.IMREAD_ANYDEPTH)
    assert floats.dtype == np.float32
    assert floats.max() == gray.max()


def test_first_channel_is_blue(tmp_path: pathlib.Path) -> None:
    Image.new("RGB", (3, 2), (200, 100, 50)).save(tmp_path / "a.png")
    assert cv.imread(tmp_path / "a.png")[1, 2].tolist() == [50, 100, 200]


def test_jpeg_in_memory() -> None:
    good, data = cv.imencode("jpg", SMOOTH)
    assert good
    assert data[:2] == [255, 216]
    for buffer in (data, bytes(data), bytearray(data), np.array(data, np.uint8)):
        assert np.abs(cv.imdecode(buffer).astype(int) - SMOOTH).mean() < 4
    smaller = cv.imencode(".jpg", SMOOTH, [cv.IMWRITE_JPEG_QUALITY, 20])[1]
    assert len(smaller) < len(data)
    gray = cv.imdecode(data, cv.IMREAD_GRAYSCALE)
    assert gray.shape == (20, 28, 1)
    assert np.abs(gray.astype(int) - cv.cvtColor(SMOOTH, cv.COLOR_BGR2GRAY)).mean() < 3


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_every_pixel_type_becomes_bgr(mode: str, tmp_path: pathlib.Path) -> None:
    base = Image.new("L", (8, 8), 200)
    if mode == "I;16":
        image = Image.fromarray(np.full((8, 8), 200 * 257, np.uint16))
    elif mode == "I":
        image = Image.fromarray(np.full((8, 8), 200 * 257, np.int32))
    elif mode == "LA":
        image = Image.merge("LA", (base, Image.new("L", (8, 8), 17)))
    elif mode == "RGBA":
        image = Image.new("RGBA", (8, 8), (200, 200, 200, 17))
    else:
        image = base.convert("RGB").convert(mode) if mode in ("P", "CMYK") else base.convert(mode)
    path = tmp_path / ("a.tiff" if mode in ("CMYK", "I", "F") else "a.png")
    image.save(path)
    result = cv.imread(path)
    assert result.shape == (8, 8, 3)
    assert result.dtype == np.uint8
    assert abs(int(result[3, 3, 0]) - (255 if mode == "1" else 200)) <= (55 if mode in ("1", "P") else 1)
    assert cv.imread(path, cv.IMREAD_GRAYSCALE).shape == (8, 8, 1)


def test_exif_orientation_is_applied() -> None:
    image = Image.new("RGB", (6, 4))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise to see it upright
    stream = io.BytesIO()
    image.save(stream, "JPEG", exif=exif)
    assert cv.imdecode(stream.getvalue()).shape == (6, 4, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's remarks on damaged TIFF files
def test_damaged_files_are_format_errors() -> None:
    random = np.random.default_rng(1)
    for ext in ("png", "jpg", "bmp", "tiff", "webp"):
        data = bytes(cv.imencode(ext, SMOOTH)[1])
        outcomes = set()
        for i in range(150):
            broken = bytearray(data[: random.integers(0, len(data))] if i % 2 else data)
            for _ in range(3):
                if broken:
                    broken[random.integers(0, len(broken))] = random.integers(0, 256)
            try:
                cv.imdecode(bytes(broken))
                outcomes.add("read")
            except FormatError:
                outcomes.add("refused")
        assert "refused" in outcomes
    with pytest.raises(FormatError, match="0 bytes"):
        cv.imdecode(b"")


def test_a_huge_picture_is_refused() -> None:
    data = bytearray(cv.imencode("bmp", SMOOTH)[1])
    data[18:26] = (40000).to_bytes(4, "little") * 2
    with pytest.raises(FormatError):
        cv.imdecode(bytes(data))


def test_errors_name_the_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(MNNError, match=r"nowhere\.jpg"):
        cv.imread(tmp_path / "nowhere.jpg")
    (tmp_path / "text.jpg").write_text("no picture")
    with pytest.raises(FormatError, match=r"text\.jpg"):
        cv.imread(tmp_path / "text.jpg")
    with pytest.raises(MNNError, match=r"\.xyz"):
        cv.imwrite(tmp_path / "a.xyz", SMOOTH)
    with pytest.raises(MNNError, match=r"b\.png"):
        cv.imwrite(tmp_path / "no" / "b.png", SMOOTH)
    with pytest.raises(ShapeError):
        cv.imwrite(tmp_path / "a.png", np.zeros((2, 3, 4, 5)))
    with pytest.raises(MNNError, match="5 channels"):
        cv.imwrite(tmp_path / "a.png", np.zeros((2, 3, 5), np.uint8))
    assert not (tmp_path / "a.png").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["text.jpg"]


def test_writing_replaces_whole_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.png"
    cv.imwrite(path, SMOOTH)
    cv.imwrite(path, SMOOTH[:5] * 1.0)  # floats are rounded
    assert np.array_equal(cv.imread(path), SMOOTH[:5])
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_which_formats_are_known(tmp_path: pathlib.Path) -> None:
    cv.imwrite(tmp_path / "a.png", SMOOTH)
    (tmp_path / "b.png").write_text("no")
    assert cv.haveImageReader(tmp_path / "a.png")
    assert not cv.haveImageReader(tmp_path / "b.png")
    assert not cv.haveImageReader(tmp_path / "c.png")
    assert cv.haveImageWriter("x.JPG")
    assert not cv.haveImageWriter("x.txt")
