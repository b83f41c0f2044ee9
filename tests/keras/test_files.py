"""Whole models in both kinds of Keras's files, and files that are no such models."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import MNN
from MNN.converter import convert
from MNN.errors import FormatError, MNNError
from MNN.frontends import kind_of
from MNN.frontends.common.problems import UnsupportedModelError
from MNN.frontends.keras import load
from tests.keras.coverage import RECORDED
from tests.keras.recorded import cases
from tests.tensorflow.test_models import unpacked

NESTED = next(case for case in cases(RECORDED) if case.name.startswith("NestedModels") and case.file == "model.keras")


@pytest.mark.parametrize("file", ["model.keras", "model.h5"])
@pytest.mark.parametrize("key", ["images", "sequences", "attention"])
def test_models_answer_as_keras_does(key: str, file: str, tmp_path: Path) -> None:
    folder, answers = unpacked(key, tmp_path)
    assert kind_of(folder / file) == "keras"
    convert(folder / file, tmp_path / "a.mnn")
    for path in (folder / file, tmp_path / "a.mnn"):
        model = MNN.load(str(path), precision="high", cache=False)
        (found,) = model.run({next(iter(model.inputs)): answers["in"]}).values()
        np.testing.assert_allclose(found, answers["out"], atol=2e-6)


def test_inputs_and_outputs_are_called_as_in_keras() -> None:
    graph = load(NESTED.data)
    assert [v.shape for v in graph.inputs] == [("batch", 5), ("batch", 5), ("batch", 3, 5)]
    assert "sum" in {v.name for v in graph.outputs}


def changed(change: Callable[[Any], Any]) -> bytes:
    """The nested model with another configuration."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(NESTED.data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json":
                config = json.loads(data)
                data = json.dumps(change(config) or config).encode()
            new.writestr(name, data)
    return out.getvalue()


def layer(config: Any, kind: str) -> Any:
    return next(spec for spec in config["config"]["layers"] if spec["class_name"] == kind)


def test_programs_in_a_file_are_never_run() -> None:
    def add(config: Any) -> None:
        code = {"class_name": "__lambda__", "config": {"value": "b3BlbigneCcpCg=="}}
        spec = layer(config, "TimeDistributed")
        spec["class_name"], spec["config"] = "Lambda", {"name": "code", "function": code, "trainable": True}

    with pytest.raises(UnsupportedModelError, match="Python code, which is never run"):
        load(changed(add))


def test_everything_unknown_is_listed_at_once_with_advice() -> None:
    def rename(config: Any) -> None:
        layer(config, "TimeDistributed")["class_name"] = "MyLayer"
        layer(config, "Add")["class_name"] = "MyOperation"

    with pytest.raises(UnsupportedModelError) as caught:
        load(changed(rename))
    assert {p.op for p in caught.value.problems} == {"MyLayer", "MyOperation"}
    assert "model.export('folder')" in str(caught.value)


def cycle(config: Any) -> None:
    spec = layer(config, "TimeDistributed")
    spec["inbound_nodes"][0]["args"][0]["config"]["keras_history"][0] = spec["name"]


def deep(config: Any) -> None:
    spec: Any = {"class_name": "Dense", "config": {"units": 1}}
    for _ in range(200):
        spec = {"class_name": "TimeDistributed", "config": {"layer": spec}}
    config["config"]["layers"][3] = spec | {"name": "deep"}


def without_layers(config: Any) -> None:
    del config["config"]["layers"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (cycle, "cycle"),
        (deep, "deep within each other"),
        (without_layers, "layers are None"),
        (lambda config: [1], "described by"),
        (lambda config: config | {"class_name": "MyModel"}, "MyModel"),
        (lambda config: layer(config, "InputLayer")["config"].update(batch_shape="wide"), "its shape is 'wide'"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(change: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(MNNError, match=text):
        load(changed(change))


def test_other_zip_archives_are_told_apart(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.keras", "w") as archive:
        archive.writestr("notes.txt", "no model")
    with pytest.raises(FormatError, match="no Keras model"):
        MNN.load(str(tmp_path / "a.keras"))
    with pytest.raises(FormatError, match=r"without 'config\.json'"):
        load((tmp_path / "a.keras").read_bytes())
    (tmp_path / "b.keras").write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(FormatError, match=r"b\.keras"):
        MNN.load(str(tmp_path / "b.keras"))


def test_without_a_library_for_hdf5_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyfive", "h5py"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MNNError, match=r"mnn-py\[keras\]"):
        load(NESTED.data)
