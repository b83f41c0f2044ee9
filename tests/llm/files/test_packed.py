"""GPTQ and AWQ: checkpoints packed number by number from the formats' definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files import open_weights
from tests.llm.files.writing import safetensors


def words(numbers: list[int], bits: int) -> list[int]:
    """Numbers one after another in 32-bit words, the first in the lowest bits, across words where they do not fit."""
    whole = sum(number << (bits * i) for i, number in enumerate(numbers))
    count = -(-len(numbers) * bits // 32)
    return [whole >> (32 * i) & 0xFFFFFFFF for i in range(count)]


def packed(rng: np.random.Generator, method: str, bits: int, inputs: int, outputs: int, group: int) -> dict[str, Any]:
    """Codes, zero points and scales at random, and the parts of a checkpoint."""
    groups = 1 if group == -1 else inputs // group
    codes = rng.integers(0, 1 << bits, (inputs, outputs))
    zeros = rng.integers(0, 1 << bits, (groups, outputs))
    scales = rng.uniform(0.01, 0.1, (groups, outputs)).astype(np.float16)
    if method == "awq":
        order = [0, 2, 4, 6, 1, 3, 5, 7]  # the column whose number is the i-th of a word

        def rows(table: np.ndarray) -> np.ndarray:
            return np.array(
                [[words([int(row[j + k]) for k in order], 4)[0] for j in range(0, outputs, 8)] for row in table]
            )

        weight, zero = rows(codes), rows(zeros)
    else:
        weight = np.array([words([int(c) for c in codes[:, o]], bits) for o in range(outputs)]).T
        zero = np.array([words([(int(z) - 1) % (1 << bits) for z in row], bits) for row in zeros])
    parts = {"qweight": weight.astype(np.uint32).view(np.int32), "qzeros": zero.astype(np.uint32).view(np.int32)}
    return {"codes": codes, "zeros": zeros, "scales": scales, "parts": parts | {"scales": scales}}


def folder(path: Path, tensors: dict[str, np.ndarray], **quantization: Any) -> Path:
    (path / "model.safetensors").write_bytes(safetensors(tensors))
    (path / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": quantization}))
    return path


def expected(case: dict[str, Any], group_of: np.ndarray) -> np.ndarray:
    codes, zeros, scales = case["codes"], case["zeros"], case["scales"].astype(np.float64)
    return ((codes - zeros[group_of]) * scales[group_of]).T


@pytest.mark.parametrize(
    ("method", "bits", "group"),
    [
        ("gptq", 2, 32),
        ("gptq", 3, 32),
        ("gptq", 4, 32),
        ("gptq", 4, -1),
        ("gptq", 8, 64),
        ("awq", 4, 32),
        ("awq", 4, -1),
    ],
)
def test_packed_weights(tmp_path: Path, method: str, bits: int, group: int) -> None:
    rng = np.random.default_rng([bits, group + 1])
    inputs, outputs = 128, 32
    case = packed(rng, method, bits, inputs, outputs, group)
    tensors = {f"model.layers.0.mlp.up_proj.{name}": part for name, part in case["parts"].items()}
    tensors["model.layers.0.mlp.up_proj.bias"] = rng.standard_normal(outputs).astype(np.float32)
    weights = open_weights(folder(tmp_path, tensors, quant_method=method, bits=bits, group_size=group))
    assert set(weights) == {"model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.bias"}
    weight = weights["model.layers.0.mlp.up_proj.weight"]
    assert weight.shape == (outputs, inputs)
    truth = expected(case, np.arange(inputs) // (inputs if group == -1 else group))
    np.testing.assert_allclose(weight.numpy(), truth, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(weight.rows(np.array([5, 1])), weight.numpy()[[5, 1]])
    low = weight.quantized()
    assert low is not None
    assert (low.bits, low.width) == (bits, 4 if bits == 3 else bits)
    np.testing.assert_allclose(low.dequantize(), truth, rtol=1e-5, atol=1e-5)
    part = weight.take(np.array([7, 3]), (2, inputs)).quantized()
    assert part is not None
    np.testing.assert_array_equal(part.dequantize(), low.dequantize()[[7, 3]])


def test_zero_points_of_the_second_version(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    case = packed(rng, "gptq", 4, 64, 16, 32)
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"}
    weight = open_weights(folder(tmp_path, {f"a.{k}": v for k, v in case["parts"].items()}, **settings))["a.weight"]
    case["zeros"] = (case["zeros"] - 1) % 16  # what the words hold
    np.testing.assert_allclose(weight.numpy(), expected(case, np.arange(64) // 32), rtol=1e-5, atol=1e-6)


def test_symmetric_weights_have_no_offset(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    case = packed(rng, "gptq", 4, 64, 16, 32)
    case["parts"]["qzeros"] = np.full_like(case["parts"]["qzeros"], 0x77777777)
    case["zeros"][:] = 8
    tensors = {f"a.{k}": v for k, v in case["parts"].items()}
    low = open_weights(folder(tmp_path, tensors, quant_method="gptq", bits=4, group_size=32))["a.weight"].quantized()
    assert low is not None
    assert low.offset is None
    np.testing.assert_allclose(low.dequantize(), expected(case, np.arange(64) // 32), rtol=1e-5, atol=1e-6)


def test_reordered_inputs(tmp_path: Path) -> None:
    """Groups that are spread over the inputs (act-order): floats are right, and low-bit weights are not offered."""
    rng = np.random.default_rng(7)
    case = packed(rng, "gptq", 4, 64, 16, 32)
    index = rng.permutation(np.arange(64) // 32).astype(np.int32)
    tensors = {f"a.{k}": v for k, v in {**case["parts"], "g_idx": index}.items()}
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}
    weight = open_weights(folder(tmp_path, tensors, **settings))["a.weight"]
    np.testing.assert_allclose(weight.numpy(), expected(case, index), rtol=1e-5, atol=1e-6)
    assert weight.quantized() is None
    tensors["a.g_idx"] = np.arange(64, dtype=np.int32)
    with pytest.raises(FormatError, match="g_idx names groups"):
        open_weights(folder(tmp_path, tensors, **settings))["a.weight"].numpy()


def test_what_does_not_fit(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    parts = {f"a.{k}": v for k, v in packed(rng, "gptq", 4, 64, 16, 32)["parts"].items()}
    settings: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    for change, message in [
        ({"a.scales": parts["a.scales"][:1]}, "make no matrix"),
        ({"a.qweight": parts["a.qweight"].astype(np.float32)}, "not 32-bit integers"),
        ({"a.weight": np.zeros(3, np.float32)}, "both"),
    ]:
        with pytest.raises(FormatError, match=message):
            open_weights(folder(tmp_path, {**parts, **change}, **settings))
    with pytest.raises(FormatError, match="lacks one of"):
        open_weights(folder(tmp_path, {"a.qweight": parts["a.qweight"]}, **settings))
    for wrong, told in [
        ({"quant_method": "quanto"}, "'quanto' cannot be read"),
        ({"bits": 5}, "5 bits"),
        ({"group_size": 0}, "groups of 0"),
        ({"quant_method": "awq", "version": "marlin"}, "only gemm, gemv and gemv_fast"),
    ]:
        with pytest.raises(UnsupportedError, match=told):
            open_weights(folder(tmp_path, parts, **{**settings, **wrong}))
