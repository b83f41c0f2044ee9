"""Compressed weights: packing, both directions of each layout, malformed ones."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.schema import Record, read_net
from MNN.schema.bitpack import pack_bits, packed_size, unpack_bits
from MNN.schema.versions import all_ops
from MNN.schema.weight_encode import encode_dense, encode_fp16, encode_quantized
from MNN.schema.weights import decode_weight, read_parts
from tests.schema.samples import DATA


def _conv(quan: Record, channels: int = 8) -> Record:
    return Record("Convolution2D", quanParameter=quan, common=Record("Convolution2DCommon", outputCount=channels))


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000, 600_001])
def test_bits_are_packed_most_significant_first(bits: int, count: int) -> None:
    values = np.random.default_rng(bits).integers(0, 1 << bits, count).astype(np.uint8)
    packed = pack_bits(values, bits)
    assert packed.size == packed_size(count, bits)
    spread = np.unpackbits(values[:1000, None], axis=1)[:, 8 - bits :].reshape(-1)  # the plain meaning
    assert np.array_equal(
        np.packbits(spread)[: packed_size(min(count, 1000), bits) - 1], packed[: len(np.packbits(spread)) - 1]
    )
    assert np.array_equal(unpack_bits(packed, bits, count), values)


@pytest.mark.parametrize("fp16_scales", [False, True])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("bits", range(2, 9))
def test_dense_weights_err_by_half_a_step(bits: int, asymmetric: bool, blocks: int, fp16_scales: bool) -> None:
    weight = np.random.default_rng(bits).standard_normal((8, 6, 3, 3)).astype(np.float32)
    weight[3] = 0
    weight[4] = 1.5
    quan = encode_dense(weight, 8, bits, asymmetric, blocks, fp16_scales)
    decoded = decode_weight(_conv(quan), count=weight.size)
    assert (decoded.bits, decoded.blocks, decoded.is_float) == (bits, blocks, False)
    assert decoded.values.shape == (8 * blocks, 54 // blocks)
    rows = weight.reshape(8 * blocks, -1)
    span = rows.max(1) - rows.min(1) if asymmetric else 2 * np.abs(rows).max(1)
    step = span / ((1 << bits) - (1 if asymmetric else 2))
    error = np.abs(decoded.dequantize().reshape(rows.shape) - rows).max(1)
    slack = np.abs(rows).max(1) * (2.0**-9 if fp16_scales else 1e-6)
    assert np.all(error <= step / 2 + slack + 1e-7)
    if not fp16_scales:
        assert np.all(decoded.dequantize().reshape(weight.shape)[3] == 0)


def test_halves_are_exact_and_clamped() -> None:
    weight = np.array([[0.5, -2, 1e9], [-1e9, 65504, 2.0**-24]], np.float32)
    decoded = decode_weight(_conv(encode_fp16(weight)))
    assert decoded.bits == 16
    assert decoded.dequantize().tolist() == [0.5, -2, 65504, -65504, 65504, 2.0**-24]


def test_plain_weights_are_not_copied() -> None:
    weight = np.arange(6, dtype=np.float32)
    conv = Record("Convolution2D", weight=weight)
    assert np.shares_memory(decode_weight(conv).dequantize(), conv.weight)
    with pytest.raises(FormatError, match="needs 7"):
        decode_weight(conv, count=7)
    assert decode_weight(Record("Convolution2D")).size == 0


def test_raw_int8() -> None:
    values = np.arange(-6, 6, dtype=np.int8)
    symmetric = Record("IDSTQuan", type=4, buffer=values, alpha=[0.5, 2.0], quantScale=1.0, aMin=-128)
    assert decode_weight(_conv(symmetric, 2)).dequantize().tolist() == [*(values[:6] * 0.5), *(values[6:] * 2.0)]
    first = Record("IDSTQuan", type=4, buffer=values, alpha=[-1.0, 0.5, 0.0, 2.0])  # min and scale, low end -128
    expected = [*((values[:6] + 128.0) * 0.5 - 1), *((values[6:] + 128.0) * 2.0)]
    assert decode_weight(_conv(first, 2)).dequantize().tolist() == expected


def test_a_table_need_not_be_linear_nor_sorted() -> None:
    codes = pack_bits(np.array([0, 1, 2, 2, 1, 0], np.uint8), 2)
    buffer = struct.pack("<BHHB", 2, 2, 3, 3) + np.array([7, -5, 1], np.int8).tobytes() + codes.tobytes()
    quan = Record("IDSTQuan", type=1, buffer=buffer, alpha=[1.0, 10.0], quantScale=2.0)
    assert decode_weight(_conv(quan, 2)).dequantize().tolist() == [-10, 2, 14, 140, 20, -100]
    quan.has_scaleInt = True  # then the factor belongs to the operator
    assert decode_weight(_conv(quan, 2)).dequantize().tolist() == [-5, 1, 7, 70, 10, -50]


def test_weights_of_int8_graphs_have_no_scales_of_their_own() -> None:
    quan = encode_quantized(np.arange(8, dtype=np.int8).reshape(2, 4), np.ones(2, np.float32), 8)
    quan.alpha = [1.0]
    conv = _conv(quan, 2)
    conv.symmetricQuan = Record("QuantizedFloatParam", scale=[1.0, 2.0])
    decoded = decode_weight(conv)
    assert decoded.values.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(MNNError, match="no scales"):
        decoded.dequantize()


def test_large_matrices_use_wide_shapes() -> None:
    values = np.zeros((70000, 2), np.int8)
    quan = encode_quantized(values, np.ones(70000, np.float32), 4)
    assert quan.shapeInt32
    assert decode_weight(_conv(quan, 70000)).values.shape == (70000, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: encode_dense(np.ones(10), 3, 8),
        lambda: encode_dense(np.ones(9), 3, 9),
        lambda: encode_dense(np.ones(9), 3, 1),
        lambda: encode_dense(np.array([1, np.nan]), 1, 8),
        lambda: encode_quantized(np.full((1, 2), 8, np.int8), np.ones(1, np.float32), 4),
        lambda: encode_quantized(np.zeros((2, 2), np.int8), np.ones(3, np.float32), 4),
    ],
)
def test_what_cannot_be_encoded_is_refused(call: Any) -> None:
    with pytest.raises(MNNError):
        call()


def _official(name: str) -> list[Record]:
    ops = all_ops(read_net(DATA / name))
    return [op.main for op in ops if op.main is not None and op.main.table_name == "Convolution2D"]


def test_official_weights_are_near_the_float_ones() -> None:
    plain, quantised = _official("convnet.f32.mnn"), _official("convnet.w4h.mnn")
    assert [decode_weight(conv).blocks for conv in quantised] == [1, 1, 1, 2]
    for a, b in zip(plain, quantised, strict=True):
        exact = decode_weight(a).dequantize()
        error = np.abs(decode_weight(b, count=exact.size).dequantize() - exact).max()
        assert 0 < error <= (exact.max() - exact.min()) / 15 / 2 * 1.001


def test_the_same_numbers_are_packed_as_by_the_official_converter() -> None:
    for conv in [*_official("convnet.w4h.mnn"), *_official("misc.w3.mnn"), *_official("attn.w8.mnn")]:
        quan = conv.quanParameter
        decoded = decode_weight(conv)
        asymmetric = decoded.offset is not None
        assert encode_quantized(decoded.values, quan.alpha, decoded.bits, asymmetric) == quan


def test_sparse_weights() -> None:
    for conv, shape in zip(_official("sparse.s4.mnn"), [(64, 288), (64, 64)], strict=True):
        decoded = decode_weight(conv)
        assert conv.quanParameter.type == 2
        assert decoded.values.shape == shape
        weight = decoded.dequantize().reshape(shape)
        zero = np.median(decoded.values, axis=1)[:, None]
        assert 0.85 < (decoded.values == zero).mean() < 0.95
        assert np.abs(weight[decoded.values == zero]).max() < 0.1 * np.abs(weight).max()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"type": 1}, "needs"),
        ({"type": 1, "buffer": bytes([5])}, "dimensions"),
        ({"type": 1, "buffer": struct.pack("<BHH", 2, 65535, 65535) + bytes([2, 0, 1])}, "needs"),
        ({"type": 1, "shapeInt32": True, "buffer": struct.pack("<BIIII", 4, *[0xFFFFFFFF] * 4) + bytes(300)}, "needs"),
        ({"type": 1, "buffer": struct.pack("<BHH", 2, 2, 2) + bytes([3, 0, 1, 2, 0xFF])}, "index 3"),
        ({"type": 1, "buffer": struct.pack("<BHH", 2, 2, 2) + bytes([2, 0, 1, 0]), "alpha": [1.0] * 3}, "divide"),
        ({"type": 1, "buffer": struct.pack("<BHH", 2, 2, 2) + bytes([2, 0, 1, 0])}, "divide"),
        (
            {"type": 1, "readType": 2, "buffer": struct.pack("<BHH", 2, 2, 2) + bytes([2, 0, 1, 0]), "alpha": [1.0]},
            "pairs",
        ),
        ({"type": 2, "buffer": struct.pack("<BHHIB", 2, 65535, 65535, 3, 8) + bytes(9)}, "span"),
        ({"type": 2, "buffer": struct.pack("<BHHIB", 2, 2, 2, 0xFFFFFFFF, 8) + bytes(9)}, "needs"),
        ({"type": 2, "buffer": struct.pack("<BHHIB", 2, 2, 2, 1, 9) + bytes(9)}, "steps of 9"),
        ({"type": 2, "buffer": struct.pack("<BHHIB", 2, 2, 2, 1, 8) + bytes([200, 2, 0, 1, 0])}, "non-zero at 200"),
        ({"type": 3, "buffer": bytes(3)}, "fp16"),
        ({"type": 7}, "unknown type"),
        ({"index": [1], "alpha": [1.0], "weightSize": 0xFFFFFFFF}, "credible"),
        ({"index": [9], "alpha": [1.0], "weightSize": 9}, "position 9"),
        ({"index": [1, 2], "alpha": [1.0], "weightSize": 9}, "positions"),
    ],
)
def test_malformed_weights_are_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        decode_weight(_conv(Record("IDSTQuan", **fields), 2))


@pytest.mark.parametrize("name", ["convnet.w4h.mnn", "sparse.s4.mnn"])
def test_mutated_weights_decode_or_are_refused(name: str) -> None:
    rng = np.random.default_rng(0)
    refused = 0
    for conv in _official(name):
        quan = conv.quanParameter.copy()
        original = np.array(quan.buffer)
        for _ in range(300):
            changed = original.copy()
            changed[int(rng.integers(min(len(changed), 40)))] = rng.integers(-128, 128)
            quan.buffer = changed if rng.random() < 0.8 else changed[: int(rng.integers(len(changed)))]
            try:
                decode_weight(_conv(quan, conv.common.outputCount))
            except FormatError:
                refused += 1
    assert refused > 50


def test_parts_of_other_tables_need_their_file() -> None:
    with pytest.raises(FormatError, match="no external"):
        read_parts(Record("LayerNorm"), ["<f4", "<f4"], None)
    with pytest.raises(MNNError, match="memory"):
        read_parts(Record("LayerNorm", external=[0, 4, 4]), ["<f4", "<f4"], None)
