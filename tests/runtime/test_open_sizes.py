"""One plan for many sizes: answers are those of plans for each, and nothing is planned or compiled for a new size."""

from __future__ import annotations

import pathlib
import threading
import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN
from benchmarks.cached_decoder import cached_decoder
from MNN.backends.base import poison
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.errors import MNNError, ShapeError
from MNN.frontends import load_graph
from MNN.ir.graph import Graph
from MNN.runtime import executor
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.runtime.storage.background import finish

pytestmark = pytest.mark.usefixtures("without_tiles")  # those on AMX: test_open_tiles.py
RNG = np.random.default_rng(7)


def model(nodes: list[onnx.NodeProto], inputs: dict[str, list[str | int]], **weights: np.ndarray) -> Graph:
    return load_graph(model_bytes(nodes, inputs, **weights))


def model_bytes(nodes: list[onnx.NodeProto], inputs: dict[str, list[str | int]], **weights: np.ndarray) -> bytes:
    info = helper.make_tensor_value_info
    given = [info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    y = info(nodes[-1].output[0], TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [y], constants)
    found: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    ).SerializeToString()
    return found


def weight(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=output, **attributes)


def rows() -> Graph:
    """Normalised rows through two products with an activation, and their maximum over the sequence."""
    nodes = [
        node("LayerNormalization", "x scale", "n", axis=-1), node("MatMul", "n w", "a"), node("Tanh", "a", "t"),
        node("MatMul", "t v", "b"), node("Add", "b x", "c"), node("ReduceMax", "c axes", "y", keepdims=0),
    ]  # fmt: skip
    weights = {"scale": np.ones(48, np.float32), "w": weight(48, 70), "v": weight(70, 48), "axes": np.array([1])}
    return model(nodes, {"x": ["batch", "sequence", 48]}, **weights)


