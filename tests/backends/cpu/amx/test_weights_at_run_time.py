"""Convolutions on tiles whose weights are computed at run time, and lie in whatever order that gave; emulated."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN

TILES = "avx512,+amx-tile,+amx-bf16,+amx-int8"


def network(turned: bool, flipped: bool, transposed: bool) -> bytes:
    """A convolution, a transposed one for ``transposed``, of 16 by 8 channels, whose weights are an input, seen
    ``turned`` and ``flipped``."""
    nodes, weights, constants = [], "w", []
    if flipped:
        numbers = {"starts": [-1, -1], "ends": [-99, -99], "axes": [2, 3], "steps": [-1, -1]}
        constants = [numpy_helper.from_array(np.array(n, np.int64), name) for name, n in numbers.items()]
        nodes.append(helper.make_node("Slice", [weights, *numbers], ["flipped"]))
        weights = "flipped"
    if turned:
        nodes.append(helper.make_node("Transpose", [weights], ["turned"], perm=[1, 0, 2, 3]))
        weights = "turned"
    nodes.append(helper.make_node("ConvTranspose" if transposed else "Conv", ["x", weights], ["y"], pads=[1] * 4))
    shape = [16, 8, 3, 3] if turned != transposed else [8, 16, 3, 3]
    given = {"x": [16, 16, 8, 8], "w": shape}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in given.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "weights at run time", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    text: bytes = model.SerializeToString()
    return text


@pytest.mark.parametrize("precision", ["high", "normal"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_weights_in_any_order(
    turned: bool, flipped: bool, transposed: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ort = pytest.importorskip("onnxruntime")
    monkeypatch.setenv("MNN_TARGET", TILES)
    source = network(turned, flipped, transposed)
    reference, model = ort.InferenceSession(source), MNN.load(source, precision=precision)
    rng = np.random.default_rng(0)
    for _ in range(2):
        feeds = {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in reference.get_inputs()}
        (wanted,) = reference.run(None, feeds)
        found = model.run(feeds)["y"]
        assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()
