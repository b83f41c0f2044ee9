"""Transposed convolutions whose result is larger than what taps reach, against onnx's own implementation."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import MNN


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_missing_is_halved(auto_pad: str, seed: int) -> None:
    """ONNX Runtime gives smaller results there."""
    rng = np.random.default_rng([seed, len(auto_pad)])
    spatial = 1 + seed % 2
    strides = rng.integers(2, 5, spatial).tolist()
    kernel = [int(rng.integers(1, s)) for s in strides]
    x = rng.standard_normal((2, 3, *rng.integers(1, 5, spatial))).astype(np.float32)
    w = rng.standard_normal((3, 2, *kernel)).astype(np.float32)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=strides, auto_pad=auto_pad, kernel_shape=kernel)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [onnx.numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    found = MNN.load(model.SerializeToString()).run({"x": x})["y"]
    assert found.shape == wanted.shape == (2, 2, *(n * s for n, s in zip(x.shape[2:], strides, strict=True)))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
