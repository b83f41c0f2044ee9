"""Official models whose attention keeps keys and values by itself, against numpy with explicit arrays."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import numpy as np
import pytest

import MNN
from MNN import nn
from MNN.errors import MNNError, UnsupportedError
from MNN.frontends.mnn import write_mnn
from MNN.interpreter import Interpreter
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.stateful import StatefulModel

HEADS, GROUPS, SIZE = 4, 2, 8


def write(path: pathlib.Path, mask: bool = True, **attrs: Any) -> pathlib.Path:
    """Two layers of attention, the second over the first one's results."""
    heads, groups = HEADS * SIZE, GROUPS * SIZE
    rng = np.random.default_rng(1)
    x = Value("x", DType.F32, ("b", "s", heads))
    seen = Value("mask", DType.F32, (1, 1, "s", "t"))
    nodes, last = [], x
    for layer in range(2):
        parts = []
        for name, width, count in (("q", heads, HEADS), ("k", groups, GROUPS), ("v", groups, GROUPS)):
            w = rng.standard_normal((heads, width)).astype(np.float32) / 6
            weight = Value(f"w{name}{layer}", DType.F32, w.shape, w)
            shape = Value(f"s{name}{layer}", DType.I32, (4,), np.array([0, 0, count, SIZE], np.int32))
            flat, apart = Value(f"f{name}{layer}"), Value(f"{name}{layer}")
            nodes.append(Node("MatMul", f"m{name}{layer}", [last, weight], [flat]))
            nodes.append(Node("Reshape", f"r{name}{layer}", [flat, shape], [apart]))
            parts.append(apart)
        last = Value(f"y{layer}")
        given = {"kv_cache": True, "layer_index": layer, **attrs}
        nodes.append(Node("Attention", f"attention{layer}", [*parts, *([seen] if mask else [])], [last], given))
    write_mnn(Graph("g", [x, seen] if mask else [x], [last], nodes), path)
    time.sleep(0.08)
    return path


