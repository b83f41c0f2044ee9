"""A session that has seen other sizes gives what a fresh one gives, whatever of its earlier plans it keeps."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import pytest

import MNN
from benchmarks.architectures.catalog import ARCHITECTURES
from tests import zoo
from tests.runtime.changes import changed

PICTURES = [224, 160, 320, 128, 224, 160]
TOKENS = [128, 200, 37, 128, 200]
TOLERANCE = 1e-5  # of the largest number: other sizes may have chosen other algorithms
DEEP = 8e-5  # InceptionV3's own error is 6e-5, and with other algorithms it is another one

pytestmark = [pytest.mark.real, pytest.mark.slow]


def opened(name: str, folder: pathlib.Path) -> pathlib.Path:
    """The network for pictures of any size."""
    model = onnx.load(zoo.architecture(name))
    for value in [*model.graph.input, *model.graph.output]:
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 4:
            dims[2].dim_param, dims[3].dim_param = "height", "width"
    del model.graph.value_info[:]
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("name", "threads", "tolerance"),
    [("mobilenet_v2", 1, TOLERANCE), ("resnet18", 1, TOLERANCE), ("inception_v3", 2, DEEP)],
)
def test_pictures(name: str, threads: int, tolerance: float, tmp_path: pathlib.Path) -> None:
    path = opened(name, tmp_path)
    rng = np.random.default_rng(5)
    feeds = {n: {"input": rng.normal(size=(1, 3, n, n)).astype(np.float32)} for n in dict.fromkeys(PICTURES)}
    assert changed(lambda: MNN.load(path, threads=threads, precision="high"), feeds, PICTURES, tolerance) > 0


def test_tokens() -> None:
    path = zoo.architecture("distilbert")
    feeds = {n: ARCHITECTURES["distilbert"].feeds(5, batch=1, sequence=n) for n in dict.fromkeys(TOKENS)}
    assert changed(lambda: MNN.load(path, threads=2, precision="high"), feeds, TOKENS, TOLERANCE) > 0
