"""A quantised transformer block against ONNX Runtime without its optimisations, tensor by tensor.

Rounding makes whole outputs no measure: one product that lands on the other side of a tie is a step of an 8-bit scale,
and every layer behind it sees the difference. So each operator gets ONNX Runtime's own tensors.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from MNN.frontends.onnx import load
from MNN.ir.graph import Graph, Value
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor

ROWS, WIDTH, HEADS = 24, 64, 4
NOISE = 4e-6
"""Of float tensors, relative to the largest: products of a few hundred terms in another order."""
TIES = 1e-3
"""Share of quantised numbers that may be rounded the other way, by one step."""


def block() -> onnx.ModelProto:
    """Attention and a feed-forward net with GELU, both behind layer norms."""
    rng = np.random.default_rng(5)
    weights = {
        "heads": np.array([1, ROWS, HEADS, WIDTH // HEADS]), "flat": np.array([1, ROWS, WIDTH]),
        "root": np.float32(2**0.5), "half": np.float32(0.5), "one": np.float32(1),
        "scale": np.float32((WIDTH / HEADS) ** -0.5),
    }  # fmt: skip
    for name, shape in {
        "q": (64, 64),
        "k": (64, 64),
        "v": (64, 64),
        "o": (64, 64),
        "up": (64, 256),
        "down": (256, 64),
    }.items():
        weights[f"w_{name}"] = (rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32)
        weights[f"b_{name}"] = (rng.standard_normal(shape[1]) * 0.1).astype(np.float32)
    for name in ("n1", "n2"):
        weights[f"g_{name}"], weights[f"s_{name}"] = (rng.standard_normal((2, WIDTH)) * 0.2 + 1).astype(np.float32)
    node, nodes = helper.make_node, []

    def norm(x: str, name: str) -> str:
        nodes.append(node("LayerNormalization", [x, f"g_{name}", f"s_{name}"], [name], name=name))
        return name

    def dense(x: str, name: str) -> str:
        nodes.append(node("MatMul", [x, f"w_{name}"], [f"{name}_p"], name=f"{name}_p"))
        nodes.append(node("Add", [f"{name}_p", f"b_{name}"], [name], name=name))
        return name

    def op(kind: str, inputs: list[str], out: str, **attrs: object) -> str:
        nodes.append(node(kind, inputs, [out], name=out, **attrs))
        return out

    x = norm("x", "n1")
    for name, perm in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        op("Transpose", [op("Reshape", [dense(x, name), "heads"], f"{name}_r")], f"{name}_t", perm=perm)
    scores = op("Softmax", [op("Mul", [op("MatMul", ["q_t", "k_t"], "qk"), "scale"], "scaled")], "soft", axis=-1)
    mixed = op("Transpose", [op("MatMul", [scores, "v_t"], "mix")], "mixed", perm=(0, 2, 1, 3))
    first = op("Add", ["x", dense(op("Reshape", [mixed, "flat"], "joined"), "o")], "first")
    up = dense(norm(first, "n2"), "up")
    erf = op("Add", [op("Erf", [op("Div", [up, "root"], "rooted")], "erf"), "one"], "erf1")
    gelu = op("Mul", [op("Mul", [up, erf], "upped"), "half"], "gelu")
    op("Add", [first, dense(gelu, "down")], "y")
    graph = helper.make_graph(
        nodes, "block", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, ROWS, WIDTH))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, ROWS, WIDTH))],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class _Data(CalibrationDataReader):
    def __init__(self) -> None:
        self._left = [feeds(seed) for seed in range(3)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


def feeds(seed: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((1, ROWS, WIDTH)).astype(np.float32)}


def reference(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """All tensors as ONNX Runtime computes them one operator at a time."""
    told = onnx.ModelProto.FromString(model.SerializeToString())
    have = {o.name for o in told.graph.output}
    told.graph.output.extend(
        helper.make_empty_tensor_value_info(o) for n in model.graph.node for o in n.output if o not in have
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(told.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = feeds(9)
    return {**given, **dict(zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True))}


@pytest.mark.parametrize("level", [0, 1], ids=["as loaded", "on integers"])
@pytest.mark.parametrize("activations", [QuantType.QUInt8, QuantType.QInt8], ids=["u8", "s8"])
@pytest.mark.parametrize("channels", [False, True], ids=["tensor", "channels"])
def test_every_operator_alone(tmp_path: Path, level: int, activations: QuantType, channels: bool) -> None:
    onnx.save(block(), tmp_path / "float.onnx")
    quantize_static(
        str(tmp_path / "float.onnx"), str(tmp_path / "q.onnx"), _Data(), quant_format=QuantFormat.QDQ,
        activation_type=activations, weight_type=QuantType.QInt8, per_channel=channels,
    )  # fmt: skip
    wanted = reference(onnx.load(tmp_path / "q.onnx"))
    graph = load(tmp_path / "q.onnx")
    if level:
        optimize(graph, level)
        assert sum(n.op == "QLinearMatMul" for n in graph.nodes) == 8
    values: dict[Value, np.ndarray] = {}
    quantised = differing = floats = 0
    for node in graph.nodes:
        inputs = list(dict.fromkeys(v for v in node.inputs if v is not None and not v.is_const))
        values.update({v: wanted[v.name] for v in inputs if v.name in wanted})
        alone = Executor(Graph(node.name, inputs, list(node.outputs), [node]), Config(precision="high"))
        for value, found in zip(node.outputs, alone.run({v: values[v] for v in inputs}, node.outputs), strict=True):
            values[value] = found
            if value.name not in wanted:
                continue
            expected = wanted[value.name]
            if expected.dtype.itemsize == 1:
                steps = np.abs(found.astype(int) - expected)
                assert steps.max() <= 1, f"{node}: {value.name} is off by {steps.max()} steps"
                quantised, differing = quantised + steps.size, differing + int((steps > 0).sum())
            elif expected.dtype.kind == "f":
                error = np.abs(found - expected).max() / np.abs(expected).max()
                assert error <= NOISE, f"{node}: {value.name} is off by {error:.1e}"
                floats += 1
    assert quantised > 50_000
    assert floats > 15
    assert differing <= TIES * quantised, f"{differing} of {quantised}"
