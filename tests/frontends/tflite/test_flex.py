"""Files with operators of TensorFlow itself, against answers that TensorFlow gave (``record_flex.py``)."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from MNN.frontends.tflite.load import load

ARCHIVE = Path(__file__).with_name("flex.zip")
with zipfile.ZipFile(ARCHIVE) as _archive:
    FILES = {name: _archive.read(name) for name in _archive.namelist()}
NAMES = sorted({name.split("/")[0] for name in FILES})


@pytest.mark.parametrize("name", NAMES)
def test_models_answer_as_tensorflow_does(name: str) -> None:
    arrays = np.load(io.BytesIO(FILES[f"{name}/answers.npz"]))
    model = MNN.load(FILES[f"{name}/model.tflite"], threads=1, precision="high")
    given = dict(zip(model.inputs, [arrays[k] for k in arrays.files if k.startswith("in:")], strict=True))
    found = [np.asarray(v) for _, v in sorted(model.run(given).items())]
    wanted = [arrays[k] for k in arrays.files if k.startswith("out:")]
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-5 * max(1, float(np.abs(b).max())))


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_told_of(name: str) -> None:
    data = FILES[f"{name}/model.tflite"]
    draw = random.Random(name)
    for _ in range(25):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 8)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        for damaged in (bytes(changed), data[: draw.randrange(len(data))]):
            try:
                load(damaged)
            except MNNError:
                continue
