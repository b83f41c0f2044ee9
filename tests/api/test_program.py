"""The program that PyMNN's documentation opens with, unchanged."""

from __future__ import annotations

from pathlib import Path

import numpy
import onnxruntime
import pytest
from PIL import Image

import MNN
import MNN.cv as cv2
import MNN.numpy as np
from tests.api.models import classifier, write


def inference(model_path, img_path):  # type: ignore[no-untyped-def]
    net = MNN.nn.load_module_from_file(model_path, ["data"], ["prob"])
    image = cv2.imread(img_path)
    image = image[..., ::-1]
    image = cv2.resize(image, (224, 224))
    image = image - (103.94, 116.78, 123.68)
    image = image * (0.017, 0.017, 0.017)
    image = image.astype(np.float32)
    input_var = MNN.expr.convert(image, MNN.expr.NC4HW4)
    output_var = net.forward(input_var)
    output_var = MNN.expr.convert(output_var, MNN.expr.NHWC)
    print(f"output belong to class: {np.argmax(output_var)}")


@pytest.fixture
def picture(tmp_path: Path) -> str:
    """A JPEG with colours and gradients, 320 by 200."""
    y, x = numpy.mgrid[0:200, 0:320]
    image = numpy.stack([x * 255 / 320, y * 255 / 200, (x // 20 + y // 20) % 2 * 200], -1).astype(numpy.uint8)
    path = tmp_path / "picture.jpg"
    Image.fromarray(image).save(path, quality=95)
    return str(path)


def expected(folder: Path, picture: str, seed: int) -> int:
    """The class by ONNX Runtime on the same pixels, which are prepared with numpy alone."""
    write(classifier(seed), folder, "onnx")
    pixels = numpy.asarray(cv2.resize(numpy.asarray(cv2.imread(picture))[..., ::-1], (224, 224)), numpy.float32)
    pixels = (pixels - numpy.float32([103.94, 116.78, 123.68])) * numpy.float32(0.017)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    return int(session.run(None, {"data": pixels.transpose(2, 0, 1)[None]})[0].argmax())


@pytest.mark.parametrize("kind", ["onnx", "mnn"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_program(tmp_path: Path, picture: str, kind: str, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    inference(write(classifier(seed), tmp_path, kind), picture)
    assert capsys.readouterr().out == f"output belong to class: {expected(tmp_path, picture, seed)}\n"


def test_the_classes_differ(tmp_path: Path, picture: str) -> None:
    assert len({expected(tmp_path, picture, seed) for seed in range(4)}) > 1
