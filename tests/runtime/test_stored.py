"""Programs on disk: a second process reads no model and plans nothing, and never answers for another model."""

from __future__ import annotations

import os
import pathlib
import pickle
import platform
import subprocess
import sys
import time

import numpy as np
import pytest

import MNN
from benchmarks.cached_decoder import cached_decoder
from MNN.backends.base.registry import backend
from MNN.backends.cpu.codegen import library
from MNN.cache.entries import Cache
from MNN.cache.packed import PackedStore
from MNN.errors import MNNError, ShapeError
from MNN.frontends.mnn import write_mnn
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.storage import programs as stored
from MNN.runtime.storage.background import finish
from MNN.runtime.storage.form import Unfit, dump, parse

DATA = np.random.default_rng(1).standard_normal((70, 256)).astype(np.float32)

CPU = backend("cpu", False)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))


def write(path: pathlib.Path, seed: int = 0, external: bool = False) -> np.ndarray:
    """A model of one product and one activation; its weights. Old enough to be told from a later one."""
    w = np.random.default_rng(seed).standard_normal((256, 300)).astype(np.float32)
    x, a, y = Value("x", DType.F32, ("n", 256)), Value("a", DType.F32), Value("y", DType.F32)
    weights = Value("w", DType.F32, w.shape, w)
    nodes = [Node("MatMul", "m", [x, weights], [a]), Node("ReLU", "r", [a], [y])]
    write_mnn(Graph("g", [x], [y], nodes), path, external=external)
    time.sleep(0.08)
    return w


def refuse(*_: object, **__: object) -> Graph:
    raise AssertionError("the model was read")


def check(path: pathlib.Path, w: np.ndarray, rows: int = 70) -> None:
    found = MNN.load(path).run({"x": DATA[:rows]})["y"]
    finish()
    np.testing.assert_allclose(found, np.maximum(DATA[:rows] @ w, 0), atol=1e-3)


def shared_mappings() -> list[str]:
    return list(PackedStore.shared()._mapped)


def entries(tmp_path: pathlib.Path, part: str = "programs") -> list[pathlib.Path]:
    folder = tmp_path / "cache" / part
    return sorted(folder.iterdir(), key=lambda p: p.stat().st_size) if folder.exists() else []


def test_what_was_planned_is_not_planned_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.mnn"
    w = write(path)
    check(path, w)
    assert len(entries(tmp_path)) == 2  # what the model takes, and one program
    check(path, w, 30)
    assert len(entries(tmp_path)) == 3
    monkeypatch.setattr("MNN.model.open_graph", refuse)
    check(path, w)
    check(path, w, 30)
    model = MNN.load(path)
    assert str(model.inputs["x"]) == "x: f32 n x 256"
    with pytest.raises(ShapeError, match=r"\[70, 255\]"):
        model.run({"x": DATA[:, :255]})


def test_everything_else_reads_the_model_when_it_is_needed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.mnn"
    w = write(path)
    check(path, w)
    model = MNN.load(path)
    before = model.run({"x": DATA})["y"]
    assert model.plans_used()[0].bound.program.arena_bytes > 0
    np.testing.assert_array_equal(model.run({"x": DATA})["y"], before)
    np.testing.assert_allclose(model.run({"x": DATA}, ["a"])["a"], DATA @ w, atol=1e-3)
    np.testing.assert_allclose(model.run({"x": DATA[:9]})["y"], np.maximum(DATA[:9] @ w, 0), atol=1e-3)
    assert [n.op for n in MNN.load(path).graph.nodes]


