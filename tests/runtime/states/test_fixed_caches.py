"""Caches of a fixed size that the model writes to at places known when it runs: in place, against numpy and ONNX
Runtime with explicit arrays."""

from __future__ import annotations

import concurrent.futures
import pathlib

import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

import MNN
from MNN.backends.base import poison
from MNN.errors import MNNError, ShapeError
from MNN.stateful import StatefulModel
from tests.pairs import pairs

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
info = helper.make_tensor_value_info


def source(
    nodes: list[NodeProto],
    inputs: list[ValueInfoProto],
    outputs: list[ValueInfoProto],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 24,
) -> bytes:
    weights = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "cache", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    found: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return found


def in_place(model: StatefulModel) -> list[tuple[int, int]]:
    """The states that the last program keeps in place."""
    return list(model.session._executor.last_plans[0].bound.program.states)


def tensor_scatter(axis: int, mode: str, positions: bool, rank: int = 4) -> bytes:
    """A cache of 24 rows along ``axis``; besides, what a head of attention would read: a sum over the cache."""
    cache = ["b", 2, 24, 8] if rank == 4 else ["b", 24, 8]
    update: list[object] = list(cache)
    update[axis] = "n"
    names = ["past", "x", "at"] if positions else ["past", "x"]
    nodes = [
        helper.make_node("TensorScatter", names, ["present"], axis=axis, mode=mode),
        helper.make_node("ReduceSum", ["present", "axes"], ["sum"], keepdims=0),
    ]
    inputs = [info("x", F32, update), info("past", F32, cache)]
    inputs += [info("at", I64, ["b"])] if positions else []
    outputs = [info("sum", F32, None), info("present", F32, cache)]
    return source(nodes, inputs, outputs, {"axes": np.array([axis])})