def attention() -> Graph:
    """Two heads with a mask that is given."""
    nodes = []
    for name in "qkv":
        nodes += [
            node("MatMul", f"x w{name}", f"{name}0"), node("Reshape", f"{name}0 apart", f"{name}1"),
            node("Transpose", f"{name}1", name, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]  # fmt: skip
    nodes += [
        node("MatMul", "q k", "s"), node("Add", "s mask", "m"), node("Softmax", "m", "p", axis=-1),
        node("MatMul", "p v", "o"), node("Transpose", "o", "t", perm=[0, 2, 1, 3]), node("Reshape", "t joined", "y"),
    ]  # fmt: skip
    weights = {f"w{name}": weight(32, 32) for name in "qkv"}
    shapes = {"apart": np.array([0, 0, 2, 16]), "joined": np.array([0, 0, 32])}
    return model(nodes, {"x": ["batch", "sequence", 32], "mask": ["batch", 1, 1, "sequence"]}, **weights, **shapes)


def sliding() -> Graph:
    """A convolution along the sequence, what it gives but for the first, and all of it, turned round."""
    nodes = [
        node("Conv", "x w", "c", kernel_shape=[5], pads=[2, 2], strides=[2]), node("Relu", "c", "r"),
        node("Slice", "r first last axis", "h"), node("Concat", "h r", "j", axis=2),
        node("Transpose", "j", "y", perm=[0, 2, 1]),
    ]  # fmt: skip
    bounds = {"first": np.array([1]), "last": np.array([1 << 40]), "axis": np.array([2])}
    return model(nodes, {"x": ["batch", 6, "sequence"]}, w=weight(8, 6, 5), **bounds)


def recurrent() -> Graph:
    nodes = [
        helper.make_node("GRU", ["x", "w", "r"], ["g", ""], hidden_size=24, direction="bidirectional", name="g"),
        node("Transpose", "g", "y", perm=[2, 0, 1, 3]),
    ]
    return model(nodes, {"x": ["sequence", "batch", 10]}, w=weight(2, 72, 10) / 4, r=weight(2, 72, 24) / 4)


def pooled() -> Graph:
    """Rows, the mean of them, and how far each is from it."""
    nodes = [
        node("MatMul", "x w", "a"), node("Tanh", "a", "t"), node("ReduceMean", "t axes", "m", keepdims=1),
        node("Sub", "t m", "d"), node("Mul", "d d", "s"), node("ReduceMean", "s axes", "y", keepdims=0),
    ]  # fmt: skip
    return model(nodes, {"x": ["batch", "sequence", 40]}, w=weight(40, 24), axes=np.array([1]))


def square() -> Graph:
    """A mean over two axes that are both open, of which rows have to be copied to be one run."""
    nodes = [node("ReduceMean", "x axes", "m", keepdims=1), node("Sub", "x m", "y")]
    return model(nodes, {"x": ["batch", 4, "sequence", "sequence"]}, axes=np.array([2, 3]))


NETWORKS = {
    "square": square,
    "rows": rows,
    "pooled": pooled,
    "attention": attention,
    "sliding": sliding,
    "recurrent": recurrent,
}


def feeds(graph: Graph, rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    found = {}
    for v in graph.inputs:
        if not v.is_const:
            shape = [n if isinstance(n, int) else sizes[n] for n in v.shape or ()]
            found[v.name] = rng.standard_normal(shape).astype(np.float32)
    return found


def check(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], bound: float) -> None:
    for name, array in wanted.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=0, atol=bound * float(np.abs(array).max(initial=0)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["high", "normal", "low"])
@pytest.mark.parametrize("name", NETWORKS)
def test_answers_are_those_of_plans_for_each_size(
    name: str, precision: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random sizes of batch and sequence, memory poisoned before every run, against the reference."""
    monkeypatch.setenv(poison.VARIABLE, "1")
    graph, rng = NETWORKS[name](), np.random.default_rng(len(name))
    session = Session(graph, Config(threads=threads, precision=precision))
    reference = Session(graph, Config(reference=True))
    bound = 0.06 if precision == "low" else 2e-5
    ranged = 0
    for batch, sequence in [(2, 9), *rng.integers(3, 60, (9, 2)).tolist()]:
        given = feeds(graph, rng, {"batch": batch, "sequence": sequence})
        check(session.run(given), reference.run(given), bound)
        ranged += session.plans_used()[0].bound.program.open_sizes is not None
    assert ranged >= 8


def test_small_sizes_have_plans_of_their_own() -> None:
    graph, rng = attention(), np.random.default_rng(1)
    session, reference = Session(graph), Session(graph, Config(reference=True))
    for batch, sequence in [(1, 9), (1, 12), (1, 1), (1, 2), (1, 3), (2, 1), (5, 7), (5, 0), (1, 31), (1, 32)]:
        given = feeds(graph, rng, {"batch": batch, "sequence": sequence})
        check(session.run(given), reference.run(given), 2e-5)


def test_a_new_size_plans_and_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, rng = rows(), np.random.default_rng(3)
    session = Session(graph)
    for sequence in (40, 50):
        session.run(feeds(graph, rng, {"batch": 1, "sequence": sequence}))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("planned")

    monkeypatch.setattr(executor, "lower_stage", refuse)
    blocks = {id(m) for m in session.plans_used()[0].bound.memory()}
    for sequence in rng.permutation(np.arange(31, 127)):
        session.run(feeds(graph, rng, {"batch": 1, "sequence": int(sequence)}))
        assert {id(m) for m in session.plans_used()[0].bound.memory()} == blocks


@pytest.mark.parametrize("target", ["avx512,+avx512vnni", "avx2", "sse4.1"])
def test_small_sizes_of_a_range_are_shared_by_threads(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the rows that a range has room for is work for two threads still."""
    monkeypatch.setenv("MNN_TARGET", target)
    nodes = [node("MatMul", "x w", "a"), node("Tanh", "a", "t"), node("MatMul", "t v", "y")]
    graph = model(nodes, {"x": ["sequence", 384]}, w=weight(384, 1536), v=weight(1536, 384))
    session, rng = Session(graph, Config(threads=2)), np.random.default_rng(0)
    for sequence in (300, 200, 500, 140):
        session.run(feeds(graph, rng, {"sequence": sequence}))
    bound = session.plans_used()[0].bound
    assert isinstance(bound, BoundProgram)
    assert bound.program.open_sizes is not None
    shares = [(blocks, grain) for _, _, blocks, grain in bound.native.rows()]
    assert all(2 * grain <= blocks + 1 for blocks, grain in shares), shares


def test_sizes_that_do_not_agree_are_refused() -> None:
    graph, rng = attention(), np.random.default_rng(3)
    session = Session(graph)
    for sequence in (40, 50):
        session.run(feeds(graph, rng, {"batch": 1, "sequence": sequence}))
    given = feeds(graph, rng, {"batch": 1, "sequence": 60})
    given["mask"] = given["mask"][..., :50]
    with pytest.raises(ShapeError, match="must agree"):
        session.run(given)


def test_threads_at_different_sizes() -> None:
    """What one thread has a program run at is not what another one gets."""
    graph, rng = rows(), np.random.default_rng(4)
    session, reference = Session(graph), Session(graph, Config(reference=True))
    session.run(feeds(graph, rng, {"batch": 1, "sequence": 40}))
    work = [feeds(graph, rng, {"batch": 1, "sequence": n}) for n in (41, 60, 90, 120)]
    wanted = [reference.run(given) for given in work]
    failures: list[Exception] = []

    def run(i: int) -> None:
        try:
            for _ in range(60):
                check(session.run(work[i]), wanted[i], 2e-5)
        except (AssertionError, MNNError) as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_what_depends_on_numbers_is_planned_for_each_size() -> None:
    """What is unique is found by the host: sizes are those of the data."""
    graph = model([node("Unique", "x", "u"), node("Mul", "u u", "y")], {"x": ["n"]})
    session = Session(graph)
    for n in (5, 6, 7, 8):
        x = np.arange(n, dtype=np.float32) // 2
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.unique(x) ** 2)


def test_a_decoder_with_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens one by one, each with the keys and values that came before: positions and mask follow from the length."""
    monkeypatch.setenv(poison.VARIABLE, "1")
    graph = load_graph(cached_decoder(layers=2, width=64, heads=4, kv_heads=2, inner=96).SerializeToString())
    session, reference = Session(graph), Session(graph, Config(reference=True))
    rng, empty = np.random.default_rng(5), np.zeros((1, 2, 0, 16), np.float32)
    past = {f"past_{n}{i}": empty for i in range(2) for n in "kv"}
    tokens, ranged = rng.integers(0, 1024, (1, 4)), 0
    for _ in range(36):
        given = {"tokens": tokens, **past}
        found, wanted = session.run(given), reference.run(given)
        check(found, wanted, 2e-5)
        ranged += session.plans_used()[0].bound.program.open_sizes is not None
        past = {name.replace("present", "past"): array for name, array in wanted.items() if name != "logits"}
        tokens = rng.integers(0, 1024, (1, 1))
    assert ranged >= 33


def test_a_second_start_plans_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "rows.onnx"
    w, v = weight(48, 70), weight(70, 48)
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "r"), node("MatMul", "r v", "y")]
    path.write_bytes(model_bytes(nodes, {"x": ["batch", "sequence", 48]}, w=w, v=v))
    time.sleep(0.08)  # old enough to be told from a later one

    def wanted(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.maximum(x @ w, 0) @ v
        return found

    def run(first: MNN.Model, *sizes: int) -> None:
        for n in sizes:
            x = RNG.standard_normal((1, n, 48)).astype(np.float32)
            np.testing.assert_allclose(first.run({"x": x})["y"], wanted(x), atol=2e-5)

    run(MNN.load(path), 40, 50, 60)
    finish()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the model was read")

    monkeypatch.setattr("MNN.model.open_graph", refuse)
    second = MNN.load(path)
    run(second, 77, 100, 33, 40, 120)
    x = np.zeros((1, 99, 48), np.float32)
    assert second.result_types({"x": x}) == [(second.outputs["y"].dtype, (1, 99, 48))]


def test_sizes_that_move_together() -> None:
    """A mask that is as long as a cache and what is new, and sizes without a name: one plan, until they part."""
    names = {"past": ["p", 4], "x": ["n", 4], "mask": ["t"], "other": [None, 4]}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in names.items()]
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["all"], axis=0),
        helper.make_node("Concat", ["all", "other"], ["both"], axis=0),
        helper.make_node("MatMul", ["both", "w"], ["y"]),
        helper.make_node("ReduceSum", ["mask"], ["m"], keepdims=0),
        helper.make_node("Add", ["y", "m"], ["z"]),
    ]
    rng = np.random.default_rng(5)
    w = rng.standard_normal((4, 3)).astype(np.float32)
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "together", inputs, [out], [numpy_helper.from_array(w, "w")])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    model, plans = MNN.load(source), []
    together = [(p, n, p + n, p + 3) for p, n in ((3, 1), (4, 1), (9, 1), (5, 1), (12, 6), (7, 3), (8, 9), (3, 12))]
    apart = [(9, 3, 12, 4), (5, 7, 9, 8), (8, 4, 5, 6), (11, 9, 20, 14), (30, 3, 33, 33), (40, 5, 45, 43)]
    for sizes in [*together, *apart, *together]:
        shapes = dict(zip(names, sizes, strict=True))
        given = {n: rng.standard_normal((r, 4) if n != "mask" else r).astype(np.float32) for n, r in shapes.items()}
        wanted = np.concatenate([given["past"], given["x"], given["other"]]) @ w + given["mask"].sum()
        np.testing.assert_allclose(model.run(given)["z"], wanted, atol=1e-4)
        plans.append(id(model._executor.last_plans[0]))
    assert len(set(plans[1:4])) == 1


@pytest.mark.parametrize("count", [5, 8, 60])
def test_many_sizes_that_change_each_on_its_own(count: int) -> None:
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [None, 4]) for i in range(count)]
    nodes = [helper.make_node("ReduceSum", [f"x{i}"], [f"s{i}"], keepdims=0) for i in range(count)]
    nodes.append(helper.make_node("Sum", [f"s{i}" for i in range(count)], ["y"]))
    graph = helper.make_graph(nodes, "many", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    model, rng = MNN.load(made.SerializeToString()), np.random.default_rng(count)
    for _ in range(5):
        rows = rng.integers(3, 90, count)
        given = {f"x{i}": rng.standard_normal((n, 4)).astype(np.float32) for i, n in enumerate(rows)}
        wanted = sum(float(v.sum(dtype=np.float64)) for v in given.values())
        np.testing.assert_allclose(model.run(given)["y"], wanted, atol=1e-2)
