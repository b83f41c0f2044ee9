"""Which constants of a file are parameters of the module that is made of it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN

F, nn = MNN.expr, MNN.nn


def model(kind, state, expanded, masked):
    """A recurrence from a constant state (as it is, or broadcast to the batch), and masked attention of its steps."""
    rng, gates = np.random.default_rng(0), 4 if kind == "LSTM" else 3
    numbers = {
        "w": rng.normal(size=(1, gates * 3, 2)), "r": rng.normal(size=(1, gates * 3, 3)), "b": np.zeros((1, gates * 6)),
        "h": np.full((1, 1 if expanded else 4, 3), state), "mask": np.triu(np.full((5, 5), masked), 1),
        "last": rng.normal(size=(3, 2)),
    }  # fmt: skip
    held = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in numbers.items()]
    held += [
        numpy_helper.from_array(np.array(v, np.int64), n) for n, v in {"wide": [1, 4, 3], "flat": [5, 4, 3]}.items()
    ]
    nodes = [helper.make_node("Expand", ["h", "wide"], ["h0"])] if expanded else []
    first = "h0" if expanded else "h"
    operands = ["x", "w", "r", "b", "", first, *([first] if kind == "LSTM" else [])]
    nodes += [
        helper.make_node(kind, operands, ["y4"], hidden_size=3),
        helper.make_node("Reshape", ["y4", "flat"], ["y3"]),
        helper.make_node("Transpose", ["y3"], ["y"], perm=[1, 0, 2]),
        helper.make_node("Transpose", ["y3"], ["yt"], perm=[1, 2, 0]),
        helper.make_node("MatMul", ["y", "yt"], ["scores"]),
        helper.make_node("Add", ["scores", "mask"], ["hidden"]),
        helper.make_node("Softmax", ["hidden"], ["weights"]),
        helper.make_node("MatMul", ["weights", "y"], ["mixed"]),
        helper.make_node("MatMul", ["mixed", "last"], ["out"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [5, 4, 2]), ("out", [4, 5, 2]))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def loaded(path):
    tensors = F.load_as_dict(str(path))
    return nn.load_module([tensors["x"]], [tensors["out"]], True)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_first_states_that_are_zero_and_masks_stay(tmp_path, kind, expanded):
    for masked in (-np.inf, -1e9, float(np.finfo(np.float32).min)):
        onnx.save(model(kind, 0.0, expanded, masked), tmp_path / "m.onnx")
        net = loaded(tmp_path / "m.onnx")
        shapes = [list(v.shape) for v in net.parameters]
        assert len(shapes) == 4  # W, R, B and the last product's
        assert not [s for s in shapes if s in ([1, 1, 3], [1, 4, 3], [5, 5])]
    x = np.random.default_rng(1).normal(size=(5, 4, 2)).astype(np.float32)
    optimizer = MNN.optim.AdamW(net, 0.05, weight_decay=0.1)
    losses = []
    for _ in range(4):
        loss = F.reduce_mean(F.square(net(F.const(x, [5, 4, 2])) - 1.0))
        optimizer.step(loss)
        losses.append(float(loss.read()))
    assert losses == sorted(losses, reverse=True)
    biases = next(v for v in net.parameters if list(v.shape)[:-1] == [1])
    assert biases.read().any()  # zeros, but no states: they are trained


def test_first_states_that_are_not_zero_are_trained(tmp_path):
    onnx.save(model("GRU", 0.1, True, -np.inf), tmp_path / "m.onnx")
    assert [1, 1, 3] in [v.shape for v in loaded(tmp_path / "m.onnx").parameters]
