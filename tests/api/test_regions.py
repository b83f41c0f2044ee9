"""Boxes, blocks, cuts, whole numbers and decompositions of ``MNN.expr``, against formulas written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
from MNN import MNNError

RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(4, 3, 6, 8)).astype(np.float32)


def image(layout: F.data_format = F.NC4HW4) -> F.Var:
    return F.convert(F.const(X, X.shape), layout)


@pytest.mark.parametrize("layout", [F.NCHW, F.NHWC, F.NC4HW4])
def test_blocks(layout: F.data_format) -> None:
    v = image(layout)
    apart = F.space_to_batch_nd(v, [2, 4], [[1, 1], [0, 0]])
    assert apart.data_format is layout
    wide = np.pad(X, ((0, 0), (0, 0), (1, 1), (0, 0)))
    found = F.convert(apart, F.NCHW).read()
    for i in range(2):
        for j in range(4):
            np.testing.assert_array_equal(found[(i * 4 + j) * 4 : (i * 4 + j + 1) * 4], wide[:, :, i::2, j::4])
    again = F.batch_to_space_nd(apart, F.const([2, 4], [2], F.NCHW, F.int), [[1, 1], [0, 0]])
    np.testing.assert_array_equal(again.read(), v.read())


def test_crop() -> None:
    found = F.crop(image(), F.const(np.zeros(24), [1, 1, 4, 6]), 2, [1, 2])
    np.testing.assert_array_equal(F.convert(found, F.NCHW).read(), X[:, :, 1:5, 2:8])


def test_normalize() -> None:
    scale = [0.5, 2.0, 3.0]
    root = np.sqrt((X**2).sum(1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(F.normalize(image(), 0, 0, 1e-3, scale).read(), X / root * np.reshape(scale, (3, 1, 1)),
                               rtol=1e-5)  # fmt: skip
    root = np.sqrt((X**2).sum((1, 2, 3), keepdims=True) + 1e-3)
    np.testing.assert_allclose(F.normalize(image(), 1, 1, 1e-3, [2.0]).read(), X / root * 2, rtol=1e-5)
    with pytest.raises(MNNError, match="3 channel"):
        F.normalize(image(), 0, 0, 1e-3, [1.0])


def test_regions() -> None:
    roi = np.float32([[2, 1, 1, 5, 4], [0, 0, 0, 7, 5]])
    pooled = F.roi_pooling(image(), roi, 2, 2, 1.0).read()
    for r, (n, x1, y1, x2, y2) in enumerate(roi.astype(int)):
        h, w = y2 - y1 + 1, x2 - x1 + 1
        for i in range(2):
            for j in range(2):
                rows = slice(y1 + i * h // 2, y1 + -(-(i + 1) * h // 2))
                columns = slice(x1 + j * w // 2, x1 + -(-(j + 1) * w // 2))
                np.testing.assert_array_equal(pooled[r, :, i, j], X[n, :, rows, columns].max((1, 2)))
    whole = np.float32([[1, 0, 0, 4, 4]])
    aligned = F.roi_align(image(), whole, 4, 4, 1.0, 1, True, F.Pooling_Mode.AVEPOOL).read()
    np.testing.assert_allclose(aligned[0], X[1, :, :4, :4], atol=1e-6)  # samples fall on pixels
    with pytest.raises(MNNError, match="gradients"):
        F.roi_pooling(image(), roi, 2, 2, 1.0, True)


@pytest.mark.parametrize("method", list(F.Interp_Method))
def test_crop_and_resize(method: F.Interp_Method) -> None:
    boxes = np.float32([[0, 0, 1, 1], [0.25, 0.125, 0.75, 1.25], [1, 0.75, 0.25, 0.25]])
    found = F.crop_and_resize(image(), boxes, [0, 3, 1], [3, 5], method, -7.0).read()
    pictures = X.transpose(0, 2, 3, 1)
    for b, ((y1, x1, y2, x2), n) in enumerate(zip(boxes, [0, 3, 1], strict=True)):
        for i in range(3):
            for j in range(5):
                y, x = (y1 + (y2 - y1) * i / 2) * 5, (x1 + (x2 - x1) * j / 4) * 7
                if not (0 <= y <= 5 and 0 <= x <= 7):
                    wanted = np.full(3, -7.0)
                elif method is F.NEAREST:
                    wanted = pictures[n, int(y + 0.5), int(x + 0.5)]
                else:
                    weights = np.maximum(1 - np.abs(np.arange(6) - y), 0)[:, None] * np.maximum(
                        1 - np.abs(np.arange(8) - x), 0
                    )  # fmt: skip
                    wanted = (pictures[n] * weights[:, :, None]).sum((0, 1))
                np.testing.assert_allclose(found[b, i, j], wanted, atol=1e-5)


def test_raster() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(F.raster([x], [0, 1, 1, 3, 0, 1, 2, 1, 1, 3, 2], [3, 2]).read(), x.T)
    both = F.raster([x, x + 10], [0, 6, 3, 1, 0, 6, 6, 1, 1, 2, 3, 0, 6, 3, 1, 3, 6, 6, 1, 1, 2, 3], [2, 6])
    np.testing.assert_array_equal(both.read(), np.concatenate([x, x + 10], 1))
    with pytest.raises(MNNError, match="leaves the source"):
        F.raster([x], [4, 1, 1, 3, 0, 1, 2, 1, 1, 3, 2], [3, 2])


def test_quant() -> None:
    scale = np.float32([10, 20, 40])
    found = F.quant(image(), scale)
    scaled = X * scale[:, None, None]
    wanted = np.clip(np.trunc(scaled + np.copysign(0.5, scaled)), -128, 127)
    np.testing.assert_array_equal(found.read(), wanted)
    assert found.dtype is F.int8
    back = F.dequant(found, 1 / scale, 0)
    np.testing.assert_allclose(back.read(), wanted / scale[:, None, None], rtol=1e-5)
    np.testing.assert_array_equal(F.quant([2.5, -2.5, 900.0], 1.0, -100, 100, 3).read(), [6, 0, 100])


def test_numbers() -> None:
    np.testing.assert_array_equal(F.histogram([0.0, 1, 1.5, 4, 9], 4, 0, 4).read(), [1, 2, 0, 1])
    w, u, vt = (v.read() for v in F.svd(X[0, 0]))
    np.testing.assert_allclose(u @ np.diag(w) @ vt, X[0, 0], atol=1e-5)
    assert (w.shape, u.shape, vt.shape) == ((6,), (6, 6), (6, 8))
    (found,) = F.jsonop([X], '{"type": "UnaryOp", "main": {"opType": "ABS"}}', 1)
    np.testing.assert_array_equal(found.read(), np.abs(X))


@pytest.mark.parametrize("regular", [False, True])
def test_detection(regular: bool) -> None:
    anchors = np.float32([[0.5, 0.5, 1, 1], [0.5, 0.55, 1, 1], [3, 3, 1, 1], [7, 7, 2, 2]])
    boxes = np.zeros((1, 4, 4), np.float32)
    boxes[0, 3] = [5, 0, 0, 5 * np.log(2)]
    scores = np.float32([[[0, 0.9, 0.1], [0, 0.8, 0.2], [0, 0.1, 0.7], [0, 0.6, 0.05]]])
    found = F.detection_post_process(boxes, scores, anchors, 2, 5, 1, 5, 0.3, 0.5, regular, [10, 10, 5, 5])
    places, classes, values, count = (v.read() for v in found)
    assert count[0] == 3
    np.testing.assert_allclose(values[0], [0.9, 0.7, 0.6, 0, 0], atol=1e-6)
    np.testing.assert_array_equal(classes[0, :3], [0, 1, 0])
    np.testing.assert_allclose(places[0, :3], [[0, 0, 1, 1], [2.5, 2.5, 3.5, 3.5], [7, 5, 9, 9]], atol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.jsonop([X], "nonsense", 1), lambda: F.jsonop([X], '{"type": "NoSuchOperator"}', 1),
        lambda: F.svd([1.0]), lambda: F.histogram([1.0], 0, 0, 1), lambda: F.quant([1.0], 1.0, 5, 1),
        lambda: F.dequant([1.0], 1.0, 0), lambda: F.crop_and_resize(X, [[0, 0, 1, 1]], [9], [2, 2]),
        lambda: F.raster([X], [1, 2], [1]), lambda: F.crop(X, X, 2, [5]),
        lambda: F.batch_to_space_nd(X, [3, 3], [0, 0, 0, 0]),
    ],
)  # fmt: skip
def test_mistakes_are_sentences(call: Any) -> None:
    with pytest.raises(MNNError):
        call()
