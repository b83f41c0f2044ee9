"""LSTM, GRU and RNN with attributes, sizes and optional operands drawn at random, against onnxruntime."""

from __future__ import annotations

import random

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN.frontends.onnx.load import load
from MNN.runtime.config import Config
from MNN.runtime.session import Session

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
OTHERS = ["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign"]


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("seed", range(48))
def test_random_layer(seed: int) -> None:
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    kind = ("LSTM", "GRU", "RNN")[seed % 3]
    direction = pick.choice(("forward", "reverse", "bidirectional"))
    d, gates = 1 + (direction == "bidirectional"), GATES[kind]
    steps, batch = pick.choice((1, 2, 7, 30)), pick.choice((1, 1, 2, 5, 8, 13))
    width, hidden = pick.randint(1, 20), pick.choice((1, 3, 8, 16, 31, 64, 130, 200))

    def some(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    operands: dict[str, np.ndarray | None] = {
        "X": some(steps, batch, width) * 3, "W": some(d, gates * hidden, width), "R": some(d, gates * hidden, hidden),
        "B": some(d, 2 * gates * hidden) if pick.random() < 0.7 else None,
        "lens": rng.integers(1, steps + 1, batch).astype(np.int32) if pick.random() < 0.5 else None,
        "h": some(d, batch, hidden) if pick.random() < 0.6 else None,
    }  # fmt: skip
    attributes: dict[str, object] = {"hidden_size": hidden, "direction": direction}
    if kind == "LSTM":
        operands["c"] = some(d, batch, hidden) if pick.random() < 0.6 else None
        operands["P"] = some(d, 3 * hidden) if pick.random() < 0.4 else None
        attributes["input_forget"] = int(pick.random() < 0.2)
    if kind == "GRU":
        attributes["linear_before_reset"] = pick.randint(0, 1)
    if pick.random() < 0.3:
        attributes["clip"] = 0.8
    if pick.random() < 0.4:
        attributes["activations"] = [pick.choice(OTHERS) for _ in USUAL[kind] * d]
    names = [name if a is not None else "" for name, a in operands.items()]
    fed = {"X", "lens", "h", "c"} if pick.random() < 0.8 else set(operands)
    outputs = ["Y", "Yh", "Yc"][: 3 if kind == "LSTM" else 2]
    real = {name: a for name, a in operands.items() if a is not None}
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, **attributes)],
        "layer",
        [
            helper.make_tensor_value_info(n, TensorProto.INT32 if n == "lens" else TensorProto.FLOAT, a.shape)
            for n, a in real.items()
            if n in fed
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in real.items() if n not in fed],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    feeds = {n: a for n, a in real.items() if n in fed}
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    want = peer.run(outputs, feeds)
    found = Session(load(model), Config(threads=1 + seed % 4)).run(feeds)
    for name, expected in zip(outputs, want, strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=2e-5, err_msg=f"{name} of {attributes}")
