"""Recurrent layers as SavedModels and files for TensorFlow Lite hold them, while loops, with answers that TensorFlow
gave (``record_loops.py``)."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.frontends import load_graph
from MNN.passes.manager import optimize
from tests.tensorflow.loops_trial import judged

ARCHIVE = Path(__file__).with_name("loops.zip")
with zipfile.ZipFile(ARCHIVE) as _archive:
    _FILES = {(n.split("/")[0], "model.tflite" if n.endswith(".tflite") else "") for n in _archive.namelist()}
MODELS = sorted(_FILES)
"""Names, and the file in the folder that is opened: the folder itself for a SavedModel."""
LAYERS = {"LSTM stacked": 3, "GRU both": 2}
"""How many layers a model has where that is not one."""


@pytest.mark.parametrize(("name", "file"), MODELS)
def test_layers_become_operators_and_answer_as_tensorflow_does(name: str, file: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path, [m for m in archive.namelist() if m.startswith(f"{name}/")])
    folder = tmp_path / name
    answers = np.load(io.BytesIO((folder / "answers.npz").read_bytes()))
    graph = load_graph(folder / file)
    optimize(graph)
    kind = name.split(" ", 1)[1]
    found = [n.op for n in graph.nodes if n.op.startswith("Onnx") or n.op in ("Loop", "UnrolledLoop")]
    operator = f"Onnx{kind.split(' ')[0]}"
    assert found == (["Loop"] if kind.endswith("stays") else [operator] * LAYERS.get(kind, 1))
    model = MNN.load(str(folder / file), precision="high", cache=False)
    given = [answers[k] for k in sorted(answers.files) if k.startswith("in")]
    outputs = model.run(dict(zip(sorted(model.inputs), given, strict=True)))
    wanted = {k: answers[k] for k in sorted(answers.files) if k.startswith("out")}
    assert set(outputs) == set(wanted) or file  # the converter gives outputs other names
    for value, key in zip(outputs.values() if file else map(outputs.get, wanted), wanted, strict=True):
        np.testing.assert_allclose(value, wanted[key], atol=5e-6, err_msg=key)


def test_what_random_networks_found() -> None:
    """Steps before samples in .h5 files; a matrix product over a loop's results, whose sizes are not known."""
    found = dict(judged(ARCHIVE.with_name("random_loops.zip")))
    assert len(found) == 3
    assert not any(found.values()), found


def test_drawn_programs_of_loops_choices_and_lists() -> None:
    """Of ``record_random_control.py``, seeds 4011 to 4014: one in each form."""
    found = dict(judged(ARCHIVE.with_name("random_control.zip")))
    assert len(found) == 4
    assert not any(found.values()), found
