"""Transposed convolutions between dequantised and quantised tensors: computed on the integers, with the numbers that
ONNX Runtime finds in floating point, which has no integer form of them."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN import model
from MNN.frontends.registry import load_graph
from MNN.passes.manager import optimize

CASES = int(os.environ.get("MNN_TRANSPOSED_CASES", "24"))
_TYPES = {"u1": TensorProto.UINT8, "i1": TensorProto.INT8}


def _case(seed: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """A transposed convolution with drawn attributes, and its input."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["u1", "i1"]))
    groups = int(rng.choice([1, 1, 2, 3]))
    per_in, per_out = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    axes = (2, 1, 2, 3)[seed % 4]
    kernel, strides, dilations = (rng.integers(1, most, axes).tolist() for most in (5, 4, 3))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [int(rng.integers(0, min(s, 3))) for s in (*spans, *spans)]
    extra = [int(rng.integers(0, s)) for s in strides]
    info = np.iinfo(kind)
    zeros = [np.array(rng.choice([info.min, 0, rng.integers(info.min, info.max + 1)]), kind) for _ in range(2)]
    channels, each = groups * per_out, groups == 1 and bool(rng.random() < 0.6)
    weights = rng.integers(-127, 128, (groups * per_in, per_out, *kernel)).astype(np.int8)
    w_scale = rng.uniform(0.005, 0.02, channels if each else ()).astype(np.float32)
    x_scale = np.float32(rng.uniform(0.01, 0.1))
    y_scale = np.float32(x_scale * w_scale.mean() * 75 * np.sqrt(per_in * np.prod(kernel) / np.prod(strides)))
    constants = {"xs": x_scale, "xz": zeros[0], "w": weights, "ws": w_scale, "ys": y_scale, "yz": zeros[1]}
    attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "group": groups}
    covered = all(k >= s for k, s in zip(kernel, strides, strict=True))  # else ONNX Runtime's SAME is smaller
    if covered and rng.random() < 0.3:
        attributes["auto_pad"] = str(rng.choice(["VALID", "SAME_UPPER", "SAME_LOWER"]))
        if attributes["auto_pad"] != "VALID":
            attributes["dilations"] = [1] * axes
    else:
        attributes |= {"pads": pads, "output_padding": extra}
    operands = ["x", "wf"]
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["x"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wf"], axis=1),
    ]
    if rng.random() < 0.6:
        constants |= {"b": rng.integers(-5000, 5000, channels).astype(np.int32), "bs": (x_scale * w_scale)}
        nodes.append(helper.make_node("DequantizeLinear", ["b", "bs"], ["bf"], axis=0))
        operands.append("bf")
    nodes.append(helper.make_node("ConvTranspose", operands, ["c"], **attributes))
    if rng.random() < 0.5:
        nodes.append(helper.make_node("Relu", ["c"], ["r"]))
    nodes.append(helper.make_node("QuantizeLinear", [nodes[-1].output[0], "ys", "yz"], ["y"]))
    shape = [int(rng.integers(1, 3)), groups * per_in, *rng.integers(3, 12, axes).tolist()]
    graph = helper.make_graph(
        nodes, "transposed", [helper.make_tensor_value_info("q", _TYPES[kind], ["n", shape[1], *"dhw"[-axes:]])],
        [helper.make_tensor_value_info("y", _TYPES[kind], None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made, rng.integers(info.min, info.max + 1, shape).astype(kind)


@pytest.mark.parametrize("seed", range(CASES))
def test_numbers_of_onnxruntime(seed: int, tmp_path: pathlib.Path) -> None:
    made, q = _case(seed)
    path = tmp_path / "transposed.onnx"
    onnx.save(made, path)
    graph = load_graph(str(path))
    optimize(graph, 1)
    assert [n.op for n in graph.nodes if "Conv" in n.op or "conv" in n.op][:1] == ["QLinearConvTranspose"]
    assert not any(n.op in ("QuantizeLinear", "DequantizeLinear") for n in graph.nodes)
    wanted = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"q": q})[0]
    (found,) = model.load(str(path), cache=False).run({"q": q}).values()
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    away = np.abs(found.astype(int) - wanted.astype(int))
    assert away.max(initial=0) <= 1  # a tie of the rounding
    assert (away > 0).mean() < 0.01


def test_shapes_are_known_without_sizes(tmp_path: pathlib.Path) -> None:
    """What is inferred before any size is known suits what comes out."""
    for seed in range(4):
        made, q = _case(seed)
        path = tmp_path / "transposed.onnx"
        onnx.save(made, path)
        loaded = model.load(str(path), cache=False)
        (found,) = loaded.run({"q": q}).values()
        (info,) = loaded.outputs.values()
        fixed = [(n, m) for n, m in zip(info.shape or found.shape, found.shape, strict=True) if isinstance(n, int)]
        assert all(n == m for n, m in fixed)
