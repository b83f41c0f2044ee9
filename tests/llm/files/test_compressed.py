"""compressed-tensors and FP8 checkpoints: written number by number from the formats' definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files import open_weights
from tests.llm.files.test_packed import folder, words

METHOD = "compressed-tensors"


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Rows of signed numbers as rows of words."""
    rows = [words([int(code) + (1 << (bits - 1)) for code in row], bits) for row in codes]
    return np.array(rows, np.uint32).view(np.int32)


def check(weight: Any, truth: np.ndarray, bits: int | None) -> None:
    """Floats, rows of them, and low-bit weights where there are some (``bits``)."""
    assert weight.shape == truth.shape
    np.testing.assert_allclose(weight.numpy(), truth, rtol=1e-5, atol=1e-6)
    chosen = np.array([5, 1, 5])
    np.testing.assert_array_equal(weight.rows(chosen), weight.numpy()[chosen])
    low = weight.quantized()
    if bits is None:
        assert low is None
        return
    assert low.bits == bits
    np.testing.assert_allclose(low.dequantize(), truth, rtol=1e-5, atol=1e-5)
    part = weight.take(chosen, (3, truth.shape[1])).quantized()
    np.testing.assert_array_equal(part.dequantize(), low.dequantize()[chosen])


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("bits", "group"), [(4, 32), (4, 128), (8, 32), (8, 128), (2, 32)])
def test_packed_integers(tmp_path: Path, bits: int, group: int, symmetric: bool) -> None:
    rng = np.random.default_rng([bits, group, symmetric])
    outputs, inputs, half = 24, 128, 1 << (bits - 1)
    codes = rng.integers(-half, half, (outputs, inputs))
    scale = rng.uniform(0.01, 0.1, (outputs, inputs // group)).astype(ml_dtypes.bfloat16)
    zero = rng.integers(-half, half, scale.shape)
    parts: dict[str, Any] = {
        "weight_packed": packed(codes, bits), "weight_scale": scale, "weight_shape": np.array([outputs, inputs]),
    }  # fmt: skip
    if symmetric:
        zero[:] = 0
    else:
        parts["weight_zero_point"] = np.ascontiguousarray(packed(zero.T, bits).T)
    tensors = {f"model.layers.0.mlp.up_proj.{name}": part for name, part in parts.items()}
    tensors["model.norm.weight"] = np.ones(8, np.float32)
    weights = open_weights(folder(tmp_path, tensors, quant_method=METHOD, format="pack-quantized"))
    assert set(weights) == {"model.layers.0.mlp.up_proj.weight", "model.norm.weight"}
    wide = np.repeat(scale.astype(np.float64), group, axis=1)
    check(
        weights["model.layers.0.mlp.up_proj.weight"], (codes - np.repeat(zero, group, axis=1)) * wide, bits
    )  # fmt: skip


def test_reordered_inputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    codes, scale = rng.integers(-8, 8, (8, 64)), rng.uniform(0.01, 0.1, (8, 2)).astype(np.float32)
    index = rng.permutation(np.arange(64) // 32).astype(np.int32)
    parts = {
        "weight_packed": packed(codes, 4),
        "weight_scale": scale,
        "weight_shape": np.array([8, 64]),
        "weight_g_idx": index,
    }
    weights = open_weights(
        folder(tmp_path, {f"a.{k}": v for k, v in parts.items()}, quant_method=METHOD, format="pack-quantized")
    )
    check(weights["a.weight"], codes * scale[:, index].astype(np.float64), None)
    parts["weight_g_idx"] = index + 1
    weights = open_weights(
        folder(tmp_path, {f"a.{k}": v for k, v in parts.items()}, quant_method=METHOD, format="pack-quantized")
    )
    with pytest.raises(FormatError, match="weight_g_idx"):
        weights["a.weight"].numpy()


@pytest.mark.parametrize("shape", [(1,), (24, 1), (24, 4)])
@pytest.mark.parametrize("kind", [np.int8, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_bytes_with_scales(tmp_path: Path, kind: Any, shape: tuple[int, ...]) -> None:
    """One scale, one for each row, or groups; what belongs to activations is left out."""
    rng = np.random.default_rng([shape[0], len(shape)])
    codes = rng.integers(-128, 128, (24, 64)).astype(kind)
    scale = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    tensors = {"a.weight": codes, "a.weight_scale": scale, "a.input_scale": np.ones(1, np.float32)}
    form = "int-quantized" if kind is np.int8 else "float-quantized"
    weights = open_weights(folder(tmp_path, tensors, quant_method=METHOD, format=form))
    assert set(weights) == {"a.weight"}
    wide = np.repeat(np.broadcast_to(scale.reshape(-1, shape[-1]), (24, shape[-1])), 64 // shape[-1], axis=1)
    check(weights["a.weight"], codes.astype(np.float64) * wide, 8 if kind is np.int8 else None)


@pytest.mark.parametrize(("outputs", "inputs"), [(256, 128), (200, 300), (6, 5)])
@pytest.mark.parametrize("block", [None, [32, 64]])
def test_blocks_of_scales(tmp_path: Path, outputs: int, inputs: int, block: list[int] | None) -> None:
    rng = np.random.default_rng([outputs, inputs])
    high, wide = block or (128, 128)
    codes = rng.normal(size=(outputs, inputs)).astype(ml_dtypes.float8_e4m3fn)
    scale = rng.uniform(0.01, 0.1, (-(-outputs // high), -(-inputs // wide))).astype(np.float32)
    truth = codes.astype(np.float64) * scale.repeat(high, 0).repeat(wide, 1)[:outputs, :inputs]
    more = {} if block is None else {"weight_block_size": block}
    tensors = {"a.weight": codes, "a.weight_scale_inv": scale}
    check(open_weights(folder(tmp_path, tensors, quant_method="fp8", **more))["a.weight"], truth, None)
    if block is not None:
        told = {"group_0": {"weights": {"strategy": "block", "block_structure": block}}}
        tensors = {"a.weight": codes, "a.weight_scale": scale}
        weights = open_weights(
            folder(tmp_path, tensors, quant_method=METHOD, format="float-quantized", config_groups=told)
        )
        check(weights["a.weight"], truth, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight_scale": None}, "has no scales"),
        ({"weight_scale": np.ones((8, 3), np.float32)}, "scales that do not fit"),
        ({"weight_shape": None}, "does not tell its shape"),
        ({"weight_shape": np.array([8, 40])}, "makes no matrix"),
        ({"weight_shape": np.array([-8, 64])}, "makes no matrix"),
        ({"weight_packed": np.zeros((8, 8), np.float32)}, "32-bit integers"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {
        "weight_packed": np.zeros((8, 8), np.int32), "weight_scale": np.ones((8, 2), np.float32),
        "weight_shape": np.array([8, 64]),
    }  # fmt: skip
    tensors = {f"a.{name}": part for name, part in (parts | change).items() if part is not None}
    with pytest.raises(FormatError, match=message):
        open_weights(folder(tmp_path, tensors, quant_method=METHOD, format="pack-quantized"))


def test_other_forms_are_told(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"form 'marlin-24'.*pack-quantized"):
        open_weights(
            folder(tmp_path, {"a.weight": np.ones((2, 2), np.float32)}, quant_method=METHOD, format="marlin-24")
        )
    with pytest.raises(UnsupportedError, match=r"'quanto'.*compressed-tensors"):
        open_weights(folder(tmp_path, {"a.weight": np.ones((2, 2), np.float32)}, quant_method="quanto"))
