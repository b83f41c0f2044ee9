"""CVMatrix and CVImageProcess: against PyMNN's answers, and pixel by pixel in plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import MNN
from MNN import MNNError
from MNN import cv as mcv
from MNN.cv.kernels.run import Settings
from tests.cv.process_cases import FILE, cases
from tests.cv.process_sweep import asked, process

I420, NV12, NV21 = MNN.CV_ImageFormat_YUV_I420, MNN.CV_ImageFormat_YUV_NV12, MNN.CV_ImageFormat_YUV_NV21


def test_as_pymnn() -> None:
    with np.load(FILE) as file:
        expected = dict(file)
    found = dict(cases(MNN))
    assert set(found) == set(expected)
    for name, ours in found.items():
        apart = np.abs(ours.astype(np.float64) - expected[name])
        assert (apart > (1 if ours.dtype == np.uint8 else 0.41)).mean() <= 0.02, name  # ties between two pixels


def _weight(x: float, how: int) -> float:
    x = abs(x)
    if how == 1:
        return max(1 - x, 0.0)
    if x <= 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def _sampled(plane: Any, u: float, v: float, how: int, wrap: int) -> list[float]:
    """Sums over all pixels of a picture whose edge goes on, or that is repeated first."""
    rows, columns = plane.shape[:2]
    if wrap == 2:
        u, v = u % columns, v % rows
    u, v = min(max(u, 0), columns - 1), min(max(v, 0), rows - 1)
    if how == 0:
        return [float(n) for n in plane[math.floor(v + 0.5), math.floor(u + 0.5)]]
    total = np.zeros(plane.shape[2])
    for y in range(math.floor(v) - 1, math.floor(v) + 3):
        for x in range(math.floor(u) - 1, math.floor(u) + 3):
            pixel = plane[min(max(y, 0), rows - 1), min(max(x, 0), columns - 1)].astype(np.float64)
            total += _weight(u - x, how) * _weight(v - y, how) * pixel
    return [float(n) for n in np.clip(np.rint(total), 0, 255)]


@pytest.mark.parametrize("by", ["numpy", "kernels"])
@pytest.mark.parametrize("how", range(3))
@pytest.mark.parametrize("wrap", range(3))
def test_sampling(how: int, wrap: int, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "least", 0 if by == "kernels" else 1 << 60)
    random = np.random.default_rng(how * 3 + wrap)
    source = random.integers(0, 256, (7, 9, 3)).astype(np.uint8)
    m = MNN.CVMatrix()
    m.setRotate(25, 3, 3)
    m.postScale(1.3, 0.8)
    sampler = MNN.CVImageProcess({"filterType": how, "sourceFormat": 1, "destFormat": 1, "wrap": wrap})
    sampler.setMatrix(m)
    sampler.setPadding(9)
    tensor = MNN.Tensor((1, 3, 6, 8), MNN.Halide_Type_Uint8, MNN.Tensor_DimensionType_Caffe)
    assert sampler.convert(source, 9, 7, 0, tensor) == 0
    for y in range(6):
        for x in range(8):
            u, v, _ = np.asarray(m) @ [x, y, 1]
            wanted = _sampled(source, u, v, how, wrap)
            if wrap == 1 and not (0 <= u <= 8 and 0 <= v <= 6):
                wanted = [9.0] * 3
            assert np.abs(tensor.getNumpyData()[0, :, y, x] - wanted).max() <= 1, (x, y)


@pytest.mark.parametrize("seed", range(40))
def test_kernels_are_as_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formats, filters, wraps, strides, matrices and sizes that a seed draws, into tensors of all layouts."""
    random = np.random.default_rng(seed)
    calls = list(asked(seed))
    call = calls[int(random.integers(len(calls)))]
    filtering, wrap = int(random.integers(3)), int(random.integers(3))
    call = call._replace(config=call.config | {"filterType": filtering, "wrap": wrap})
    layout, more = int(random.integers(3)), int(random.integers(3))
    kind = MNN.Halide_Type_Uint8 if call.whole else MNN.Halide_Type_Float
    _, rows, columns, channels = call.shape
    last = layout == MNN.Tensor_DimensionType_Tensorflow
    shape = (1, rows, columns, channels + more) if last else (1, channels + more, rows, columns)
    found = []
    for least in (1 << 60, 0):
        monkeypatch.setattr(Settings, "least", least)
        tensor = MNN.Tensor(shape, kind, layout)
        assert process(MNN, call).convert(call.data, *call.size, call.stride, tensor) == 0
        found.append(np.array(tensor.getNumpyData(), np.float64))
    level = 1 if call.whole else 1.001 * max(call.config["normal"])
    apart = np.abs(found[0] - found[1])
    assert (apart <= level).mean() >= (0.99 if wrap == 2 and filtering == 0 else 1), call.name  # ends of repeats


def test_pictures_of_less_than_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "least", 0)
    tensor = MNN.Tensor((1, 2, 3, 3), MNN.Halide_Type_Float, MNN.Tensor_DimensionType_Tensorflow)
    MNN.CVImageProcess({"sourceFormat": 1, "destFormat": 2}).convert(bytes([1, 2, 3]), 1, 1, 0, tensor)
    np.testing.assert_array_equal(tensor.getNumpyData(), np.broadcast_to(np.float32([3, 2, 1]), (1, 2, 3, 3)))


