"""Products of what is quantised to the range it turns out to have, beside ONNX Runtime's of the floats in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN.frontends.registry import load_graph
from MNN.passes.manager import optimize
from MNN.runtime.session import Session

_STEPS = ["y0", "s", "z"]


def _weights(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Bytes, signed or not, with one scale or one for each output, a zero point perhaps."""
    kind = rng.choice(["int8", "uint8"])
    ends = np.iinfo(kind)
    many = () if rng.integers(2) else (shape[axis],)
    w = rng.integers(ends.min, int(ends.max) + 1, shape).astype(kind)
    zero = rng.integers(-9, 9, many) + (128 if kind == "uint8" else 0) if rng.integers(2) else np.zeros(many)
    held = {"w": w, "ws": rng.uniform(1e-3, 2e-2, many).astype(np.float32), "wz": np.asarray(zero).astype(kind)}
    node = helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=axis)
    return [node], [numpy_helper.from_array(np.asarray(v), k) for k, v in held.items()]


def _product(
    rng: np.random.Generator, axes: int
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto], tuple[int, ...], str]:
    """A convolution over axes, or without any a product of matrices: its nodes, constants, the shape that it is given,
    and what it is to become."""
    if not axes:
        inner, outputs, lead = (int(n) for n in rng.integers(1, 40, 3))
        nodes, constants = _weights(rng, (inner, outputs), 1)
        nodes.append(helper.make_node("MatMul", ["x1", "wf"], ["y"]))
        return nodes, constants, (int(rng.integers(1, 4)), lead, inner)[int(rng.integers(2)) :], "MatMulInteger"
    group, wide, deep = (int(n) for n in rng.integers(1, 5, 3))
    if axes == 2 and rng.integers(2):
        group, wide, deep = 12, 1, 1
    kernel = [int(n) for n in rng.integers(1, 4, axes)]
    attrs: dict[str, Any] = {
        "strides": [int(n) for n in rng.integers(1, 3, axes)], "pads": [int(n) for n in rng.integers(0, 3, 2 * axes)],
        "dilations": [int(n) for n in rng.integers(1, 3, axes)], "group": group,
    }  # fmt: skip
    nodes, constants = _weights(rng, (group * wide, deep, *kernel), 0)
    operands = ["x1", "wf"]
    if rng.integers(2):
        constants.append(numpy_helper.from_array(rng.standard_normal(group * wide).astype(np.float32), "b"))
        operands.append("b")
    nodes.append(helper.make_node("Conv", operands, ["y"], **attrs))
    return nodes, constants, (int(rng.integers(1, 3)), group * deep, *rng.integers(6, 9, axes).tolist()), "ConvInteger"


@pytest.mark.parametrize(("target", "seeds"), [("", range(4)), ("avx2 -avxvnni -avxvnniint8", range(4, 8))])
def test_products_are_computed_with_the_bytes(target: str, seeds: range, weaker: Callable[[str], None]) -> None:
    """Matrices, lines, images and volumes."""
    weaker(target)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        nodes, constants, shape, expected = _product(rng, seed % 4)
        first = [
            helper.make_node("DynamicQuantizeLinear", ["x"], _STEPS),
            helper.make_node("DequantizeLinear", _STEPS, ["x1"]),
        ]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            [*first, *nodes], "net", [info("x", TensorProto.FLOAT, shape)], [info("y", TensorProto.FLOAT, None)],
            constants,
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        loaded = load_graph(made.SerializeToString())
        optimize(loaded)
        kinds = {n.op for n in loaded.nodes}
        assert expected in kinds, (seed, kinds)
        assert not kinds & {"Convolution", "ConvolutionDepthwise", "Convolution3D", "MatMul", "DequantizeLinear"}
        x = (rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 3) + rng.uniform(-1, 1)).astype(np.float32)
        (want,) = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
        found = Session(loaded).run({"x": x})["y"]
        assert np.abs(found - want).max(initial=0) <= 2e-6 * np.abs(want).max(initial=0), seed
