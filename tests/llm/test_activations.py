"""Activations by name, against numpy's functions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from MNN.errors import FormatError
from MNN.frontends.common.graph_builder import GraphBuilder, ModelState
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.llm.models.activations import ACTIVATIONS, activated
from MNN.runtime.config import Config
from MNN.runtime.session import Session


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _expected(name: str, x: np.ndarray) -> np.ndarray:
    exact = x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    near = x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    found = {
        "silu": x * _sigmoid(x), "gelu": exact, "gelu_python": exact, "relu": np.maximum(x, 0),
        "relu2": np.maximum(x, 0) ** 2, "relu6": np.clip(x, 0, 6), "quick_gelu": x * _sigmoid(1.702 * x),
        "sigmoid": _sigmoid(x), "tanh": np.tanh(x), "linear": x,
    }  # fmt: skip
    return found["silu"] if name == "swish" else found.get(name, near)


def test_all_that_are_known() -> None:
    net = GraphBuilder(ModelState(), Graph("activations"))
    x = Value("x", DType.F32, (3, 67))
    net.graph.inputs.append(x)
    for name in ACTIVATIONS:
        made = activated(net, name, x)
        if made is x:
            made = net.op("BinaryOp", x, net.const(1.0), opType="MUL")
        made.name = name
        net.graph.outputs.append(made)
    data = np.random.default_rng(3).uniform(-9, 9, (3, 67)).astype(np.float32)
    found = Session(net.graph, Config(precision="high", cache=False)).run({"x": data})
    for name in ACTIVATIONS:
        wanted = _expected(name, data.astype(np.float64))
        assert np.abs(found[name] - wanted).max() <= 1e-5 * np.abs(wanted).max(), name


def test_unknown_ones() -> None:
    net = GraphBuilder(ModelState(), Graph("activations"))
    with pytest.raises(FormatError, match=r"the activation .warm. is none of gelu, .*silu"):
        activated(net, "warm", Value("x", DType.F32, (1,)))
