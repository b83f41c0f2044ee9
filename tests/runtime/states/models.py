"""The models that states are tested with, and what they are compared with."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import MNN
from benchmarks.cached_decoder import cached_decoder
from MNN.stateful import State, StatefulModel

CACHES = {f"past_{n}{i}": f"present_{n}{i}" for i in range(2) for n in "kv"}


def decoder_bytes(seed: int = 11) -> bytes:
    model = cached_decoder(layers=2, width=64, heads=4, kv_heads=2, inner=96, seed=seed)
    found: bytes = model.SerializeToString()
    return found


DECODER = decoder_bytes()


def stream_bytes() -> bytes:
    """A convolution along a stream, a window at a time: the end of a window goes before the next one; and how many
    windows there were."""
    rng = np.random.default_rng(3)
    info, f32 = helper.make_tensor_value_info, TensorProto.FLOAT
    nodes = [
        helper.make_node("Concat", ["before", "x"], ["whole"], axis=2),
        helper.make_node("Conv", ["whole", "w"], ["y"], kernel_shape=[5]),
        helper.make_node("Slice", ["whole", "first", "last", "axis"], ["after"]),
        helper.make_node("Add", ["count", "one"], ["counted"]),
    ]
    constants = {
        "w": rng.standard_normal((6, 3, 5)).astype(np.float32), "first": np.array([-4]), "last": np.array([1 << 40]),
        "axis": np.array([2]), "one": np.array([1.0], np.float32),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes, "stream", [info("x", f32, [1, 3, "n"]), info("before", f32, [1, 3, 4]), info("count", f32, [1])],
        [info("y", f32, [1, 6, "n"]), info("after", f32, [1, 3, 4]), info("counted", f32, [1])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    found: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    ).SerializeToString()
    return found


class Handed:
    """The model without states, which is handed what came out."""

    def __init__(self, batch: int, precision: str = "normal") -> None:
        self.model = MNN.load(DECODER, precision=precision)
        self.past = {name: np.zeros((batch, 2, 0, 16), np.float32) for name in CACHES}

    def run(self, tokens: np.ndarray) -> np.ndarray:
        found = self.model.run({"tokens": tokens, **self.past})
        self.past = {given: found[result] for given, result in CACHES.items()}
        logits: np.ndarray = found["logits"]
        return logits

    def rollback(self, length: int) -> None:
        self.past = {name: array[:, :, :length] for name, array in self.past.items()}


def same(model: StatefulModel, state: State, handed: Handed, tokens: np.ndarray, bound: float) -> None:
    found, wanted = model.run({"tokens": tokens}, state=state)["logits"], handed.run(tokens)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound * float(np.abs(wanted).max()))
    for name, array in handed.past.items():
        assert state.shapes[name] == array.shape
        np.testing.assert_allclose(state[name], array, rtol=0, atol=bound * float(np.abs(array).max()))