class Wanted:
    """The same with numpy, which is handed what came before."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        widths = [HEADS * SIZE, GROUPS * SIZE, GROUPS * SIZE] * 2
        self.weights = [rng.standard_normal((HEADS * SIZE, n)).astype(np.float32) / 6 for n in widths]
        self.rows: list[np.ndarray] = []

    def run(self, x: np.ndarray, causal: bool = True) -> np.ndarray:
        self.rows.append(x)
        whole = np.concatenate(self.rows, 1).astype(np.float64)
        total, new = whole.shape[1], x.shape[1]
        for layer in range(2):
            q, k, v = (whole @ w for w in self.weights[3 * layer : 3 * layer + 3])
            q = q.reshape(*q.shape[:2], HEADS, SIZE)
            k, v = (np.repeat(t.reshape(*t.shape[:2], GROUPS, SIZE), HEADS // GROUPS, 2) for t in (k, v))
            scores = np.einsum("bshd,bthd->bhst", q, k) / np.sqrt(SIZE)
            if causal:
                scores = np.where(np.arange(total)[:, None] >= np.arange(total), scores, -1e30)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            whole = np.einsum("bhst,bthd->bshd", weights, v).reshape(*q.shape[:2], HEADS * SIZE)
        return whole[:, -new:]


def masked(past: int, rows: int) -> np.ndarray:
    return np.where(np.arange(past, past + rows)[:, None] >= np.arange(past + rows), 0, -1e9).astype(np.float32)[
        None, None
    ]


@pytest.mark.parametrize(("precision", "whole"), [("high", True), ("normal", False), ("low", True)])
def test_a_model_that_keeps_its_cache(precision: str, whole: bool, tmp_path: pathlib.Path) -> None:
    """Loaded without a word about states; masks over all keys, or over the new ones alone."""
    model = MNN.load(write(tmp_path / "m.mnn"), precision=precision)
    assert isinstance(model, StatefulModel)
    assert list(model.inputs) == ["x", "mask"]
    assert list(model.outputs) == ["y1"]
    bound, rng = 0.05 if precision == "low" else 1e-4, np.random.default_rng(2)
    for _ in range(2):
        wanted, length = Wanted(), 0
        for step in range(20):
            rows = 5 if step in (0, 11) else 1
            x = rng.standard_normal((1, rows, HEADS * SIZE)).astype(np.float32)
            mask = masked(length, rows) if whole else masked(0, rows)
            found = model.run({"x": x, "mask": mask})["y1"]
            np.testing.assert_allclose(found, wanted.run(x), atol=bound)
            length += rows
            assert model.state.length == length
        assert len(model.session._executor.last_plans[0].bound.program.states) == 4
        model.state.reset()
    other = model.new_state()
    x = rng.standard_normal((3, 2, HEADS * SIZE)).astype(np.float32)  # a batch of another size
    np.testing.assert_allclose(
        model.run({"x": x, "mask": masked(0, 2)}, state=other)["y1"], Wanted().run(x), atol=bound
    )
    other.rollback(0)
    np.testing.assert_allclose(
        model.run({"x": x, "mask": masked(0, 2)}, state=other)["y1"], Wanted().run(x), atol=bound
    )


def test_a_second_start_reads_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from MNN.runtime.storage.background import finish

    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    path, rng = write(tmp_path / "m.mnn"), np.random.default_rng(2)
    rows = rng.standard_normal((20, 1, 1, HEADS * SIZE)).astype(np.float32)

    def run() -> list[np.ndarray]:
        model = MNN.load(path)
        found = [model.run({"x": x, "mask": masked(i, 1)})["y1"] for i, x in enumerate(rows)]
        finish()
        return found

    def refuse(*_: object) -> Graph:
        raise AssertionError("the model was read")

    first = run()
    monkeypatch.setattr("MNN.model.open_graph", refuse)
    for a, b in zip(first, run(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_interpreters_and_modules_go_on(tmp_path: pathlib.Path) -> None:
    path, rng = write(tmp_path / "m.mnn"), np.random.default_rng(4)
    interpreter = Interpreter(str(path))
    session = interpreter.createSession()
    assert list(interpreter.getSessionInputAll(session)) == ["x", "mask"]
    module = nn.load_module_from_file(str(path), ["x", "mask"], ["y1"])
    wanted, length = Wanted(), 0
    for rows in (3, 1, 1, 2, 1):
        x = rng.standard_normal((1, rows, HEADS * SIZE)).astype(np.float32)
        mask, result = masked(length, rows), wanted.run(x)
        for name, array in (("x", x), ("mask", mask)):
            tensor = interpreter.getSessionInput(session, name)
            interpreter.resizeTensor(tensor, array.shape)
            tensor.copyFrom(MNN.Tensor(array.shape, MNN.Halide_Type_Float, array, MNN.Tensor_DimensionType_Caffe))
        interpreter.resizeSession(session)
        assert interpreter.getSessionOutput(session).getShape() == (1, rows, HEADS * SIZE)
        interpreter.runSession(session)
        found = interpreter.getSessionOutput(session).getNumpyData()
        np.testing.assert_allclose(found.reshape(result.shape), result, atol=1e-4)
        np.testing.assert_allclose(module.forward([x, mask])[0].read(), result, atol=1e-4)
        length += rows
    with pytest.raises(UnsupportedError, match="operator by operator"):
        interpreter.runSessionWithCallBack(session, lambda *_: True, lambda *_: True)
    fresh, x = module.clone(), rng.standard_normal((1, 2, HEADS * SIZE)).astype(np.float32)
    np.testing.assert_allclose(fresh.forward([x, masked(0, 2)])[0].read(), Wanted().run(x), atol=1e-4)


def test_what_is_refused(tmp_path: pathlib.Path) -> None:
    x = np.zeros((1, 1, HEADS * SIZE), np.float32)
    model = MNN.load(write(tmp_path / "m.mnn", mask=False), max_length=3)
    assert isinstance(model, StatefulModel)
    for _ in range(3):
        model.run({"x": x})
    with pytest.raises(MNNError, match="max_length is 3"):
        model.run({"x": x})
    with pytest.raises(MNNError, match="is a state"):
        model.run({"x": x, "attention0.past_key": x})
    with pytest.raises(UnsupportedError, match="another layer's cache"):
        MNN.load(write(tmp_path / "shared.mnn", mask=False, kv_shared_layer_index=0)).run({"x": x})
