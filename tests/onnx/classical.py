"""Models of one operator of ONNX-ML, run by this engine and by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from MNN.frontends.onnx import load
from tests.harness import run_file, run_reference

FLOAT, INT64, STRING, DOUBLE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.DOUBLE
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64, np.dtype(object): STRING, np.dtype(np.float64): DOUBLE}


def model(op, outputs, *arrays, version=3, **attrs):
    """One node of ONNX-ML; ``outputs`` are element types."""
    inputs = [
        helper.make_tensor_value_info(f"x{i}", TYPES[a.dtype], [None, *a.shape[1:]]) for i, a in enumerate(arrays)
    ]
    names = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(op, [v.name for v in inputs], names, domain="ai.onnx.ml", **attrs)
    results = [helper.make_tensor_value_info(n, kind, None) for n, kind in zip(names, outputs, strict=True)]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    graph = helper.make_graph([node], "g", inputs, results)
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def run(data, *arrays):
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    found = run_file(load(data), feeds)
    for got, meant in zip(found, run_reference(load(data), feeds), strict=True):
        alike(got, meant, 1e-5)
    return found


def alike(got, wanted, tolerance=2e-5):
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    else:
        assert got.tolist() == wanted.tolist()


def like_onnxruntime(op, outputs, *arrays, tolerance=2e-5, **attrs):
    data = model(op, outputs, *arrays, **attrs)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {f"x{i}": a for i, a in enumerate(arrays)})
    found = run(data, *arrays)
    for got, expected in zip(found, wanted, strict=True):
        alike(got, expected, tolerance)
    return found


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
