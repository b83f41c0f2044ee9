"""Operators that only files of the official engine hold, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from tests.harness import run_reference

RNG = np.random.default_rng(5)


def run(
    op: str, arrays: list[np.ndarray], attrs: dict[str, object] | None = None, outputs: int = 1
) -> list[np.ndarray]:
    inputs = [Value(f"x{i}", DType.of(a), a.shape) for i, a in enumerate(arrays)]
    made = [Value(f"y{i}") for i in range(outputs)]
    graph = Graph("g", inputs, made, [Node(op, "n", list(inputs), made, attrs or {})])
    found = run_reference(graph, {v.name: a for v, a in zip(inputs, arrays, strict=True)})
    return [np.asarray(a) for a in found]


def noise(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_convert_tensor_moves_channels_and_back(shape: tuple[int, ...]) -> None:
    x = noise(*shape)
    last = run("ConvertTensor", [x], {"source": "NC4HW4", "dest": "NHWC"})[0]
    np.testing.assert_array_equal(last, np.moveaxis(x, 1, -1) if x.ndim > 2 else x)
    np.testing.assert_array_equal(run("ConvertTensor", [last], {"source": "NHWC", "dest": "NCHW"})[0], x)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("PROD", lambda a, b, c: a * b * c), ("SUM", lambda a, b, c: a + b + c), ("SUB", lambda a, b, c: a - b - c),
     ("MAXIMUM", lambda a, b, c: np.maximum(np.maximum(a, b), c))],
)  # fmt: skip
def test_eltwise(kind: str, expected: object) -> None:
    parts = [noise(2, 3) for _ in range(3)]
    np.testing.assert_array_equal(run("Eltwise", parts, {"type": kind})[0], expected(*parts))  # type: ignore[operator]


def test_eltwise_sums_multiples() -> None:
    a, b = noise(2, 3), noise(2, 3)
    found = run("Eltwise", [a, b], {"type": "SUM", "coeff": [2.0, -0.5]})[0]
    np.testing.assert_allclose(found, 2 * a - 0.5 * b, rtol=1e-6)
    with pytest.raises(MNNError, match="coefficients"):
        run("Eltwise", [a, b], {"type": "SUM", "coeff": [2.0, 1.0, 1.0]})


def test_threshold_and_dropout() -> None:
    x = noise(3, 4)
    np.testing.assert_array_equal(run("Threshold", [x], {"alpha": 0.25})[0], (x > 0.25).astype(np.float32))
    np.testing.assert_array_equal(run("Dropout", [x])[0], x)


@pytest.mark.parametrize("keep", [True, False])
def test_moments(keep: bool) -> None:
    x = noise(2, 3, 4, 5)
    mean, variance = run("Moments", [x], {"dim": [2, 3], "keepDims": keep}, outputs=2)
    np.testing.assert_allclose(mean, x.mean((2, 3), keepdims=keep), atol=1e-6)
    np.testing.assert_allclose(variance, x.var((2, 3), keepdims=keep), atol=1e-6)


def test_cosine_similarity() -> None:
    x, y = noise(2, 5, 3), noise(2, 5, 3)
    expected = (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))
    np.testing.assert_allclose(run("CosineSimilarity", [x, y, np.array([1])])[0], expected, rtol=1e-5)


def test_space_to_batch_and_back() -> None:
    x = noise(2, 3, 5, 4)
    attrs: dict[str, object] = {"blockShape": np.array([2, 3]), "padding": np.array([[0, 1], [1, 1]])}
    moved = run("SpaceToBatchND", [x], attrs)[0]
    padded = np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 1)))
    for i in range(2):
        for j in range(3):
            np.testing.assert_array_equal(moved[2 * (3 * i + j) : 2 * (3 * i + j) + 2], padded[:, :, i::2, j::3])
    np.testing.assert_array_equal(run("BatchToSpaceND", [moved], attrs)[0], x)
    operands = [moved, np.array([2, 3], np.int32), np.array([[0, 1], [1, 1]], np.int32)]
    np.testing.assert_array_equal(run("BatchToSpaceND", operands)[0], x)
    with pytest.raises(MNNError, match="blocks"):
        run("SpaceToBatchND", [x], {"blockShape": np.array([2, 0]), "padding": np.zeros((2, 2), np.int32)})


def test_crop() -> None:
    x, like = noise(1, 3, 8, 9), noise(1, 3, 4, 5)
    np.testing.assert_array_equal(run("Crop", [x, like], {"axis": 2, "offset": [1, 2]})[0], x[:, :, 1:5, 2:7])
    np.testing.assert_array_equal(run("Crop", [x, like], {"axis": -2, "offset": [3]})[0], x[:, :, 3:7, 3:8])
    with pytest.raises(MNNError):
        run("Crop", [x, like], {"axis": 2, "offset": [5, 5]})


def test_prior_boxes_by_hand() -> None:
    attrs: dict[str, object] = {
        "minSizes": [4.0], "maxSizes": [9.0], "aspectRatios": [4.0, 1.0], "flip": True, "offset": 0.5,
        "variances": [0.1, 0.1, 0.2, 0.2], "stepWidth": 0, "stepHeight": 0,
    }  # fmt: skip
    found = run("PriorBox", [noise(1, 2, 1, 2), noise(1, 3, 10, 20)], attrs)[0]
    assert found.shape == (1, 2, 2 * 4 * 4, 1)
    boxes = found[0, 0].reshape(2, 4, 4)
    sizes = [(4, 4), (6, 6), (8, 2), (2, 8)]
    for place, centre in enumerate([(5, 5), (15, 5)]):
        for k, (w, h) in enumerate(sizes):
            x, y = centre
            expected = np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2]) / [20, 10, 20, 10]
            np.testing.assert_allclose(boxes[place, k], expected, rtol=1e-6)
    np.testing.assert_allclose(found[0, 1].reshape(-1, 4), np.tile([0.1, 0.1, 0.2, 0.2], (8, 1)), rtol=1e-6)


def test_detection_keeps_the_best_of_overlapping_boxes() -> None:
    priors = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]], np.float32)
    stacked = np.stack([priors.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], 3)]).reshape(1, 2, -1, 1).astype(np.float32)
    confidence = np.array([[0.1, 0.8], [0.2, 0.9], [0.7, 0.3]], np.float32).reshape(1, -1)
    attrs: dict[str, object] = {"classCount": 2, "keepTopK": 10, "nmsThresholdold": 0.5, "confidenceThreshold": 0.25}
    found = run("DetectionOutput", [np.zeros((1, 12), np.float32), confidence, stacked], attrs)[0]
    expected = [[1, 0.9, 0, 0, 1, 0.9], [1, 0.3, 2, 2, 3, 3]]
    np.testing.assert_allclose(found.reshape(-1, 6), expected, rtol=1e-6)
    shifted = run("DetectionOutput", [np.full((1, 12), 1.0, np.float32), confidence, stacked], attrs)[0]
    np.testing.assert_allclose(
        shifted[0, 0, 1, 2:], [2.6 - np.exp(0.2) / 2] * 2 + [2.6 + np.exp(0.2) / 2] * 2, rtol=1e-5
    )
    with pytest.raises(MNNError):
        run("DetectionOutput", [np.zeros((1, 8), np.float32), confidence, stacked], attrs)
