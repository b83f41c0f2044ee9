"""Every operator of drawn quantised networks gives LiteRT's numbers; ``python -m tests.frontends.tflite.chain_trial``
tries more of them."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from MNN.frontends import load_graph
from MNN.frontends.onnx_export import onnx_model
from MNN.passes.manager import optimize
from tests.frontends.tflite.cases.draw import Draw
from tests.frontends.tflite.chain_trial import apart
from tests.frontends.tflite.chains import Chain
from tests.frontends.tflite.compare import ours

STEPS = {"INT8": {}, "INT16": {"TANH": 2, "SOFTMAX": 4, "LOGISTIC": 2}}
"""Functions of 16 bits, which LiteRT takes from tables, and this engine computes; all others are one step away at most.
"""
OFTEN = ("TRANSPOSE_CONV", "MEAN", "LEAKY_RELU", "HARD_SWISH")
"""Operators of bytes whose kernels in LiteRT may round more than once, where this engine does so once."""


@pytest.mark.parametrize("kind", STEPS)
def test_operators_give_the_numbers_of_litert(kind: str) -> None:
    found = apart(kind, range(5))
    assert len(found) > 15
    for a in found:
        assert a.steps <= STEPS[kind].get(a.op, 1), a
        if (kind == "INT8" and a.op not in OFTEN) or (kind == "INT16" and "CONV" in a.op):
            assert a.count <= 0.005 * a.size, a


def test_networks_of_16_bits_go_to_onnx() -> None:
    """ONNX has neither quantised products nor pools of 16 bits: what is written for them gives the same numbers, but
    for what floats round otherwise."""
    d = Draw(5)
    c = Chain(d, "INT16")
    x = c.arithmetic(c.conv(c.made[0]))
    n, h, w, channels = x.shape
    x = c.add("MAX_POOL_2D", x, [], (n, h, w, channels), x.q, "Pool2DOptions", padding="SAME", stride_h=1, stride_w=1,
              filter_height=2, filter_width=2, fused_activation_function="RELU6")  # fmt: skip
    case = d.case(c.dense(x).tensor)
    graph = load_graph(case.model.finish())
    optimize(graph)
    assert {"QLinearConv", "QLinearMatMul", "Pooling"} <= {node.op for node in graph.nodes}
    options = onnxruntime.SessionOptions()  # ONNX Runtime's rewriting of these products is 16 steps off
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(onnx_model(graph).SerializeToString(), options)
    (found,) = session.run(None, {session.get_inputs()[0].name: case.runs[0][0]})
    (wanted,) = ours(case.model.finish(), case.runs)[0]
    assert found.dtype == wanted.dtype == np.int16
    assert np.abs(found.astype(int) - wanted).max() <= 4
    assert wanted.std() > 1000
