"""``stateful`` layers go on where the last run ended, as in Keras (``record_states.py``)."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.stateful import StatefulModel

ARCHIVE = Path(__file__).with_name("states.zip")
with zipfile.ZipFile(ARCHIVE) as _opened:
    FILES = sorted(n for n in _opened.namelist() if not n.endswith(".npz"))


@pytest.mark.parametrize("name", FILES)
def test_rows_of_calls_answer_as_keras_does(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        path = Path(archive.extract(name, tmp_path))
        answers = np.load(io.BytesIO(archive.read(f"{name.partition('/')[0]}/answers.npz")))
    model = MNN.load(path, precision="high", cache=False)
    assert isinstance(model, StatefulModel)
    for _ in range(2):
        model.state.reset()
        for call in range(len(answers.files) // 2):
            found = next(iter(model.run({next(iter(model.inputs)): answers[f"in:{call}"]}).values()))
            wanted = answers[f"out:{call}"]
            np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
