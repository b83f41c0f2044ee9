"""The shortest way through Python of small networks: the same answers as the long way, whatever arrays come and whoever
has used the memory in between."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.binding.direct import Direct
from MNN.errors import RunError

RNG = np.random.default_rng(11)
WEIGHTS = {
    "a": RNG.standard_normal((1536, 32)).astype(np.float32) / 40,
    "b": RNG.standard_normal((32, 32)).astype(np.float32) / 6,
    "c": RNG.standard_normal((32, 5)).astype(np.float32) / 6,
    "ones": np.ones(32, np.float32),
    "table": RNG.standard_normal((7, 5)).astype(np.float32),
}


def network(*, looks_up: bool = False) -> MNN.Model:
    """Layers as wake words are detected by; ``looks_up``: with rows of a table, which may not be there."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("LayerNormalization", ["h", "ones"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["t"]),
        helper.make_node("MatMul", ["t", "c"], ["u" if looks_up else "y"]),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1536])]
    if looks_up:
        given.append(helper.make_tensor_value_info("i", TensorProto.INT64, [1]))
        nodes += [helper.make_node("Gather", ["table", "i"], ["v"]), helper.make_node("Add", ["u", "v"], ["y"])]
    kept = [numpy_helper.from_array(w, n) for n, w in WEIGHTS.items() if looks_up or n != "table"]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])]
    graph = helper.make_graph(nodes, "g", given, made, kept)
    return MNN.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def expected(x: np.ndarray) -> np.ndarray:
    h = x.astype(np.float64) @ WEIGHTS["a"]
    normal = (h - h.mean()) / np.sqrt(h.var() + 1e-5)
    return 1 / (1 + np.exp(-np.maximum(normal, 0) @ WEIGHTS["b"])) @ WEIGHTS["c"]


def drawn() -> np.ndarray:
    return RNG.standard_normal((1, 1536)).astype(np.float32)


def short(model: MNN.Model) -> bool:
    """Whether the last run left a short way behind."""
    return model._last_run is not None and model._last_run.run.__module__.endswith("short_run")


def bound_of(model: MNN.Model) -> BoundProgram:
    assert model._last_run is not None
    bound = model._last_run._bound
    assert isinstance(bound, BoundProgram)
    return bound


def test_arrays_of_every_kind_give_the_same_answers() -> None:
    model, x = network(), drawn()
    model.run({"x": x})
    assert short(model)
    room = np.zeros(4 * 1536 + 1, np.uint8)
    off = room[1:].view(np.float32).reshape(1, 1536)
    off[...] = x
    sealed = x.copy()
    sealed.flags.writeable = False
    spread = np.zeros((1, 3072), np.float32)[:, ::2]
    spread[...] = x
    kinds = [x, off, sealed, spread, x[:, ::-1].copy()[:, ::-1], x.astype(np.float64), x.astype(">f4"), x.tolist()]
    for _ in range(2):
        for given in kinds:
            np.testing.assert_allclose(model.run({"x": given})["y"], expected(x), atol=1e-5)


def test_a_chain_reads_its_input_where_the_caller_has_it() -> None:
    model = network()
    model.run({"x": drawn()})
    bound = bound_of(model)
    assert any(c.stages for c in bound.program.commands)
    assert all(isinstance(d, Direct) for d in (*bound._direct_inputs, *bound._direct_outputs))


def test_results_are_the_callers_own() -> None:
    model, arrays = network(), [drawn() for _ in range(4)]
    found = [model.run({"x": x})["y"] for x in arrays]
    for x, y in zip(arrays, found, strict=True):
        np.testing.assert_allclose(y, expected(x), atol=1e-5)


def test_after_measurements_and_other_numbers_of_threads() -> None:
    model, x = network(), drawn()
    for _ in range(3):
        model.run({"x": x})
        bound = bound_of(model)
        bound.profile(1)
        bound.compute(2)
        np.testing.assert_allclose(model.run({"x": x})["y"], expected(x), atol=1e-5)


def test_an_error_leaves_nothing_behind() -> None:
    model, x = network(looks_up=True), drawn()
    for _ in range(3):
        for i in (0, 6):
            y = model.run({"x": x, "i": np.array([i])})["y"]
            np.testing.assert_allclose(y, expected(x) + WEIGHTS["table"][i], atol=1e-5)
        assert short(model)
        with pytest.raises(RunError, match="out of range"):
            model.run({"x": x, "i": np.array([7])})


def test_threads_take_turns() -> None:
    model, arrays, wrong = network(), [drawn() for _ in range(3)], []

    def run(x: np.ndarray) -> None:
        want = expected(x)
        wrong.extend(1 for _ in range(300) if not np.allclose(model.run({"x": x})["y"], want, atol=1e-5))

    threads = [threading.Thread(target=run, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
