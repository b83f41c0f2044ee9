"""Quantised modules in TorchScript, programs that quantise as they run, and torchao's operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from MNN.frontends import load_graph
from MNN.frontends.onnx_export import onnx_model
from MNN.frontends.torch import script
from MNN.frontends.torch.script.load import Given
from MNN.passes.manager import optimize
from MNN.runtime.session import Session
from tests.frontends.torch.judging import difference
from tests.frontends.torch.peer import written

# a step of a quantised result, or of those before it where layers follow each other; torch rounds the activations of
# quantised recurrent layers too, and quantises with a range that is a bit narrower for dynamic ones
TOLERANCE = {
    "upward": 0.02,
    "lines": 0.03,
    "gates": 0.004,
    "LSTM-qint8": 0.02,
    "GRU-qint8": 0.03,
    "cells-qint8": 0.03,
    "volume": 0.08,
}


@pytest.mark.parametrize(
    "name",
    [
        "upward",
        "lines",
        "gates",
        "LSTM-qint8",
        "LSTM-float16",
        "GRU-qint8",
        "GRU-float16",
        "tables",
        "tables-4bit",
        "cells-qint8",
        "cells-float16",
        "numbers",
        "volume",
        "frozen",
        "runs-u8",
        "runs-i8",
        "runs-conv-u8",
        "runs-conv-i8",
    ],
)
def test_quantised_modules(name: str) -> None:
    base = f"{written('quantized_cases') / 'cases'}-{name}"
    path = Path(f"{base}.pt2" if name.startswith("runs") else f"{base}.pt")
    with np.load(f"{base}.npz") as held:
        x, want = held["x"], held["y"]
    frozen = name == "frozen"  # such a file has no examples of its inputs
    graph = script.load(path, {"x": Given(x.shape)}) if frozen else load_graph(path)
    optimize(graph)
    session = Session(graph)
    found = next(iter(session.run({next(iter(session.inputs)): x}).values()))
    assert found.shape == want.shape
    error = np.abs(found.astype(np.float64) - want).max() / np.abs(want).max()
    assert error < TOLERANCE.get(name, 1e-5), error
    if name.startswith("runs"):
        kinds = [n.op for n in graph.nodes]
        assert ("ConvInteger" if "conv" in name else "MatMulInteger") in kinds
        assert not {"Convolution", "ConvolutionDepthwise", "MatMul", "DequantizeLinear", "Reduction"} & set(kinds)
        exported = onnx_model(graph)
        onnx.checker.check_model(exported, full_check=True)
        peer = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
        back = peer.run(None, {peer.get_inputs()[0].name: x})[0]
        assert np.abs(back - want).max() / np.abs(want).max() < 0.01


def test_quantised_layers_go_back_to_onnx() -> None:
    base = f"{written('quantized_cases') / 'cases'}-upward"
    graph = load_graph(Path(f"{base}.pt"))
    optimize(graph)
    assert any(n.op == "QLinearConvTranspose" for n in graph.nodes)
    model = onnx_model(graph)
    onnx.checker.check_model(model, full_check=True)
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with np.load(f"{base}.npz") as held:
        x, want = held["x"], held["y"]
    found = peer.run(None, {peer.get_inputs()[0].name: x})[0]
    assert np.abs(found - want).max() / np.abs(want).max() < TOLERANCE["upward"]


@pytest.mark.parametrize("block", [[1, 4], [1, 12], [6, 12], [3, 1], [2, 3]])
@pytest.mark.parametrize("mapping", ["SYMMETRIC", "ASYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR"])
def test_numbers_in_blocks(block: list[int], mapping: str) -> None:
    """torchao's operators, by their definition."""
    rng = np.random.default_rng(len(mapping) + sum(block))
    x = rng.standard_normal((6, 12)).astype(np.float32)
    cut = x.reshape(6 // block[0], block[0], 12 // block[1], block[1])
    low = np.minimum(cut.min((1, 3), keepdims=True), 0)
    high = np.maximum(cut.max((1, 3), keepdims=True), 0)
    zero = np.zeros_like(low)
    if mapping == "SYMMETRIC":
        scale = np.maximum(-low, high) / np.float32(7.5)
    elif mapping == "ASYMMETRIC":
        scale = (high - low) / np.float32(15)
        zero = np.clip(-8 - np.round(low / scale), -8, 7)
    else:
        scale = np.maximum(low / np.float32(-8), high / np.float32(7))
    held = np.clip(np.round(cut * (1 / scale)) + zero, -8, 7).astype(np.int8)
    back = (held.astype(np.float32) - zero) * scale
    arrays = [x, scale[:, 0, :, 0], zero[:, 0, :, 0].astype(np.int32), held.reshape(6, 12), back.reshape(6, 12)]
    i8, i32 = {"dtype": "int8"}, {"dtype": "int32"}
    refs: list[Any] = [{"tensor": i} for i in range(5)]
    chosen = [refs[0], mapping, block, i8, -8, 7, None, None, i32]
    for name, given, want in (
        ("choose_qparams_affine", chosen, refs[1:3]),
        ("quantize_affine", [refs[0], block, refs[1], refs[2], i8, -8, 7], refs[3]),
        ("dequantize_affine", [refs[3], block, refs[1], refs[2], i8, -8, 7], refs[4]),
    ):
        assert not difference((f"torchao.{name}.default", given, {}, want), arrays), name
