"""``mnn run`` names the best classes: by labels, of ImageNet-like outputs, as probabilities on request."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import TensorProto, helper

from MNN.cli.display.labels import read_labels, scores
from tests.cli import models

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def scored(path, *shape):
    """An output that is the input: scores as they are given."""
    value = (TensorProto.FLOAT, shape)
    return models.save(path, [helper.make_node("Neg", ["x"], ["scores"])], {"x": value}, {"scores": value})


def _rows(text):
    """The cells of what is listed below ``best``."""
    lines = text[text.index("best ") :].splitlines()
    return [line.split() for line in lines[3:] if line.strip()]


@pytest.fixture
def labels(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return path


def test_the_best_five_with_their_labels(mnn, tmp_path, labels):
    x = -np.float32([[0, 5, 1, 9, -3, 7, 2, -8, 4, 3]])
    np.save("x.npy", x)
    result = mnn("run", scored(tmp_path / "m.onnx", "N", 10), "-i", "x.npy", "--labels", labels)
    assert result.code == 0, result
    assert _rows(result.out) == [
        ["three", "3", "9"], ["five", "5", "7"], ["one", "1", "5"], ["eight", "8", "4"], ["nine", "9", "3"],
    ]  # fmt: skip


def test_softmax_on_request(mnn, tmp_path, labels):
    x = -np.random.default_rng(0).standard_normal((2, 10)).astype(np.float32)
    np.save("x.npy", x)
    result = mnn(
        "run", scored(tmp_path / "m.onnx", "N", 10), "-i", "x.npy", "--labels", labels, "--softmax", "-o", "out"
    )
    assert result.code == 0, result
    whole = np.exp(-x.astype(np.float64))
    whole /= whole.sum(axis=1, keepdims=True)
    wanted = [[str(i), WORDS[c], str(c), f"{row[c]:.2%}"] for i, row in enumerate(whole) for c in np.argsort(-row)[:5]]
    assert _rows(result.out) == wanted
    np.testing.assert_array_equal(np.load("out/scores.npy"), -x)  # what is saved is what the model gives


def test_imagenet_like_outputs_are_found(mnn, tmp_path):
    for shape in ((1, 1000), (1, 1001), (1, 1000, 1, 1)):
        x = np.zeros(shape, np.float32)
        x.reshape(-1)[[7, 999]] = -3, -2
        np.save("x.npy", x)
        result = mnn("run", scored(tmp_path / "m.onnx", *shape), "-i", "x.npy")
        assert _rows(result.out)[:2] == [["7", "3"], ["999", "2"]]
    assert "best" not in mnn("run", scored(tmp_path / "m.onnx", 1, 999), "--random").out


def test_a_background_class_has_no_label(mnn, tmp_path, labels):
    np.save("x.npy", -np.float32([[9, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7]]))
    result = mnn("run", scored(tmp_path / "m.onnx", 1, 11), "-i", "x.npy", "--labels", labels)
    assert _rows(result.out)[:3] == [["(background)", "0", "9"], ["zero", "1", "8"], ["nine", "10", "7"]]


def test_labels_that_fit_no_output(refused, digits, tmp_path, labels):
    labels.write_text("cat\ndog\n", encoding="utf-8")
    message = refused("run", digits, "--random", "--labels", labels)
    assert (
        "--labels with 2 names: no output holds a score for each class; the outputs are 'probability' (1x10)" in message
    )
    model = models.pictures(tmp_path / "p.onnx")
    assert "--softmax: no output" in refused("run", model, "--random", "--shape", "x=1x3x4x4", "--softmax")


def test_softmax_of_probabilities_is_refused(refused, digits):
    assert "'probability' holds probabilities already" in refused("run", digits, "--random", "--softmax")


NUMBERED = {str(i): w for i, w in enumerate(WORDS)}


@pytest.mark.parametrize("content", [WORDS, NUMBERED, {i: ["n01", w] for i, w in NUMBERED.items()}])
def test_labels_in_json(tmp_path, content):
    path = tmp_path / "l.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert read_labels(path) == WORDS


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xff\xfe\xff", b"[1, 2", b'{"1": "a"}', b"[]"])
def test_files_without_labels(refused, digits, data, tmp_path):
    (tmp_path / "l.txt").write_bytes(data)
    assert "l.txt" in refused("run", digits, "--random", "--labels", "l.txt")
    assert "none.txt" in refused("run", digits, "--random", "--labels", "none.txt")


def test_what_may_be_scores():
    assert scores(np.zeros((2, 10), np.float32)).shape == (2, 10)
    assert scores(np.zeros(10, np.float16)).shape == (1, 10)
    assert scores(np.zeros((2, 10, 1, 1), np.float32)).shape == (2, 10)
    for other in (
        np.zeros((2, 3, 4, 4)),
        np.zeros((2, 10), np.int64),
        np.zeros(()),
        np.zeros((2, 0)),
        np.zeros((2, 1)),
    ):
        assert scores(other) is None
