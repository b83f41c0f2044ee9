"""Saved states: whose they are, and files that are damaged."""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import shutil
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import MNN
from MNN.converter import convert
from MNN.errors import MNNError
from MNN.frontends.onnx import load
from MNN.ir.graph import Graph
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.runtime.storage.background import finish
from MNN.stateful import StatefulModel
from tests.runtime.states.models import CACHES, DECODER, decoder_bytes

TOKENS = {"tokens": np.array([[1, 2, 3]])}


def stepped(source: MNN.model.Source, path: pathlib.Path) -> StatefulModel:
    """A model after a step, whose state is saved."""
    model = MNN.load(source, states=CACHES)
    model.run(TOKENS)
    model.state.save(path)
    return model


def test_a_state_of_another_model_is_refused_though_it_has_the_same_names_and_sizes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.npz"
    model = stepped(DECODER, path)
    assert model.load_state(path).length == 3
    assert MNN.load(DECODER, precision="low", states=CACHES).load_state(path).length == 3  # no other model
    other = MNN.load(decoder_bytes(seed=12), states=CACHES)
    with pytest.raises(MNNError, match=r"saved by another model.*check_model=False"):
        other.load_state(path)
    kept = other.load_state(path, check_model=False)
    np.testing.assert_array_equal(kept["past_k1"], model.state["past_k1"])
    crossed = {**CACHES, "past_k0": "present_k1", "past_k1": "present_k0"}
    with pytest.raises(MNNError, match="saved by another model"):
        MNN.load(DECODER, states=crossed).load_state(path)


def written(folder: pathlib.Path, form: str, seed: int) -> pathlib.Path:
    """The decoder as a file; only its weights differ from seed to seed."""
    path = folder / ("model.mnn" if form == "mnn" else "model.onnx")
    if form == "mnn":
        convert(decoder_bytes(seed), path)
    else:
        model = onnx.load_model_from_string(decoder_bytes(seed))
        outside = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 1024}
        (folder / "weights.bin").unlink(missing_ok=True)
        onnx.save(model, path, **outside if form == "external" else {})
    time.sleep(0.08)  # a file is known again by its times
    return path


@pytest.mark.parametrize("form", ["onnx", "external", "mnn"])
def test_a_model_is_known_by_the_bytes_of_its_files(
    form: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they are; also when nothing but a stored program was read, and when they change under its feet."""
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    folder, saved = tmp_path / "a", tmp_path / "state.npz"
    folder.mkdir()
    source = written(folder, form, 11)
    stepped(source, saved)
    finish()
    moved = shutil.copytree(folder, tmp_path / "b") / f"renamed{source.suffix}"
    moved.with_stem("model").rename(moved)
    assert MNN.load(moved, states=CACHES).load_state(saved).length == 3
    with monkeypatch.context() as patched:
        patched.setattr("MNN.model.open_graph", refuse)
        stale = MNN.load(source, states=CACHES)
        stale.run(TOKENS)
        assert MNN.load(source, states=CACHES).load_state(saved).length == 3
    written(folder, form, 12)
    with pytest.raises(MNNError, match="saved by another model"):
        MNN.load(source, states=CACHES).load_state(saved)
    before = saved.read_bytes()
    with pytest.raises(MNNError, match=r"cannot write .*state\.npz.*has been written to since the model was opened"):
        stale.state.save(saved)
    assert saved.read_bytes() == before


def refuse(*_: object) -> Graph:
    raise AssertionError("the model was read")


def test_files_are_read_once_for_their_digest(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when a model is opened, nor by a second process."""
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    source, make = written(tmp_path, "onnx", 11), hashlib.new
    hashed: list[int] = []

    class Counted:
        def __init__(self, name: str, data: bytes = b"") -> None:
            self._total = make(name, data)

        def update(self, data: bytes) -> None:
            hashed.append(len(data))
            self._total.update(data)

        def hexdigest(self) -> str:
            found: str = self._total.hexdigest()
            return found

    monkeypatch.setattr("MNN.runtime.storage.digests.hashlib.new", Counted)
    first = MNN.load(source, states=CACHES)
    first.run(TOKENS)
    assert not hashed
    first.state.save(tmp_path / "state.npz")
    assert sum(hashed) == source.stat().st_size
    MNN.load(source, states=CACHES).load_state(tmp_path / "state.npz")
    assert sum(hashed) == source.stat().st_size


def test_models_made_in_memory_are_known_by_what_they_hold(tmp_path: pathlib.Path) -> None:
    def made(seed: int) -> StatefulModel:
        return StatefulModel(Session(load(decoder_bytes(seed)), Config(), states=CACHES), CACHES)

    first, same, other = made(11), made(11), made(12)
    first.run(TOKENS)
    first.state.save(tmp_path / "state.npz")
    assert same.load_state(tmp_path / "state.npz").length == 3
    with pytest.raises(MNNError, match="saved by another model"):
        other.load_state(tmp_path / "state.npz")


@pytest.mark.parametrize(
    "kind", ["FLOAT16", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "DOUBLE", "INT64", "UINT8", "BOOL"]
)
def test_states_of_every_type_come_back(kind: str, tmp_path: pathlib.Path) -> None:
    """Also of those that numpy's files have no name for."""
    element = TensorProto.DataType.Value(kind)
    path, dtype = tmp_path / "state.npz", helper.tensor_dtype_to_np_dtype(element)
    model, x = MNN.load(appending(element), states={"past": "present"}), np.arange(6).reshape(2, 3).astype(dtype)
    model.run({"x": x})
    model.state.save(path)
    found = model.load_state(path)
    assert found["past"].dtype == dtype
    assert found["past"].tobytes() == x.tobytes()
    assert model.run({"x": x}, state=found)["y"].tobytes() == np.concatenate([x, x], 1).tobytes()


def test_texts_are_not_written(tmp_path: pathlib.Path) -> None:
    model = MNN.load(appending(TensorProto.STRING), states={"past": "present"})
    model.run({"x": np.array([["a"]], object)})
    with pytest.raises(MNNError, match=r"cannot write .*'past' holds texts"):
        model.state.save(tmp_path / "state.npz")
    assert not list(tmp_path.iterdir())


def appending(element: int) -> bytes:
    """A cache that is appended to, and given out."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=1), helper.make_node("Identity", ["present"], ["y"])
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "appending", [info("x", element, ["b", "n"]), info("past", element, ["b", "p"])],
        [info("y", element, ["b", "t"]), info("present", element, ["b", "t"])],
    )  # fmt: skip
    found: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10
    ).SerializeToString()
    return found


def test_states_may_have_any_name(tmp_path: pathlib.Path) -> None:
    """Also those of numpy's own parameters, and of folders."""
    names = ("file", "allow_pickle", "arr_0", "a/b.c", "../up", "größe")
    info, f32 = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Add", [name, "x"], [f"{name}'"]) for name in names], "names",
        [info(name, f32, [1]) for name in ("x", *names)], [info(f"{name}'", f32, [1]) for name in names],
    )  # fmt: skip
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    model = MNN.load(source, states={name: f"{name}'" for name in names})
    model.run({"x": np.ones(1, np.float32)})
    model.state.save(tmp_path / "state.npz")
    found = model.load_state(tmp_path / "state.npz")
    assert [found[name].tolist() for name in names] == [[1.0]] * len(names)
    assert os.listdir(tmp_path) == ["state.npz"]