@pytest.mark.parametrize("form", [I420, NV12, NV21])
@pytest.mark.parametrize("stride", [0, 12])
@pytest.mark.parametrize("by", ["numpy", "kernels"])
def test_yuv(form: int, stride: int, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "least", 0 if by == "kernels" else 1 << 60)
    random = np.random.default_rng(form)
    width, height = 10, 6
    step = stride or width
    luma, u, v = (random.integers(0, 256, s).astype(np.uint8) for s in ((height, width), (3, 5), (3, 5)))
    data = np.zeros((height * 3 // 2, step), np.uint8)
    data[:height, :width] = luma
    if form == I420:
        for i, plane in enumerate((u, v)):
            rows = np.zeros((3, step // 2), np.uint8)
            rows[:, :5] = plane
            data[height:].ravel()[i * rows.size : (i + 1) * rows.size] = rows.ravel()
    else:
        pairs = np.stack([v, u] if form == NV21 else [u, v], 2).reshape(3, 10)
        data[height:, :10] = pairs
    tensor = MNN.Tensor((1, height, width, 3), MNN.Halide_Type_Float, MNN.Tensor_DimensionType_Tensorflow)
    MNN.CVImageProcess({"sourceFormat": form, "destFormat": 1}).convert(data.tobytes(), width, height, stride, tensor)
    big = [p.repeat(2, 0).repeat(2, 1).astype(np.float64) - 128 for p in (u, v)]
    y = luma.astype(np.float64)
    wanted = np.stack([y + 1.14 * big[1], y - 0.391 * big[0] - 0.578 * big[1], y + 2.031 * big[0]], 2)
    assert np.abs(tensor.getNumpyData()[0] - wanted.clip(0, 255)).max() <= 3


def test_matrices_map_points() -> None:
    a, b = [0.0, 0, 9, 1, 8, 7, 1, 8], [1.0, 2, 12, 0, 11, 10, 0, 11]
    for count in range(5):
        m = MNN.CVMatrix()
        m.setPolyToPoly(a[: 2 * count], b[: 2 * count])
        for i in range(count):
            x, y, w = np.asarray(m) @ [*a[2 * i : 2 * i + 2], 1]
            np.testing.assert_allclose([x / w, y / w], b[2 * i : 2 * i + 2], atol=1e-9)
    before = np.asarray(m)
    m.invert()
    np.testing.assert_allclose(np.asarray(m) @ before, np.eye(3), atol=1e-9)
    m.write([1.0, 2.0, 3.0])
    assert m.read()[:3] == [1.0, 2.0, 3.0]
    m.setTranslate(1, 2)
    m.preRotate(90)
    m.postScale(2, 3)
    m.preScale(1, 1)
    m.postRotate(0)
    m.postTranslate(0, 1)
    np.testing.assert_allclose(np.asarray(m) @ [1, 0, 1], [2, 10, 1], atol=1e-9)
    assert repr(MNN.CVMatrix()).startswith("[[1.000000\t0.000000")


def test_matrices_of_cv_are_matrices() -> None:
    m = mcv.getRotationMatrix2D((3, 4), 30, 2)
    assert isinstance(m, MNN.CVMatrix)
    assert np.asarray(m).shape == (2, 3) == m.shape
    assert len(m.read()) == 9
    picture = np.random.default_rng(0).integers(0, 256, (8, 9, 3)).astype(np.uint8)
    full = MNN.CVMatrix()
    full.write(m.read())
    np.testing.assert_array_equal(mcv.warpAffine(picture, m, (7, 6)), mcv.warpAffine(picture, full, (7, 6)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: MNN.CVImageProcess(3), lambda: MNN.CVImageProcess({"sourceFormat": "RGB"}),
        lambda: MNN.CVImageProcess({"mean": "abc"}), lambda: MNN.CVImageProcess({}).setPadding("x"),
        lambda: MNN.CVImageProcess({}).convert(bytes(64), "4", 4, 0, _tensor()),
        lambda: mcv.solvePnP(np.zeros((4, 3)), np.zeros((4, 2)), np.eye(3), None),
        lambda: MNN.CVImageProcess({"filter": 1}), lambda: MNN.CVImageProcess({"sourceFormat": 99}),
        lambda: MNN.CVImageProcess({"mean": (1, 2, 3, 4, 5)}), lambda: MNN.CVImageProcess({"destFormat": 11}),
        lambda: MNN.CVMatrix().setPolyToPoly([0, 0, 1, 1, 2, 2], [0, 0, 1, 0, 0, 1]),
        lambda: MNN.CVMatrix().setPolyToPoly([0, 0], []),
        lambda: MNN.CVImageProcess({}).convert(b"123", 4, 4, 0, _tensor()),
        lambda: MNN.CVImageProcess({}).convert(np.zeros(64, np.float32), 4, 4, 0, _tensor()),
        lambda: MNN.CVImageProcess({}).convert(bytes(64), 4, 4, 3, _tensor()),
        lambda: MNN.CVImageProcess({}).convert(bytes(64), 4, 4, 0, np.zeros(3)),
        lambda: MNN.CVImageProcess({}).convert(12, 4, 4, 0, _tensor()),
    ],
)  # fmt: skip
def test_mistakes_are_sentences(call: Any) -> None:
    with pytest.raises(MNNError):
        call()


def _tensor() -> MNN.Tensor:
    return MNN.Tensor((1, 4, 4, 4), MNN.Halide_Type_Float, MNN.Tensor_DimensionType_Tensorflow)
