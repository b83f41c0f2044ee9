"""Programs on disk serve PyMNN's ways to a model, too: Interpreter and ``nn`` read, plan and compile nothing twice."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

import MNN
import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
from MNN.errors import MNNError
from MNN.runtime.storage.background import finish
from tests.api.test_formats import file as channels_last
from tests.runtime.test_stored import DATA, entries, refuse, write

Way = Callable[[pathlib.Path, np.ndarray], np.ndarray]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))


def by_session(path: pathlib.Path, data: np.ndarray) -> np.ndarray:
    net = MNN.Interpreter(str(path))
    session = net.createSession()
    given = net.getSessionInput(session)
    net.resizeTensor(given, data.shape)
    net.resizeSession(session)
    given.fromNumpy(data)
    assert net.getSessionOutput(session).getShape() == (len(data), 300)
    net.runSession(session)
    return net.getSessionOutput(session).getNumpyData()


def by_module(path: pathlib.Path, data: np.ndarray) -> np.ndarray:
    module = MNN.nn.load_module_from_file(str(path), [], [])
    return module.forward(F.const(data, data.shape)).read()


def by_named_module(path: pathlib.Path, data: np.ndarray) -> np.ndarray:
    module = MNN.nn.load_module_from_file(str(path), ["x"], ["y"])
    return module.clone().forward(F.const(data, data.shape)).read()


WAYS = pytest.mark.parametrize("way", [by_session, by_module, by_named_module])


def check(way: Way, path: pathlib.Path, w: np.ndarray, rows: int = 70) -> None:
    found = way(path, DATA[:rows])
    finish()
    np.testing.assert_allclose(found, np.maximum(DATA[:rows] @ w, 0), atol=1e-3)


@WAYS
def test_what_was_planned_is_not_planned_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    path = tmp_path / "m.mnn"
    w = write(path)
    check(way, path, w)
    check(way, path, w, 30)
    assert len(entries(tmp_path)) == 3  # what the model takes, and two programs
    monkeypatch.setattr("MNN.model.open_graph", refuse)
    check(way, path, w)
    check(way, path, w, 30)
    with pytest.raises(AssertionError, match="the model was read"):
        check(way, path, w, 31)


def test_all_ways_share_what_is_stored(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.mnn"
    w = write(path)
    MNN.load(path).run({"x": DATA})
    finish()
    monkeypatch.setattr("MNN.model.open_graph", refuse)
    check(by_session, path, w)
    check(by_module, path, w)
    assert len(entries(tmp_path)) == 2


@WAYS
@pytest.mark.parametrize("external", [False, True])
def test_changed_files_are_noticed(tmp_path: pathlib.Path, way: Way, external: bool) -> None:
    path = tmp_path / "m.mnn"
    check(way, path, write(path, 0, external))
    if external:
        weights = tmp_path / "m.mnn.weight"
        weights.write_bytes((2 * np.frombuffer(weights.read_bytes(), np.float32)).tobytes())
        time.sleep(0.08)
        w = 2 * np.random.default_rng(0).standard_normal((256, 300)).astype(np.float32)
    else:
        w = write(path, 1)
    check(way, path, w)
    check(way, path, w)


def test_parts_of_a_model_have_programs_of_their_own(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.mnn"
    w = write(path)
    given = F.const(DATA, DATA.shape)
    wanted = {"a": DATA @ w, "y": np.maximum(DATA @ w, 0)}

    def run() -> None:
        for ends in (["a"], ["y"], ["y", "a"], ["a", "y"]):
            found = MNN.nn.load_module_from_file(str(path), ["x"], ends).forward([given])
            for name, var in zip(ends, found, strict=True):
                np.testing.assert_allclose(var.read(), wanted[name], atol=1e-3)
        found = MNN.nn.load_module_from_file(str(path), ["a"], ["y"]).forward(F.const(wanted["a"], wanted["a"].shape))
        np.testing.assert_allclose(found.read(), wanted["y"], atol=1e-6)
        net = MNN.Interpreter(str(path))
        session = net.createSession({"saveTensors": ["a"]})
        net.resizeTensor(net.getSessionInput(session), DATA.shape)
        net.getSessionInput(session).fromNumpy(DATA)
        net.runSession(session)
        assert list(net.getSessionOutputAll(session)) == ["y", "a"]
        np.testing.assert_allclose(net.getSessionOutput(session, "a").getNumpyData(), wanted["a"], atol=1e-3)
        finish()

    run()
    monkeypatch.setattr("MNN.model.open_graph", refuse)
    with pytest.raises(AssertionError, match="the model was read"):  # what the whole model takes is not known
        MNN.Interpreter(str(path))
    monkeypatch.undo()
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    by_session(path, DATA)
    finish()
    monkeypatch.setattr("MNN.model.open_graph", refuse)
    run()


def test_stored_programs_tell_what_a_session_is_asked(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pathlib.Path(channels_last(tmp_path))
    time.sleep(0.08)

    def ask() -> list[object]:
        net = MNN.Interpreter(str(path))
        session = net.createSession()
        net.runSession(session)
        module = MNN.nn.load_module_from_file(str(path), [], [])
        module.forward(F.const(np.ones((1, 4, 4, 3), np.float32), [1, 4, 4, 3], F.NHWC))
        finish()
        tensors = {**net.getSessionInputAll(session), **net.getSessionOutputAll(session)}
        return [
            {n: (t.getShape(), t.getDimensionType(), str(t.getDataType())) for n, t in tensors.items()},
            [net.getSessionInfo(session, code) for code in range(5)],
            net.getModelVersion(),
            module.get_info(),
        ]

    first = ask()
    monkeypatch.setattr("MNN.model.open_graph", refuse)
    assert ask() == first


def test_outputs_of_open_sizes_stay_after_a_run(tmp_path: pathlib.Path) -> None:
    """Sizes that a run has settled are not settled again, with zeros, when its outputs are asked for."""
    path = tmp_path / "m.mnn"
    w = write(path)
    for _ in range(2):
        net = MNN.Interpreter(str(path))
        session = net.createSession()
        net.getSessionInput(session).fromNumpy(DATA[:1])
        net.runSession(session)
        found = net.getSessionOutputAll(session)["y"].getNumpyData()
        np.testing.assert_allclose(found, np.maximum(DATA[:1] @ w, 0), atol=1e-3)
        finish()


def test_files_are_looked_at_when_they_are_named(tmp_path: pathlib.Path) -> None:
    for make in (lambda p: MNN.Interpreter(p), lambda p: MNN.nn.load_module_from_file(p, [], [])):
        with pytest.raises(MNNError, match="cannot"):
            make(str(tmp_path / "none.mnn"))
        (tmp_path / "bad.mnn").write_bytes(b"\0" * 100)
        with pytest.raises(MNNError):
            make(str(tmp_path / "bad.mnn"))
        with pytest.raises(MNNError, match="not int"):
            make(3)


PROGRAMS = {
    "session": "net = MNN.Interpreter({path!r}); s = net.createSession(); i = net.getSessionInput(s);"
    "net.resizeTensor(i, (70, 256)); net.resizeSession(s); net.runSession(s); net.getSessionOutput(s).getData()",
    "module": "MNN.nn.load_module_from_file({path!r}, [], []).forward("
    "MNN.expr.const(np.zeros((70, 256), 'f4'), [70, 256])).read()",
    "states": "MNN.load({path!r}, states={{}}).run({{'x': np.zeros((70, 256), 'f4')}})",
}


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_a_warm_start_needs_neither_llvm_nor_readers(tmp_path: pathlib.Path, program: str) -> None:
    path = tmp_path / "m.mnn"
    write(path)
    code = f"import sys, numpy as np, MNN; {PROGRAMS[program].format(path=str(path))}; print(*sys.modules)"
    source = str(pathlib.Path(MNN.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    found = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    unwanted = {
        "MNN.frontends.mnn",
        "MNN.frontends.onnx",
        "MNN.schema.reader",
        "MNN.backends.cpu.compile",
        "MNN.ops.core.base",
    }
    if platform.machine() == "x86_64" and sys.platform.startswith("linux"):
        unwanted |= {"llvmlite.binding"}
    assert unwanted - {"MNN.frontends.onnx"} <= set(found[0].split())
    assert not unwanted & set(found[1].split())
