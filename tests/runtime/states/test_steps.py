"""Models that remember: steps, going back and forks, against the same model that is handed its arrays."""

from __future__ import annotations

import gc
import pathlib
import tracemalloc

import numpy as np
import pytest
from onnx import TensorProto, helper

import MNN
from benchmarks.cached_decoder import cached_decoder
from MNN.backends.base import poison
from MNN.errors import MNNError
from MNN.runtime.storage.background import finish
from MNN.stateful import State
from tests.runtime.states.models import CACHES, DECODER, Handed, same, stream_bytes

TILES = "avx512,+amx-tile,+amx-bf16,+amx-int8"


@pytest.mark.parametrize(("threads", "precision"), [(1, "high"), (2, "normal"), (1, "low")])
def test_steps_forks_and_going_back(
    threads: int, precision: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(poison.VARIABLE, "1")
    rng, bound = np.random.default_rng(threads), 0.05 if precision == "low" else 2e-5
    model = MNN.load(DECODER, threads, precision, states=CACHES)
    state, handed = model.new_state(), Handed(1, "high" if precision == "high" else "normal")
    other: tuple[State, dict[str, np.ndarray]] | None = None
    longest = 0
    for step in range(48):
        kind = rng.integers(8) if step > 3 else 0
        if kind == 1:
            length = int(rng.integers(state.length + 1))
            state.rollback(length)
            handed.rollback(length)
        elif kind == 2 and other is not None:  # go on with what was put aside
            state, handed.past = other[0], dict(other[1])
            other = None
        elif kind == 3:
            other = state.fork(), dict(handed.past)
        elif kind == 4:
            state.save(tmp_path / "state.npz")
            state = model.load_state(tmp_path / "state.npz")
        elif kind == 5 and state.length > 30:
            state.reset()
            handed.past = Handed(1).past
        count = 505 if step in (20, 36) else int(rng.choice([1, 1, 1, 2, 5]))  # soon from one range into the next
        same(model, state, handed, rng.integers(0, 1024, (1, count)), bound)
        longest = max(longest, state.length)
    assert longest > 509


def test_several_sequences_of_a_batch() -> None:
    rng, model = np.random.default_rng(1), MNN.load(DECODER, states=CACHES)
    states = [(model.new_state(), Handed(batch)) for batch in (1, 3)]
    for _ in range(20):
        for state, handed in states:
            batch = handed.past["past_k0"].shape[0]
            same(model, state, handed, rng.integers(0, 1024, (batch, 1)), 2e-4)


@pytest.mark.parametrize("target", ["avx2", TILES, f"{TILES},+amx-fp16"])
@pytest.mark.parametrize("precision", ["high", "normal", "low"])
def test_nothing_is_copied_within_a_range(precision: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caches stay where they are but when a range ends, and are then moved once."""
    monkeypatch.setenv("MNN_TARGET", target)
    model, places = MNN.load(DECODER, precision=precision, states=CACHES), []
    for _ in range(200):
        model.run({"tokens": np.array([[5]])})
        block = model.state._memory.kept["past_v1"].block
        places.append(id(block))
    assert model.state.length == 200
    assert len(set(places[3:])) <= 4
    assert all(model.session._executor.last_plans[0].bound.program.states)


def test_states_that_do_not_grow(tmp_path: pathlib.Path) -> None:
    """A stream in windows of changing widths gives what the whole does at once."""
    model = MNN.load(stream_bytes(), states={"before": "after", "count": "counted"})
    assert model.axes == {}
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 3, 90)).astype(np.float32)
    parts = [model.run({"x": part})["y"] for part in np.split(x, [7, 12, 30, 33, 60], axis=2)]
    plain = MNN.load(stream_bytes())
    zeros = {"before": np.zeros((1, 3, 4), np.float32), "count": np.zeros(1, np.float32)}
    np.testing.assert_allclose(np.concatenate(parts, 2), plain.run({"x": x, **zeros})["y"], atol=2e-5)
    assert model.state["count"] == 6
    with pytest.raises(MNNError, match="does not grow"):
        model.state.rollback(0)
    model.state.reset()
    assert model.state.shapes == {}
    for _ in range(2):  # before the first run, and behind it
        model.state.fill("count", np.array([40], np.float32))
        assert model.state["count"] == 40
        going = model.state.fork()
        for state in (model.state, going):
            assert model.all_inputs({"x": x[..., :7]}, state)["count"] == 40
            model.run({"x": x[..., :7]}, state=state)
            assert state["count"] == 41
    for name, array in (("count", np.zeros(2, np.float32)), ("count", np.zeros(1)), ("other", np.zeros(1, np.float32))):
        with pytest.raises(MNNError, match=f"'{name}'"):
            model.state.fill(name, array)
        with pytest.raises(MNNError, match=f"'{name}'"):
            model.new_state().fill(name, array)
    forgotten = model.new_state()
    forgotten.fill("count", [np.float32(40)])
    with pytest.raises(MNNError, match="after the first run"):
        forgotten.save(tmp_path / "state.npz")
    forgotten.reset()
    model.run({"x": x[..., :7]}, state=forgotten)
    assert forgotten["count"] == 1


def grouped_bytes() -> bytes:
    """Attention with grouped keys over a cache of 40 places, of which every row of a batch has filled its own share."""
    info, f32, i32 = helper.make_tensor_value_info, TensorProto.FLOAT, TensorProto.INT32
    names = ["q", "k", "v", "pk", "pv", "last", "total"]
    node = helper.make_node(
        "GroupQueryAttention", names, ["y", "nk", "nv"], domain="com.microsoft", num_heads=4, kv_num_heads=2
    )
    cache = ["b", 2, 40, 16]
    graph = helper.make_graph(
        [node], "grouped",
        [info("q", f32, ["b", "s", 64]), info("k", f32, ["b", "s", 32]), info("v", f32, ["b", "s", 32]),
         info("pk", f32, cache), info("pv", f32, cache), info("last", i32, ["b"]), info("total", i32, [])],
        [info("y", f32, ["b", "s", 64]), info("nk", f32, cache), info("nv", f32, cache)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    found: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return found


def test_sequences_of_different_lengths_share_a_run_and_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is at its own place in its own cache; a length decides nothing but what is looked at."""
    model, rng, batch = MNN.load(grouped_bytes(), states={"pk": "nk", "pv": "nv"}), np.random.default_rng(6), 3
    assert model.axes == {}
    lengths, plans = np.array([0, 0, 0]), []
    keys, values = ([np.zeros((2, 0, 16), np.float32) for _ in range(batch)] for _ in range(2))
    for step in range(20):
        q, k, v = (rng.standard_normal((batch, 1, n)).astype(np.float32) for n in (64, 32, 32))
        lengths = lengths + 1
        given = {"q": q, "k": k, "v": v, "last": (lengths - 1).astype(np.int32), "total": np.int32(lengths.max())}
        found = model.run(given)["y"]
        plans.append(id(model.session._executor.last_plans[0]))
        for row in range(batch):
            for kept, new in ((keys, k), (values, v)):
                own = kept[row][:, : lengths[row] - 1]
                kept[row] = np.concatenate([own, new[row].reshape(1, 2, 16).transpose(1, 0, 2)], 1)
            scores = np.einsum("ghd,gtd->ght", q[row].reshape(2, 2, 16), keys[row]) / 4
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            wanted = np.einsum("ght,gtd->ghd", weights / weights.sum(-1, keepdims=True), values[row]).reshape(1, 64)
            np.testing.assert_allclose(found[row], wanted, atol=2e-5)
        if step in (5, 11):  # one row begins anew
            lengths[step % batch] = 0
    assert len(set(plans)) == 1


def test_a_step_plans_nothing_and_takes_no_memory() -> None:
    """Over 4096 tokens: plans are made where a range of lengths begins, and only there is memory taken."""
    data = cached_decoder(layers=1, width=32, heads=2, kv_heads=1, inner=32).SerializeToString()
    model = MNN.load(data, states={"past_k0": "present_k0", "past_v0": "present_v0"})
    layouts, sizes, token, before = 0, [], {"tokens": np.array([[5]])}, None
    for step in range(4096):
        model.run(token)
        layouts += model.state._memory.layout is not before
        before = model.state._memory.layout
        if step in (1100, 2000):  # in one range
            finish()  # storing its program takes memory for a while
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0)
        if step == 1050:
            finish()
            tracemalloc.start()
    tracemalloc.stop()
    assert model.state.length == 4096
    assert layouts <= 12
    assert sizes[1] - sizes[0] < 4096
    blocks = model.state._memory.blocks
    assert blocks is not None
    assert max(b.nbytes for b in blocks.blocks) < 4 * 16 * 2 * 4200


def test_states_that_are_inputs_or_outputs_besides() -> None:
    """A cache that is also given to the caller, what it was before, and two states that are one array."""
    info, f32 = helper.make_tensor_value_info, TensorProto.FLOAT
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
        helper.make_node("Identity", ["present"], ["seen"]),
        helper.make_node("Identity", ["present"], ["again"]),
        helper.make_node("Identity", ["past"], ["before"]),
        helper.make_node("ReduceSum", ["other"], ["total"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "shared",
        [info("x", f32, ["b", "n"]), info("past", f32, ["b", "length"]), info("other", f32, ["b", "length"])],
        [info("seen", f32, ["b", "m"]), info("present", f32, ["b", "m"]), info("again", f32, ["b", "m"]),
         info("before", f32, ["b", "length"]), info("total", f32, [])],
    )  # fmt: skip
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    model = MNN.load(source, states={"past": "present", "other": "again"})
    whole = np.zeros((2, 0), np.float32)
    for step in range(40):
        x = np.full((2, 1 + step % 3 // 2), step, np.float32)
        found = model.run({"x": x})
        now = np.concatenate([whole, x], 1)
        np.testing.assert_array_equal(found["seen"], now)
        np.testing.assert_array_equal(found["before"], whole)
        assert found["total"] == whole.sum()
        found["seen"][:] = -1  # the caller's own
        found["before"][:] = -1
        whole = now
        for name in ("past", "other"):
            np.testing.assert_array_equal(model.state[name], whole)
