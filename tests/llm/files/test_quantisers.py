"""Checkpoints of bitsandbytes, HQQ, torchao, AWQ along rows, NVFP4 and MXFP4: written number by number from the
formats' definitions. (What bitsandbytes 0.50, hqq 0.2.8, torchao 0.18, autoawq 0.2.9 and compressed-tensors 0.20 wrote
of a random model was read as these libraries read it, bit for bit, but for LLM.int8's last bit.)"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.llm.files import open_weights
from tests.llm.files.test_packed import words
from tests.llm.files.writing import safetensors

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
Tensors = dict[str, np.ndarray]


def folder(path: Path, tensors: Tensors, notes: dict[str, str] | None = None, **how: Any) -> Path:
    data = safetensors({**tensors, "model.norm.weight": np.ones(8, np.float32)})
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"] |= notes or {}
    head = json.dumps(header).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data[8 + size :])
    (path / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": how}))
    return path


def check(path: Path, wanted: np.ndarray, bits: int | None, tolerance: float = 0.0) -> None:
    """Floats, rows of them, and low-bit weights where there are some (``bits``); nothing else is left over."""
    weights = open_weights(path)
    assert set(weights) == {"a.weight", "model.norm.weight"}
    weight = weights["a.weight"]
    assert weight.shape == wanted.shape
    scale = np.abs(wanted).max()
    assert np.abs(weight.numpy() - wanted).max() <= tolerance * scale
    chosen = np.array([5, 1, 5])
    np.testing.assert_array_equal(weight.rows(chosen), weight.numpy()[chosen])
    low = weight.quantized()
    if bits is None:
        assert low is None
        return
    assert low is not None
    assert low.bits == bits
    assert np.abs(low.dequantize() - wanted).max() <= 1e-6 * scale
    part = weight.take(chosen, (3, wanted.shape[1])).quantized()
    assert part is not None
    np.testing.assert_array_equal(part.dequantize(), low.dequantize()[chosen])


def pairs(codes: np.ndarray, high_first: bool = False) -> np.ndarray:
    """Numbers of four bits, two in a byte."""
    flat = codes.reshape(*codes.shape[:-1], -1, 2).astype(np.uint8)
    first, second = (flat[..., 1], flat[..., 0]) if high_first else (flat[..., 0], flat[..., 1])
    return first | second << np.uint8(4)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("outputs", "inputs", "block"), [(24, 64, 64), (12, 96, 64), (7, 30, 16), (16, 128, 256)])
def test_levels(tmp_path: Path, outputs: int, inputs: int, block: int, nested: bool) -> None:
    """NF4 and FP4: blocks go on from row to row."""
    rng = np.random.default_rng([outputs, inputs, block, nested])
    total, table = outputs * inputs, np.sort(rng.uniform(-1, 1, 16)).astype(np.float32)
    codes, count = rng.integers(0, 16, total), -(-total // block)
    state: dict[str, Any] = {"quant_type": "nf4", "blocksize": block, "dtype": "float32", "shape": [outputs, inputs]}
    parts: Tensors = {"weight": pairs(codes, True)[:, None], "weight.quant_map": table}
    scale = rng.uniform(0.01, 0.1, count).astype(np.float32)
    if nested:
        levels, of_levels = rng.uniform(-1, 1, 256).astype(np.float32), rng.uniform(0.1, 0.2, -(-count // 8))
        of_levels, held = of_levels.astype(np.float32), rng.integers(0, 256, count).astype(np.uint8)
        parts |= {"weight.absmax": held, "weight.nested_absmax": of_levels, "weight.nested_quant_map": levels}
        state |= {"nested_blocksize": 8, "nested_offset": 0.25, "nested_dtype": "float32"}
        scale = levels[held] * of_levels[np.arange(count) // 8] + np.float32(0.25)
    else:
        parts["weight.absmax"] = scale
    told = np.frombuffer(json.dumps(state).encode(), np.uint8)
    parts["weight.quant_state.bitsandbytes__nf4"] = told
    wanted = (table[codes] * scale[np.arange(total) // block]).reshape(outputs, inputs)
    check(folder(tmp_path, {f"a.{k}": v for k, v in parts.items()}, quant_method="bitsandbytes"), wanted, None)


def test_bytes_of_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    codes, scale = rng.integers(-127, 128, (24, 40)).astype(np.int8), rng.uniform(0.1, 2, 24).astype(np.float32)
    parts = {"a.weight": codes, "a.SCB": scale, "a.weight_format": np.array(0, np.uint8)}
    check(folder(tmp_path, parts, quant_method="bitsandbytes"), codes * (scale / np.float32(127))[:, None], 8)


def test_bytes_in_the_order_of_a_gpu(tmp_path: Path) -> None:
    parts = {"a.weight": np.zeros((32, 32), np.int8), "a.SCB": np.ones(32, np.float32)}
    folder(tmp_path, parts | {"a.weight_format": np.array(2, np.uint8)}, quant_method="bitsandbytes")
    with pytest.raises(MNNError, match="laid out for one kind of GPU"):
        open_weights(tmp_path)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("bits", "group"), [(8, 64), (4, 32), (3, 16), (2, 64), (1, 32), (4, 96)])
def test_half_quadratic(tmp_path: Path, bits: int, group: int, axis: int) -> None:
    rng = np.random.default_rng([bits, group, axis])
    outputs, inputs = 24, 64
    high, wide = (outputs * inputs // group, group) if axis else (group, outputs * inputs // group)
    codes = rng.integers(0, 1 << bits, (high, wide))
    sizes = (high, 1) if axis else (1, wide)
    scale, zero = rng.uniform(0.01, 0.1, sizes).astype(np.float32), rng.uniform(0, 1 << bits, sizes).astype(np.float32)
    each = {8: 1, 4: 2, 3: 10, 2: 4, 1: 8}[bits]
    steps = -(-high // each)
    padded = np.zeros((steps * each, wide), np.uint64)
    padded[:high] = codes
    held = np.zeros((steps, wide), np.uint64)
    for i in range(each):  # the first part of the rows in the upper bits
        held |= padded[i * steps : (i + 1) * steps] << np.uint64(bits * (each - 1 - i))
    packing = "3bit_32" if bits == 3 else f"{bits}bit_u8"
    parts: Tensors = {
        "W_q": held.astype(np.int32 if bits == 3 else np.uint8), "scale": scale, "zero": zero,
        "shape": np.array([outputs, inputs]), "axis": np.array(axis, np.int32),
        "group_size": np.array(group, np.int32), "packing": np.frombuffer(packing.encode(), np.uint8),
        "nbits": np.array(bits, np.int32), "quant_scale": np.array(0, np.uint8), "optimize": np.array(1, np.uint8),
    }  # fmt: skip
    wanted = ((codes.astype(np.float32) - zero) * scale).reshape(outputs, inputs)
    whole = axis == 1 and inputs % group == 0
    path = folder(tmp_path, {f"a.{k}": v for k, v in parts.items()}, quant_method="hqq")
    check(path, wanted, bits if whole else None)


def _note(kind: str, **data: Any) -> dict[str, str]:
    return {"a.weight": json.dumps({"_type": kind, "_data": data, "_tensor_data_names": []}), "tensor_names": "[]"}


@pytest.mark.parametrize(("bits", "sizes"), [(8, (24, 1)), (8, (24, 4)), (4, (24, 2)), (3, (12, 4)), (2, (1, 1))])
def test_torchao_bytes(tmp_path: Path, bits: int, sizes: tuple[int, int]) -> None:
    rng, half = np.random.default_rng([bits, *sizes]), 1 << (bits - 1)
    codes = rng.integers(-half, half, (24, 64)).astype(np.int8)
    scale, zero = rng.uniform(0.01, 0.1, sizes).astype(np.float32), rng.integers(-half, half, sizes).astype(np.int8)
    spread = [part.repeat(24 // sizes[0], 0).repeat(64 // sizes[1], 1).astype(np.float32) for part in (zero, scale)]
    parts = {"a._weight_qdata": codes, "a._weight_scale": scale, "a._weight_zero_point": zero}
    note = _note("IntxUnpackedToInt8Tensor", target_dtype={"_type": "torch.dtype", "_data": f"int{bits}"})
    check(folder(tmp_path, parts, note, quant_method="torchao"), (codes - spread[0]) * spread[1], bits)


def test_torchao_others(tmp_path: Path) -> None:
    """Two integers in a byte, whose groups lie across; and floats of 8 bits."""
    rng = np.random.default_rng(5)
    codes = rng.integers(-8, 8, (24, 64))
    scale, zero = (rng.uniform(0.01, 0.1, (2, 24)).astype(ml_dtypes.bfloat16) for _ in range(2))
    parts = {"a._weight_qdata": pairs(codes & 15).view(np.int8), "a._weight_scale": scale, "a._weight_zero_point": zero}
    wide = [part.astype(np.float32).T.repeat(32, 1) for part in (scale, zero)]
    check(folder(tmp_path, parts, _note("Int4Tensor"), quant_method="torchao"), codes * wide[0] + wide[1], 4, 1e-7)
    held = rng.normal(size=(24, 64)).astype(ml_dtypes.float8_e4m3fn)
    size = rng.uniform(0.01, 0.1, (24, 1)).astype(np.float32)
    parts = {"a._weight_qdata": held, "a._weight_scale": size}
    note = _note("Float8Tensor", block_size=[1, 64])
    check(folder(tmp_path, parts, note, quant_method="torchao"), held.astype(np.float32) * size, None)


@pytest.mark.parametrize("group", [32, 64, 128, -1])
def test_awq_along_rows(tmp_path: Path, group: int) -> None:
    rng = np.random.default_rng(group + 1)
    outputs, inputs = 16, 128
    size = inputs if group == -1 else group
    codes, zero = rng.integers(0, 16, (outputs, inputs)), np.zeros((outputs, 8), np.int64)
    zero[:, : inputs // size] = rng.integers(0, 16, (outputs, inputs // size))
    scale = rng.uniform(0.01, 0.1, (outputs, 8)).astype(np.float16)
    rows = [
        np.array([words(list(map(int, row)), 4) for row in table], np.uint32).view(np.int32) for table in (codes, zero)
    ]
    wide = [part.astype(np.float32)[:, : inputs // size].repeat(size, 1) for part in (zero, scale)]
    how = {"quant_method": "awq", "bits": 4, "group_size": group}
    parts = {"a.qweight": rows[0], "a.qzeros": rows[1], "a.scales": scale}
    check(folder(tmp_path, parts, **how, version="gemv"), (codes - wide[0]) * wide[1], 4)
    # the fast one: number n of row r lies in bits 4 (r % 4) of a word
    place = np.zeros((outputs // 4, inputs), np.int64)
    for row in range(outputs):
        for n in range(inputs):
            inner = n % 32
            moved = inner // 2 % 4 * 8 + inner // 8 * 2 + inner % 2  # pairs of the four eighths side by side
            moved = moved // 8 * 8 + moved % 8 // 2 + moved % 2 * 4  # of eight, those at even places first
            flat = row % 4 * 64 + n % 64 // 32 * 32 + moved  # 64 of each of four rows follow each other
            place[row // 4, n // 64 * 64 + flat // 4] |= int(codes[row, n]) << (4 * (flat % 4))
    added = -(zero.astype(np.float32) * scale.astype(np.float32)).astype(np.float16)
    parts = {
        "a.qweight": place.astype(np.uint16).view(np.int16),
        "a.qzeros": added.T.copy(),
        "a.scales": scale.T.copy(),
    }
    offset = added.astype(np.float32)[:, : inputs // size].repeat(size, 1)
    check(folder(tmp_path, parts, **how, version="gemv_fast"), codes * wide[1] + offset, 4, 1e-7)


@pytest.mark.parametrize("writer", ["nvfp4", "mxfp4", "optimizer"])
def test_floats_of_four_bits(tmp_path: Path, writer: str) -> None:
    rng = np.random.default_rng(len(writer))
    codes, size = rng.integers(0, 16, (24, 64)), 32 if writer == "mxfp4" else 16
    whole = np.array([rng.uniform(1, 9)], np.float32)
    if writer == "mxfp4":
        held = rng.integers(110, 130, (24, 64 // size)).astype(np.uint8)
        scale = np.exp2(held.astype(np.float32) - 127)
        parts = {"a.weight_packed": pairs(codes), "a.weight_scale": held}
    else:
        held = rng.uniform(1, 400, (24, 64 // size)).astype(ml_dtypes.float8_e4m3fn)
        scale = held.astype(np.float32) / whole if writer == "nvfp4" else held.astype(np.float32) * whole
        parts = {"a.weight_packed" if writer == "nvfp4" else "a.weight": pairs(codes), "a.weight_scale": held}
        parts |= {"a.weight_global_scale": whole} if writer == "nvfp4" else {"a.weight_scale_2": whole.reshape(())}
        parts["a.input_scale"] = whole
    how = {"quant_method": "compressed-tensors", "format": f"{writer}-pack-quantized"}
    if writer == "optimizer":
        how = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    check(folder(tmp_path, parts, **how), E2M1[codes] * scale.repeat(size, 1), 8)


_BYTES, _WORDS = np.zeros((8, 32), np.uint8), np.zeros((8, 8), np.int32)


@pytest.mark.parametrize(
    ("tensors", "how", "message"),
    [
        ({"a.weight": _BYTES}, {"quant_method": "bitsandbytes"}, "has bytes, and nothing beside it"),
        ({"a.weight": _BYTES, "a.weight.quant_state.bitsandbytes__nf4": _BYTES}, {"quant_method": "bitsandbytes"},
         "lacks the tensor 'a.weight.absmax'"),
        ({"a.weight": _BYTES.view(np.int8), "a.SCB": np.ones(3, np.float32)}, {"quant_method": "bitsandbytes"},
         "scales that do not fit its rows"),
        ({"a.W_q": _BYTES}, {"quant_method": "hqq"}, "lacks the tensor 'a.scale'"),
        ({"a._weight_qdata": _BYTES}, {"quant_method": "torchao"}, "does not say how 'a.weight' is quantised"),
        ({"a.qweight": _WORDS}, {"quant_method": "awq", "version": "gemv", "group_size": 32}, "lacks one of qweight"),
        ({"a.weight": _BYTES}, {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "Model Optimizer's 'W4A8_AWQ'"),
        ({"a.weight_packed": _BYTES}, {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
         "has no scales"),
    ],
)  # fmt: skip
def test_what_does_not_fit(tmp_path: Path, tensors: Tensors, how: dict[str, Any], message: str) -> None:
    with pytest.raises(MNNError, match=message):
        open_weights(folder(tmp_path, tensors, **how))


def test_kinds_for_one_processor(tmp_path: Path) -> None:
    note = _note("Int4TilePackedTo4dTensor")
    with pytest.raises(
        MNNError, match=r"'a.weight' is quantised as torchao's 'Int4TilePackedTo4dTensor', which cannot"
    ):
        open_weights(folder(tmp_path, {"a._weight_qdata": _BYTES}, note, quant_method="torchao"))


def test_random_damage(tmp_path: Path) -> None:
    """Whatever a state says, there is one error, or numbers."""
    rng, told = np.random.default_rng(7), {"blocksize": 64, "shape": [8, 64], "quant_type": "nf4"}
    parts = {
        "a.weight": _BYTES.reshape(-1, 1), "a.weight.absmax": np.ones(8, np.float32),
        "a.weight.quant_map": np.linspace(-1, 1, 16, dtype=np.float32),
    }  # fmt: skip
    refused = 0
    for _ in range(60):
        data = bytearray(json.dumps(told).encode())
        for place in rng.integers(0, len(data), 2):
            data[place] = int(rng.integers(32, 127))
        state = {"a.weight.quant_state.bitsandbytes__nf4": np.frombuffer(bytes(data), np.uint8)}
        try:
            assert (
                open_weights(folder(tmp_path, parts | state, quant_method="bitsandbytes"))["a.weight"].numpy().size
                == 512
            )
        except FormatError:
            refused += 1
    assert 0 < refused < 60
