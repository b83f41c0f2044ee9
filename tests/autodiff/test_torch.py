"""Gradients of compiled operators against torch's, in f32 on random numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN.frontends.onnx import load
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor
from tests import kept

RNG = np.random.default_rng(17)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def between(low, high, *shape):
    return RNG.uniform(low, high, shape).astype(np.float32)


X = (3, 7)
IMAGE = (2, 4, 7, 6)
ONE = {
    **dict.fromkeys(
        "Abs Asinh Atan Celu Cos Cosh Elu Erf Exp Gelu HardSwish Identity LeakyRelu Mish Neg Relu Selu Sigmoid Sin "
        "Sinh Softplus Softsign Tan Tanh Softmax LogSoftmax ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd "
        "ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp Transpose".split(),
        X,
    ),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "MaxPool", "AveragePool", "LRN"), IMAGE),
    "DepthToSpace": (2, 8, 3, 5), "SpaceToDepth": (2, 3, 4, 6), "CumSum": X, "CumProd": X, "Det": (4, 4),
}  # fmt: skip
RANGES = {
    "Acos": (-0.9, 0.9), "Asin": (-0.9, 0.9), "Atanh": (-0.9, 0.9), "Acosh": (1.1, 3.0), "Log": (0.2, 3.0),
    "Sqrt": (0.2, 3.0), "Reciprocal": (0.4, 3.0), "ReduceLogSum": (0.4, 3.0),
}  # fmt: skip
SEVERAL = {
    "Add": [X, (7,)], "Sub": [X, (3, 1)], "Mul": [X, X], "Div": [X, "positive"], "Pow": ["positive", X], "Max": [X, X],
    "Min": [X, X], "Mod": [X, "positive"], "MatMul": [(2, 3, 5), (5, 4)], "Gemm": [(3, 5), (5, 4), (3, 4)],
    "PRelu": [X, (1, 7)], "Sum": [X, X, X], "Mean": [X, X, X], "Concat": [X, (3, 2)],
    "Conv": [IMAGE, (5, 4, 3, 3), (5,)], "ConvTranspose": [IMAGE, (4, 5, 3, 3), (5,)],
    "LayerNormalization": [(2, 3, 7), (7,), (7,)], "InstanceNormalization": [IMAGE, (4,), (4,)],
    "GroupNormalization": [IMAGE, (4,), (4,)], "RMSNormalization": [(2, 3, 7), (7,)],
    "BatchNormalization": [IMAGE, (4,), (4,), (4,), "variance"], "Attention": [(2, 2, 5, 4)] * 3,
    "GridSample": [IMAGE, "places"],
}  # fmt: skip
ATTRIBUTES = {
    "MaxPool": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "AveragePool": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "LRN": {"size": 3}, "DepthToSpace": {"blocksize": 2, "mode": "CRD"}, "SpaceToDepth": {"blocksize": 2},
    "Concat": {"axis": 1}, "Conv": {"strides": [2, 1], "pads": [1, 1, 1, 1], "dilations": [1, 2]},
    "ConvTranspose": {"strides": [2, 2], "pads": [1, 1, 1, 1]}, "Mod": {"fmod": 1},
    "LayerNormalization": {"epsilon": 1e-5}, "RMSNormalization": {"epsilon": 1e-5},
    "InstanceNormalization": {"epsilon": 1e-5},
    "GroupNormalization": {"num_groups": 2, "epsilon": 1e-5}, "GridSample": {"mode": "linear", "padding_mode": "zeros"},
    "Softmax": {"axis": -1}, "LogSoftmax": {"axis": -1},
    **{name: {"keepdims": 0} for name in ONE if name.startswith("Reduce")}, "ReduceLogSum": {"keepdims": 0},
}  # fmt: skip
SPECIAL = {
    "positive": lambda: between(0.5, 2, *X), "variance": lambda: between(0.5, 2, 4),
    "places": lambda: between(-0.9, 0.9, 2, 5, 3, 2),
}  # fmt: skip
NAMES = [*ONE, *RANGES, *SEVERAL]


def operands(name):
    if name in ONE:
        return [normal(*ONE[name])]
    if name in RANGES:
        return [between(*RANGES[name], *X)]
    return [SPECIAL[s]() if isinstance(s, str) else normal(*s) for s in SEVERAL[name]]


def graph_of(name, arrays):
    names = [f"x{k}" for k in range(len(arrays))]
    constants = [numpy_helper.from_array(np.array(1), "axis")] if name in ("CumSum", "CumProd") else []
    node = helper.make_node(name, [*names, *[c.name for c in constants]], ["y"], **ATTRIBUTES.get(name, {}))
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in zip(names, arrays, strict=True)]
    graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    opset = 26 if name == "CumProd" else 23
    return load(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11).SerializeToString()
    )


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """For every operator the gradients of ours and of torch."""
    folder = tmp_path_factory.mktemp("torch")
    own, jobs, saved = {}, [], {}
    for i, name in enumerate(NAMES):
        arrays = operands(name)
        graph = graph_of(name, arrays)
        inputs, (y,) = list(graph.inputs), graph.outputs
        feeds = dict(zip(inputs, arrays, strict=True))
        shape = np.shape(Executor(graph, Config(reference=True)).run(feeds, [y])[0])
        weight = between(0.5, 1.5, *shape)
        axes = Value("axes", DType.I64, (len(shape),), np.arange(len(shape)))
        held, product, loss = Value("weight", DType.F32, shape, weight), Value("product"), Value("loss")
        slopes = [Value(f"slope{k}") for k in range(len(inputs))]
        graph.nodes += [
            Node("BinaryOp", "weigh", [y, held], [product], {"opType": "MUL"}),
            Node("Reduction", "sum", [product, axes], [loss], {"operation": "SUM"}),
            Node("Gradient", "gradient", [loss, *inputs], slopes),
        ]
        own[name] = Executor(graph, Config(precision="high")).run(feeds, slopes)
        jobs.append((name, len(arrays)))
        saved |= {f"{i}.{k}": a for k, a in enumerate(arrays)}
        saved[f"{i}.weight"] = weight
    (folder / "jobs.json").write_text(json.dumps(jobs))
    np.savez(folder / "arrays.npz", **saved)
    paths = [str(folder / n) for n in ("jobs.json", "arrays.npz", "results.npz")]
    kept.torch("tests.autodiff.torch_gradients", folder, *paths)
    with np.load(paths[2]) as found:
        return {n: (own[n], [found[f"{i}.{k}"] for k in range(jobs[i][1])]) for i, n in enumerate(NAMES)}


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_torch(compared, name):
    for k, (got, want) in enumerate(zip(*compared[name], strict=True)):
        assert np.abs(want).max() > 0 or k > 0
        error = np.abs(np.asarray(got) - want).max() / max(np.abs(want).max(), 1e-3)
        assert error < 2e-5, (k, error)
