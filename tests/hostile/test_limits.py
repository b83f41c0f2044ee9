"""Limits on memory and time that a user sets for models that are not trusted."""

from __future__ import annotations

import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN.backends.base.host_memory import machine_memory
from MNN.errors import MNNError, RunError, ShapeError, UnsupportedError
from MNN.frontends.onnx.load import load
from MNN.ir.graph import Graph
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.hostile.operators import CASES, Case

BOTH = pytest.mark.parametrize("reference", [False, True], ids=["kernels", "meaning"])


def chain(count: int) -> Graph:
    """``count`` tensors of x's size, all alive at the end."""
    nodes = [helper.make_node("Neg", ["x"], ["t0"], name="first")]
    nodes += [helper.make_node("Exp", [f"t{i}"], [f"t{i + 1}"], name=f"exp{i}") for i in range(count)]
    nodes.append(helper.make_node("Concat", [f"t{i}" for i in range(count + 1)], ["y"], name="all", axis=0))
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1024])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


@BOTH
def test_a_plan_beyond_the_memory_limit_is_refused_and_the_session_goes_on(reference: bool) -> None:
    session = Session(chain(4), Config(reference=reference, memory_limit=1 << 20, cache=False))
    small = np.zeros((8, 1024), np.float32)
    assert session.run({"x": small})["y"].shape == (40, 1024)
    with pytest.raises(MNNError, match=r"limit of 1 MiB.*Config.memory_limit"):
        session.run({"x": np.zeros((100, 1024), np.float32)})
    assert session.run({"x": small})["y"].shape == (40, 1024)


@BOTH
def test_one_tensor_beyond_the_limit_is_named(reference: bool) -> None:
    graph = load(Case("Expand", ("f3x1", [1 << 20, 3, 64])).model())
    with pytest.raises(ShapeError, match=r"'node': its result f32\[1048576, 3, 64\] takes 768 MiB"):
        Session(graph, Config(reference=reference, memory_limit=1 << 28)).run({"x0": np.zeros((3, 1), np.float32)})


def test_the_default_is_what_the_machine_has() -> None:
    assert 1 << 28 < machine_memory() < 1 << 50
    graph = load(Case("Expand", ("f3x1", [1 << 31, 3, 64])).model())
    with pytest.raises(ShapeError, match="more than the limit"):
        Session(graph).run({"x0": np.zeros((3, 1), np.float32)})


def loop(turns: int) -> Graph:
    case = next(c for c in _loops() if c.inputs[0] == 40)
    return load(Case("Loop", (turns, None, "f2"), case.attributes, outputs=2).model())


def _loops() -> list[Case]:
    return [c for c in CASES if c.op == "Loop"]


@BOTH
def test_a_loop_ends_with_the_time(reference: bool) -> None:
    x = {"x2": np.zeros(2, np.float32)}
    session = Session(loop(1 << 60), Config(reference=reference, time_limit=0.3, cache=False))
    start = time.perf_counter()
    for _ in range(2):  # the time starts anew with every run
        with pytest.raises(RunError, match=r"stopped after 0.3 s"):
            session.run(x)
    assert 0.5 < time.perf_counter() - start < 5
    assert Session(loop(50), Config(time_limit=30, cache=False)).run(x)["y1"].shape == (50, 2)


def test_what_never_ends_unrolling_is_refused_at_once() -> None:
    case = Case("ConvTranspose", ("f1x1x2x2", "f1x1x3x3"), {"strides": [200, 200]})
    feeds = {"x0": np.zeros((1, 1, 2, 2), np.float32), "x1": np.zeros((1, 1, 3, 3), np.float32)}
    start = time.perf_counter()
    with pytest.raises(UnsupportedError, match="unrolls into more than"):
        Session(load(case.model())).run(feeds)
    assert time.perf_counter() - start < 5


def lstm(steps: int) -> tuple[Graph, dict[str, np.ndarray]]:
    case = Case("LSTM", (f"f{steps}x1x4", "f1x20x4", "f1x20x5"), {"hidden_size": 5})
    feeds = {"x0": np.zeros((steps, 1, 4)), "x1": np.zeros((1, 20, 4)), "x2": np.ones((1, 20, 5))}
    return load(case.model()), {k: v.astype(np.float32) for k, v in feeds.items()}


def test_recurrent_layers_take_any_length_that_memory_allows() -> None:
    graph, feeds = lstm(20000)
    start = time.perf_counter()
    assert Session(graph).run(feeds)["y0"].shape == (20000, 1, 1, 5)
    assert time.perf_counter() - start < 5
    with pytest.raises(MNNError, match=r"limit of 1 MiB.*Config.memory_limit"):
        Session(graph, Config(memory_limit=1 << 20, cache=False)).run(feeds)


@pytest.mark.parametrize(
    ("name", "value"), [("memory_limit", 0), ("memory_limit", -5), ("time_limit", 0.0), ("time_limit", float("nan"))]
)
def test_limits_must_make_sense(name: str, value: float) -> None:
    with pytest.raises(MNNError, match=name.replace("_", " ")):
        Config(**{name: value})  # type: ignore[arg-type]


def test_constants_are_not_unfolded_into_memory() -> None:
    """A file of 200 bytes asks for 64 GiB of constants, which the planner must not try to compute."""
    nodes = [
        helper.make_node("Expand", ["one", "big"], ["a"], name="a"),
        helper.make_node("Exp", ["a"], ["b"], name="b"),
        helper.make_node("ReduceSum", ["b"], ["y"], name="c", keepdims=0),
    ]
    constants = [numpy_helper.from_array(np.ones(1, np.float32), "one")]
    constants.append(numpy_helper.from_array(np.array([1 << 17, 1 << 17], np.int64), "big"))
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    start = time.perf_counter()
    with pytest.raises(MNNError, match="limit"):
        Session(load(model), Config(memory_limit=1 << 30)).run({})
    assert time.perf_counter() - start < 5