@pairs(kind=[("high", 1), ("normal", 2), ("low", 1)], mode=["linear", "circular"], at=[(-2, 4), (2, 4), (1, 3)])
def test_rows_are_written_where_each_sequence_is(
    kind: tuple[str, int], mode: str, at: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(poison.VARIABLE, "1")
    (precision, threads), (axis, rank) = kind, at
    rng, batch, room = np.random.default_rng(axis + rank), 3, 24
    model = MNN.load(tensor_scatter(axis, mode, True, rank), threads, precision, states={"past": "present"})
    assert model.axes == {}
    wanted = np.zeros((batch, 2, room, 8)[:rank] if rank == 4 else (batch, room, 8), np.float32)
    first, blocks = np.zeros(batch, np.int64), set()
    for _ in range(30):
        n = int(rng.choice([1, 1, 1, 2, 5]))
        if mode == "linear":
            first = np.where(first + n > room, 0, first)
        shape = list(wanted.shape)
        shape[axis] = n
        x = rng.standard_normal(shape).astype(np.float32)
        found = model.run({"x": x, "at": first})["sum"]
        for row in range(batch):
            for i in range(n):
                np.moveaxis(wanted[row], axis if axis < 0 else axis - 1, 0)[(first[row] + i) % room] = np.moveaxis(
                    x[row], axis if axis < 0 else axis - 1, 0
                )[i]
        np.testing.assert_array_equal(model.state["past"], wanted)
        np.testing.assert_allclose(found, wanted.sum(axis), atol=1e-4)
        first = first + rng.integers(0, n + 1, batch)
        blocks.add(id(model.state._memory.kept["past"].block))
    assert in_place(model) == [(1, 1)]
    assert len(blocks) == 1


def test_a_prompt_without_positions() -> None:
    model = MNN.load(tensor_scatter(-2, "linear", False), states={"past": "present"})
    x = np.random.default_rng(1).standard_normal((2, 2, 5, 8)).astype(np.float32)
    for part in (x, x[:, :, :3]):
        model.run({"x": part})
    np.testing.assert_array_equal(model.state["past"][:, :, :5], x)
    assert not model.state["past"][:, :, 5:].any()
    assert in_place(model) == [(1, 1)]


def test_what_does_not_fit_is_refused() -> None:
    model = MNN.load(tensor_scatter(-2, "linear", True), states={"past": "present"})
    x = np.ones((1, 2, 3, 8), np.float32)
    model.run({"x": x, "at": np.array([4])})
    for at in (22, 24, 1000, -100):
        with pytest.raises(MNNError, match="out of range"):
            model.run({"x": 2 * x, "at": np.array([at])})
    with pytest.raises(ShapeError):
        model.run({"x": np.ones((1, 2, 25, 8), np.float32), "at": np.array([0])})
    with pytest.raises(ShapeError, match="must agree"):
        model.run({"x": np.ones((2, 2, 1, 8), np.float32), "at": np.array([0, 0])})
    assert model.state["past"][:, :, :10].sum() == 2 * 3 * 8  # what had been written is as it was
    with pytest.raises(MNNError, match="does not grow"):
        model.state.rollback(3)


def grouped(cache: list[object], present: list[object], rotary: bool = False) -> bytes:
    """Attention with grouped keys, 4 heads of 16 that share 2 of keys."""
    names = ["q", "k", "v", "pk", "pv", "last", "total"] + (["cos", "sin"] if rotary else [])
    node = helper.make_node(
        "GroupQueryAttention", names, ["y", "nk", "nv"], domain="com.microsoft", num_heads=4, kv_num_heads=2,
        do_rotary=int(rotary),
    )  # fmt: skip
    ends = [helper.make_node("Shape", ["mask"], ["both"]), helper.make_node("Gather", ["both", "one"], ["all"], axis=0),
            helper.make_node("Cast", ["all"], ["total"], to=TensorProto.INT32)]  # fmt: skip
    angles = np.outer(np.arange(64), 1.0 / 10 ** np.arange(8)).astype(np.float32)
    constants = {"one": np.array(1), "cos": np.cos(angles), "sin": np.sin(angles)}
    if not rotary:
        constants = {"one": np.array(1)}
    inputs = [info("q", F32, ["b", "s", 64]), info("k", F32, ["b", "s", 32]), info("v", F32, ["b", "s", 32])]
    inputs += [info("mask", I64, ["b", "t"]), info("pk", F32, cache), info("pv", F32, cache)]
    inputs += [info("last", TensorProto.INT32, ["b"])]
    outputs = [info("y", F32, ["b", "s", 64]), info("nk", F32, present), info("nv", F32, present)]
    return source([*ends, node], inputs, outputs, constants, opset=18)


@pytest.mark.parametrize(("precision", "rotary"), [("high", False), ("normal", True), ("low", True)])
def test_grouped_attention_whose_cache_grows(precision: str, rotary: bool) -> None:
    """As exporters write it: the present keys are as many as the mask says; against ONNX Runtime."""
    data = grouped(["b", 2, "p", 16], ["b", 2, "t", 16], rotary)
    model = MNN.load(data, precision=precision, states={"pk": "nk", "pv": "nv"})
    assert model.axes == {"pk": 2, "pv": 2}
    other, rng = onnxruntime.InferenceSession(data), np.random.default_rng(3)
    past = {n: np.zeros((2, 2, 0, 16), np.float32) for n in ("pk", "pv")}
    length, blocks, bound = 0, [], 0.05 if precision == "low" else 1e-4
    for step in range(45):
        rows = 4 if step == 0 else 1
        if step == 30:
            length = 17
            model.state.rollback(length)
            past = {n: array[:, :, :length] for n, array in past.items()}
        length += rows
        q, k, v = (rng.standard_normal((2, rows, n)).astype(np.float32) for n in (64, 32, 32))
        given = {"q": q, "k": k, "v": v, "mask": np.ones((2, length), np.int64)}
        given["last"] = np.full(2, length - 1, np.int32)
        y, *present = other.run(None, {**given, **past})
        past = dict(zip(("pk", "pv"), present, strict=True))
        np.testing.assert_allclose(model.run(given)["y"], y, atol=bound)
        for name, array in past.items():
            assert model.state.shapes[name] == array.shape
            np.testing.assert_allclose(model.state[name], array, atol=bound)
        blocks.append(id(model.state._memory.kept["pk"].block))
    assert len(in_place(model)) == 2
    assert len(set(blocks)) <= 8


def test_grouped_attention_over_a_cache_of_one_size() -> None:
    """Every row of a batch has filled its own share, and only what is new is written."""
    model = MNN.load(grouped(["b", 2, 40, 16], ["b", 2, 40, 16]), states={"pk": "nk", "pv": "nv"})
    rng, lengths, steps, blocks = np.random.default_rng(3), np.array([3, 7]), [], set()
    for step in range(20):
        q, k, v = (rng.standard_normal((2, 1, n)).astype(np.float32) for n in (64, 32, 32))
        given = {"q": q, "k": k, "v": v, "mask": np.ones((2, int(lengths.max()) + 1), np.int64)}
        given["last"] = lengths.astype(np.int32)
        before = None if step == 0 else model.state["pk"]
        model.run(given)
        if before is not None:
            for row in range(2):
                before[row, :, lengths[row]] = k[row].reshape(2, 16)
            np.testing.assert_array_equal(model.state["pk"], before)
        lengths = lengths + 1
        steps.append(in_place(model))
        blocks.add(id(model.state._memory.kept["pk"].block))
    assert all(len(found) == 2 for found in steps)
    assert len(blocks) == 1
    with pytest.raises(MNNError):
        model.run({**given, "last": np.array([40, 3], np.int32)})


@pytest.mark.parametrize("kind", ["nd", "elements", "along"])
def test_caches_of_exporters(kind: str) -> None:
    """Hugging Face's static cache: rows at positions that are an input, through permutations, by elements or lines."""
    cache, new = [1, 2, 20, 8], [1, 2, "n", 8]
    inputs = [info("x", F32, new), info("at", I64, ["n"]), info("past", F32, cache)]
    outputs = [info("y", F32, None), info("present", F32, cache)]
    last = helper.make_node("ReduceMean", ["present", "axis"], ["y"], keepdims=0)
    constants = {"axis": np.array([2])}
    if kind == "nd":  # index_put along dimension 2
        nodes = [
            helper.make_node("Transpose", ["past"], ["turned"], perm=[2, 1, 0, 3]),
            helper.make_node("Transpose", ["x"], ["rows"], perm=[2, 1, 0, 3]),
            helper.make_node("Unsqueeze", ["at", "one"], ["lines"]),
            helper.make_node("ScatterND", ["turned", "lines", "rows"], ["written"]),
            helper.make_node("Transpose", ["written"], ["present"], perm=[2, 1, 0, 3]),
        ]
        constants["one"] = np.array([-1])
    elif kind == "elements":
        nodes = [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Unsqueeze", ["at", "around"], ["lines"]),
            helper.make_node("Expand", ["lines", "shape"], ["places"]),
            helper.make_node("ScatterElements", ["past", "places", "x"], ["present"], axis=2),
        ]
        constants["around"] = np.array([0, 1, 3])
    else:  # all of a flattened cache
        nodes = [
            helper.make_node("Reshape", ["past", "flat"], ["turned"]),
            helper.make_node("Reshape", ["x", "some"], ["rows"]),
            helper.make_node("Unsqueeze", ["at", "around"], ["lines"]),
            helper.make_node("Shape", ["rows"], ["shape"]),
            helper.make_node("Expand", ["lines", "shape"], ["places"]),
            helper.make_node("ScatterElements", ["turned", "places", "rows"], ["written"], axis=1),
            helper.make_node("Reshape", ["written", "back"], ["present"]),
        ]
        constants |= {"flat": np.array([2, 20, 8]), "some": np.array([2, -1, 8]), "around": np.array([0, 2]),
                      "back": np.array([1, 2, 20, 8])}  # fmt: skip
    data = source([*nodes, last], inputs, outputs, constants, opset=18)
    model, other, rng = MNN.load(data, states={"past": "present"}), onnxruntime.InferenceSession(data), np.random
    past, at = np.zeros((1, 2, 20, 8), np.float32), 0
    for step in range(15):
        n = 4 if step == 0 else 1
        given = {
            "x": rng.default_rng(step).standard_normal((1, 2, n, 8)).astype(np.float32),
            "at": np.arange(at, at + n),
        }
        y, past = other.run(None, {**given, "past": past})
        np.testing.assert_allclose(model.run(given)["y"], y, atol=1e-5)
        np.testing.assert_array_equal(model.state["past"], past)
        at += n
    assert in_place(model) == [(2, 1)]


def test_what_is_read_beside_is_not_written_over() -> None:
    """A cache that something else reads as it was is handed on by copying."""
    cache = [1, 12, 4]
    nodes = [
        helper.make_node("TensorScatter", ["past", "x", "at"], ["present"], axis=1),
        helper.make_node("Sub", ["present", "past"], ["change"]),
    ]
    inputs = [info("x", F32, [1, "n", 4]), info("at", I64, [1]), info("past", F32, cache)]
    data = source(nodes, inputs, [info("change", F32, cache), info("present", F32, cache)])
    model, before = MNN.load(data, states={"past": "present"}), np.zeros((1, 12, 4), np.float32)
    for step in range(8):
        x = np.full((1, 2, 4), step + 1, np.float32)
        change = model.run({"x": x, "at": np.array([step])})["change"]
        np.testing.assert_array_equal(change, model.state["past"] - before)
        before = model.state["past"]
    assert in_place(model) == []


def test_forks_files_and_bad_use(tmp_path: pathlib.Path) -> None:
    """What holds for caches that grow holds for those of one size."""
    model, rng = MNN.load(tensor_scatter(-2, "circular", True), states={"past": "present"}), np.random.default_rng(7)
    states = [(model.new_state(), np.zeros((2, 2, 24, 8), np.float32)) for _ in range(2)]
    for step in range(40):
        state, wanted = states[int(rng.integers(len(states)))]
        if step % 9 == 5:
            states.append((state.fork(), wanted.copy()))
        elif step % 9 == 7:
            state.save(tmp_path / "state.npz")
            states.append((model.load_state(tmp_path / "state.npz"), wanted.copy()))
        elif step == 20:
            state.reset()
            wanted[:] = 0
        at, x = rng.integers(0, 24, 2), rng.standard_normal((2, 2, 1, 8)).astype(np.float32)
        model.run({"x": x, "at": at}, state=state)
        for row in range(2):
            wanted[row, :, at[row]] = x[row, :, 0]
        for one, array in states:
            if one.shapes:
                np.testing.assert_array_equal(one["past"], array)
    given = {"x": np.zeros((2, 2, 1, 8), np.float32), "at": np.zeros(2, np.int64)}
    with pytest.raises(MNNError, match="belongs to another model"):
        MNN.load(tensor_scatter(-2, "circular", True), states={"past": "present"}).run(given, state=state)
    for wrong in (np.zeros((2, 2, 24, 8)), np.zeros((2, 2, 25, 8), np.float32), np.zeros(3, np.float32)):
        np.savez(tmp_path / "wrong.npz", past=wrong)
        with pytest.raises(MNNError, match="the model's past"):
            model.load_state(tmp_path / "wrong.npz")
    with state._turn(), concurrent.futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(MNNError, match="in use by another thread"):
            pool.submit(model.run, given, None, state).result()
        pool.submit(model.run, given, None, model.new_state()).result()


def test_a_cache_whose_size_the_file_leaves_open() -> None:
    cache = [1, "room", 4]
    node = helper.make_node("TensorScatter", ["past", "x"], ["present"], axis=1)
    total = helper.make_node("ReduceSum", ["present"], ["sum"], keepdims=0)
    inputs = [info("x", F32, [1, "n", 4]), info("past", F32, cache)]
    data = source([node, total], inputs, [info("sum", F32, []), info("present", F32, cache)])
    x = np.ones((1, 3, 4), np.float32)
    with pytest.raises(ShapeError, match="max_length"):
        MNN.load(data, states={"past": "present"}).run({"x": x})
    model = MNN.load(data, states={"past": "present"}, max_length=7)
    assert model.run({"x": x})["sum"] == 12
    assert model.state.shapes == {"past": (1, 7, 4)}
