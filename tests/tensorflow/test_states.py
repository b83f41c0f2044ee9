"""Variables that a model changes are its states: rows of calls answer as in TensorFlow (``record_states.py``)."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.frontends.common.problems import UnsupportedModelError
from MNN.frontends.tensorflow import load
from MNN.stateful import StatefulModel

ARCHIVE = Path(__file__).with_name("states.zip")


def unpacked(name: str, folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder, [n for n in archive.namelist() if n.startswith(f"{name}/")])
    answers = np.load(folder / name / "answers.npz")
    return folder / name, {key: answers[key] for key in answers.files}


@pytest.mark.parametrize(("name", "states"), [("counter", 2), ("stream", 1)])
def test_rows_of_calls_answer_as_tensorflow_does(name: str, states: int, tmp_path: Path) -> None:
    folder, answers = unpacked(name, tmp_path)
    assert len(load(folder).meta["states"]) == states + 1  # beside them, whether there was a run before
    model = MNN.load(str(folder), precision="high", cache=False)
    assert isinstance(model, StatefulModel)
    for _ in range(2):
        model.state.reset()
        for step in range(4):
            found = model.run({"x": answers[f"in:{step}"]})
            wanted = {k.split(":")[2]: v for k, v in answers.items() if k.startswith(f"out:{step}:")}
            for key, value in wanted.items():
                np.testing.assert_allclose(found[key], value, atol=2e-6)


def test_a_variable_that_changes_in_a_branch_is_refused(tmp_path: Path) -> None:
    folder, _ = unpacked("switch", tmp_path)
    with pytest.raises(UnsupportedModelError, match="changes in a branch or a loop"):
        load(folder)