def test_results_are_the_callers_own(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.mnn"
    check(path, write(path))
    model = MNN.load(path)
    first = model.run({"x": DATA})["y"]
    kept = first.copy()
    model.run({"x": -DATA})
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("external", [False, True])
def test_another_model_of_the_same_size(tmp_path: pathlib.Path, external: bool) -> None:
    path = tmp_path / "m.mnn"
    for seed in range(3):
        w = write(path, seed, external)
        check(path, w)
        check(path, w)


def test_other_weights_beside_the_same_model(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.mnn"
    check(path, write(path, 0, external=True))
    weights = tmp_path / "m.mnn.weight"
    w = np.frombuffer(weights.read_bytes(), np.float32).copy()
    weights.write_bytes((2 * w).tobytes())
    time.sleep(0.08)
    old = np.random.default_rng(0).standard_normal((256, 300)).astype(np.float32)
    check(path, 2 * old)
    check(path, 2 * old)


def test_a_model_written_a_moment_ago_is_not_trusted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.mnn"
    w = write(path)
    os.utime(path, ns=(time.time_ns() + 10**9, time.time_ns() + 10**9))
    check(path, w)
    assert entries(tmp_path) == []


def test_models_with_states(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second start plans nothing, at lengths that were never run; other states have programs of their own."""
    path, rng = tmp_path / "decoder.onnx", np.random.default_rng(1)
    path.write_bytes(cached_decoder(layers=2, width=64, heads=4, kv_heads=2, inner=96).SerializeToString())
    time.sleep(0.08)
    states = {f"past_{n}{i}": f"present_{n}{i}" for i in range(2) for n in "kv"}
    tokens = rng.integers(0, 1024, (40, 1, 1))

    def run(states: dict[str, str]) -> tuple[list[np.ndarray], MNN.StatefulModel]:
        model = MNN.load(path, states=states)
        rest = {n: np.zeros((1, 2, 0, 16), np.float32) for n in model.inputs if n != "tokens"}
        found = []
        for step in range(40):
            results = model.run({"tokens": tokens[step], **rest})
            found.append(results["logits"])
            rest = {n: results[n.replace("past", "present")] for n in rest}
        finish()
        return found, model

    first, _ = run(states)
    some, _ = run(dict(list(states.items())[:3]))
    with monkeypatch.context() as patch:
        patch.setattr("MNN.model.open_graph", refuse)
        for known in (dict(list(states.items())[:3]), states):
            again, model = run(known)
            for a, b, c in zip(first, some, again, strict=True):
                np.testing.assert_allclose(a, b, atol=2e-5)
                np.testing.assert_allclose(a, c, atol=2e-5)
        for length in (29, 17, 3):
            model.state.rollback(length)
            model.run({"tokens": tokens[0]})
    more = MNN.load(path, states=states)
    for step in range(520):  # from a stored program to one that is planned, for longer ones
        found = more.run({"tokens": tokens[step % 40]})["logits"]
        if step < 40:
            np.testing.assert_allclose(found, first[step], atol=2e-5)


def test_settings_have_programs_of_their_own(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.mnn"
    w = write(path)
    check(path, w)
    MNN.load(path, precision="high").run({"x": DATA})
    finish()
    assert len(entries(tmp_path)) == 3  # what the model takes, and two programs
    MNN.load(path, cache=False).run({"x": DATA})
    assert len(entries(tmp_path)) == 3


@pytest.mark.parametrize("depth", [640, 40000])
def test_constants_of_types_that_numpy_does_not_know(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    """Weights of 16 bits, in a program's entry and in the store."""
    path = tmp_path / "m.mnn"
    rng = np.random.default_rng(0)
    w, data = (rng.standard_normal(shape).astype(np.float32) for shape in ((depth, 4), (20, depth)))
    x, y = Value("x", DType.F32, data.shape), Value("y", DType.F32)
    write_mnn(Graph("g", [x], [y], [Node("MatMul", "m", [x, Value("w", DType.F32, w.shape, w)], [y])]), path)
    time.sleep(0.08)
    first = MNN.load(path, precision="low").run({"x": data})["y"]
    finish()
    assert len(entries(tmp_path)) == 2
    monkeypatch.setattr("MNN.model.open_graph", refuse)
    np.testing.assert_array_equal(MNN.load(path, precision="low").run({"x": data})["y"], first)


@pytest.mark.parametrize("loss", ["program", "card", "packed", "damage", "kernels", "packed damage"])
def test_lost_and_damaged_entries_are_made_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    monkeypatch.setattr(library, "_libraries", {})
    path = tmp_path / "m.mnn"
    w = write(path)
    check(path, w)
    card, program = entries(tmp_path)
    if loss == "program":
        program.unlink()
    elif loss == "card":
        card.unlink()
    elif loss == "damage":
        data = bytearray(program.read_bytes())
        data[-20] ^= 1
        program.write_bytes(data)
    elif loss == "packed":
        entries(tmp_path, "packed")[0].unlink()
    elif loss == "packed damage":
        assert not shared_mappings()  # a model that is gone has let go of its weights
        with entries(tmp_path, "packed")[0].open("r+b") as file:
            file.seek(9000)
            file.write(b"damage")
    else:
        monkeypatch.setattr(library, "_LOADED", {})
        for entry in entries(tmp_path, "objects"):
            entry.unlink()
    check(path, w)
    check(path, w)


def test_entries_make_no_other_objects() -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, ("true",)

    for data in (pickle.dumps(Evil()), b"", b"\x80\x05", pickle.dumps(Cache)):
        with pytest.raises(Unfit):
            parse(data, CPU)


def test_enumerations_are_stored_by_value_on_every_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_name(member: DType, protocol: int) -> tuple[object, ...]:
        return getattr, (DType, member.name)  # as Python 3.11.0 to 3.11.3 has it, Debian 12's for one

    monkeypatch.setattr(DType, "__reduce_ex__", by_name)
    kinds = list(DType)
    assert parse(dump(kinds, PackedStore.shared()), CPU) == kinds


def test_a_session_writes_a_bounded_number(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST", 2)
    path = tmp_path / "m.mnn"
    write(path)
    model = MNN.load(path)
    for rows in range(1, 6):
        model.run({"x": DATA[:rows]})
    finish()
    assert len(entries(tmp_path)) == 3


def test_memory_limits_hold_for_stored_programs_too(tmp_path: pathlib.Path) -> None:
    from MNN.model import Model
    from MNN.runtime.config import Config

    path = tmp_path / "m.mnn"
    write(path)
    for _ in range(2):
        with pytest.raises(MNNError, match="memory"):
            Model(path, Config(memory_limit=1000)).run({"x": DATA})


def test_a_warm_start_needs_neither_llvm_nor_readers(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.mnn"
    check(path, write(path))
    run = f"MNN.load({str(path)!r}).run({{'x': np.zeros((70, 256), 'f4')}})"
    code = f"import sys, numpy as np, MNN; {run}; print(*sys.modules)"
    source = str(pathlib.Path(MNN.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    found = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    unwanted = {"MNN.frontends", "MNN.schema.reader", "MNN.backends.cpu.compile", "MNN.ir.prims"}
    if platform.machine() == "x86_64" and sys.platform.startswith("linux"):
        unwanted |= {"llvmlite.binding"}
    assert not unwanted & set(found[1].split())