def test_files_of_older_versions_are_taken_with_a_warning(tmp_path: pathlib.Path) -> None:
    path, model = tmp_path / "state.npz", MNN.load(DECODER, states=CACHES)
    np.savez(path, **{name: np.ones((1, 2, 4, 16), np.float32) for name in CACHES})  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="does not say of which model it is"):
        assert model.load_state(path).length == 4
    assert model.load_state(path, check_model=False).length == 4


def test_damaged_files_are_refused(tmp_path: pathlib.Path) -> None:
    """Bytes that are others, or missing: a sentence, or arrays that are the state's."""
    model, path, rng = MNN.load(DECODER, states=CACHES), tmp_path / "state.npz", np.random.default_rng(2)
    model.run({"tokens": np.array([[1, 2, 3]])})
    model.state.save(path)
    good = path.read_bytes()
    plain = io.BytesIO()
    np.save(plain, np.zeros(3))
    damaged = [b"", b"text", plain.getvalue(), *(good[:n] for n in rng.integers(0, len(good), 40))]
    for _ in range(120):
        data = bytearray(good)
        for at in [*rng.integers(0, len(good), 2), len(good) - 1 - int(rng.integers(0, 200))]:
            data[int(at)] = int(rng.integers(0, 256))
        damaged.append(bytes(data))
    refusals = []
    for data in damaged:
        path.write_bytes(data)
        try:
            model.load_state(path)
        except MNNError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(str(path) in text for text in refusals)
    with pytest.raises(MNNError, match="cannot write"):
        model.state.save(tmp_path)
    with pytest.raises(MNNError, match="cannot write"):
        model.state.save(tmp_path / "nowhere" / "state.npz")


def test_files_that_do_not_fit_are_refused(tmp_path: pathlib.Path) -> None:
    model = MNN.load(DECODER, states=CACHES)
    (tmp_path / "not.npz").write_bytes(b"no")
    with pytest.raises(MNNError, match="no saved state"):
        model.load_state(tmp_path / "not.npz")
    np.savez(tmp_path / "other.npz", past_k0=np.zeros(3))
    with pytest.raises(MNNError, match="not this model's states"):
        model.load_state(tmp_path / "other.npz")
    np.savez(tmp_path / "type.npz", **{name: np.zeros((1, 2, 4, 16)) for name in CACHES})  # type: ignore[arg-type]
    with pytest.raises(MNNError, match="is float64"):
        model.load_state(tmp_path / "type.npz")
