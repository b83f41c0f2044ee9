"""Caffe's networks among the models that are compared; OpenCV says what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.frontends.caffe.build import caffemodel, prototxt
from tests.frontends.caffe.networks import NETWORKS, Builder, for_opencv
from tests.frontends.caffe.opencv import Request, answers
from tests.interop.models import Feeds, Model
from tests.models.media import picture

SEED = 3


@dataclass(frozen=True)
class CaffeModel(Model):
    """A caffemodel with its description beside it. ``described`` and ``weights`` are the two as OpenCV gets them."""

    described: str
    weights: bytes
    outputs: tuple[str, ...]

    def expected(self) -> dict[str, np.ndarray]:
        """Outputs by name, from OpenCV."""
        request = Request(self.described, self.weights, self.feeds(), self.outputs)
        answer = answers({"model": request})["model"]
        if isinstance(answer, str):
            raise ValueError(f"{self.name}: {answer}")
        return {name: _found(array) for name, array in answer.items()}


def _found(array: np.ndarray) -> np.ndarray:
    """Detections without the rows of zeros that OpenCV fills up with."""
    rows = array.reshape(-1, array.shape[-1])
    return array[:, :, rows.any(1)] if array.ndim == 4 and array.shape[:2] == (1, 1) and array.shape[3] == 7 else array


def caffe_models(folder: Path) -> Iterator[CaffeModel]:
    """Networks with random weights, which are written to ``folder``, and a trained one."""
    from tests import zoo

    folder.mkdir(parents=True, exist_ok=True)
    for name, make in NETWORKS.items():
        case = make(Builder(SEED))
        path = folder / f"{name}.caffemodel"
        path.write_bytes(caffemodel(case.net))
        path.with_suffix(".prototxt").write_text(prototxt(case.net), encoding="utf-8")
        given, theirs = case.feeds, for_opencv(case)
        yield CaffeModel(
            f"caffe/{name}", path, lambda given=given: given, prototxt(theirs), caffemodel(theirs), case.outputs  # type: ignore[misc]
        )  # fmt: skip
    weights, described = zoo.path("ssd_caffemodel"), zoo.path("ssd_prototxt").read_text(encoding="utf-8")
    yield CaffeModel("caffe/face_ssd", weights, _face, described, weights.read_bytes(), ("detection_out",))


def _face() -> Feeds:
    pixels = np.asarray(picture("picture_hopper").resize((300, 300)), np.float32)[:, :, ::-1]
    return {"data": (pixels - np.array([104, 177, 123], np.float32)).transpose(2, 0, 1)[None]}
