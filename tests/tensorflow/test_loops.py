"""Recurrent layers as SavedModels hold them, while loops, with answers that TensorFlow gave (``record_loops.py``)."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.frontends.tensorflow import load
from MNN.passes.manager import optimize

ARCHIVE = Path(__file__).with_name("loops.zip")
with zipfile.ZipFile(ARCHIVE) as _archive:
    MODELS = sorted({name.split("/")[0] for name in _archive.namelist()})
LAYERS = {"LSTM stacked": 3, "GRU both": 2}
"""How many layers a model has where that is not one."""


@pytest.mark.parametrize("name", MODELS)
def test_layers_become_operators_and_answer_as_tensorflow_does(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path, [m for m in archive.namelist() if m.startswith(f"{name}/")])
    folder = tmp_path / name
    answers = np.load(io.BytesIO((folder / "answers.npz").read_bytes()))
    graph = load(folder)
    optimize(graph)
    kind = name.split(" ", 1)[1]
    found = [n.op for n in graph.nodes if n.op.startswith("Onnx") or n.op in ("Loop", "UnrolledLoop")]
    operator = f"Onnx{kind.split(' ')[0]}"
    assert found == (["Loop"] if kind.endswith("stays") else [operator] * LAYERS.get(kind, 1))
    model = MNN.load(str(folder), precision="high", cache=False)
    outputs = model.run({k: answers[k] for k in answers.files if k.startswith("in")})
    for key, value in outputs.items():
        np.testing.assert_allclose(value, answers[key], atol=5e-6, err_msg=key)
    assert set(outputs) == {k for k in answers.files if k.startswith("out")}
