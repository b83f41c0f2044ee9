"""Compressed forms of convolution weights: fp16 and dense n-bit, as IDSTQuan tables."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.schema.bitpack import pack_bits
from MNN.schema.record import Record
from MNN.schema.weights import DENSE, HALF

Array = np.ndarray[Any, np.dtype[Any]]
_HALF_MAX = 65504.0


def encode_fp16(weight: Array) -> Record:
    """A weight of any shape as fp16 (type 3), clamped to the largest finite half; NaNs stay."""
    with np.errstate(invalid="ignore"):
        halves = np.clip(np.asarray(weight, np.float32), -_HALF_MAX, _HALF_MAX).astype("<f2").reshape(-1)
    return Record("IDSTQuan", type=HALF, buffer=halves.view(np.int8), quantScale=1.0)


def quantize_rows(rows: Array, bits: int, asymmetric: bool) -> tuple[Array, Array]:
    """Rounds each row of a float matrix [rows, cols] to ``bits``-bit integers.

    Returns int8 [rows, cols] and alpha float32: [rows] scales when symmetric (absmax / (2^(bits-1) - 1)), else
    [2 * rows] of (min, scale) pairs (scale = (max - min) / (2^bits - 1)).
    """
    _check_bits(bits)
    data = np.asarray(rows, np.float32)
    if not np.isfinite(data).all():
        raise MNNError("a weight with infinities or NaNs cannot be quantised")
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if asymmetric:
        least = data.min(axis=1, initial=np.inf) if data.shape[1] else np.zeros(len(data), np.float32)
        most = data.max(axis=1, initial=-np.inf) if data.shape[1] else least
        scale = ((most.astype(np.float64) - least) / (high - low)).astype(np.float32)
        return rounded(data, least, scale, bits), np.stack([least, scale], axis=1).reshape(-1).astype(np.float32)
    alpha = (np.abs(data).max(axis=1, initial=0.0).astype(np.float64) / high).astype(np.float32)
    return np.clip(_round(data / _nonzero(alpha)), low, high).astype(np.int8), alpha


def rounded(rows: Array, least: Array, scale: Array, bits: int) -> Array:
    """The int8 integers of a float matrix ``[rows, cols]``, the lowest of which stands for ``least`` ``[rows]``, in
    steps of ``scale`` ``[rows]``; numbers beyond the ends become these."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    levels = _round((rows - least[:, None].astype(np.float64)) / _nonzero(scale)) + low
    values: Array = np.clip(levels, low, high).astype(np.int8)
    return values


def _nonzero(scale: Array) -> Array:
    return np.where(scale > 0, scale, 1.0).astype(np.float64)[:, None]


def _round(values: Array) -> Array:
    rounded: Array = np.copysign(np.floor(np.abs(values) + 0.5), values)  # halves away from zero
    return rounded


def encode_dense(
    weight: Array, channels: int, bits: int, asymmetric: bool = False, blocks: int = 1, fp16_scales: bool = False
) -> Record:
    """A float weight in the file's order as dense ``bits``-bit numbers (type 1), ``blocks`` rows per output channel."""
    flat = np.asarray(weight, np.float32).reshape(-1)
    rows = channels * blocks
    if channels < 1 or blocks < 1 or flat.size % rows:
        raise MNNError(f"{flat.size} weights do not divide into {channels} channels of {blocks} blocks")
    values, alpha = quantize_rows(flat.reshape(rows, -1), bits, asymmetric)
    return encode_quantized(values, alpha, bits, asymmetric, fp16_scales)


def encode_quantized(
    values: Array, alpha: Array, bits: int, asymmetric: bool = False, fp16_scales: bool = False
) -> Record:
    """Integers [rows, cols] in -2^(bits-1) .. 2^(bits-1)-1 with their scales, as :func:`quantize_rows` gives them."""
    _check_bits(bits)
    rows, cols = values.shape
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if alpha.size != rows * (2 if asymmetric else 1):
        raise MNNError(
            f"{alpha.size} scales for {rows} rows ({'pairs of min and scale' if asymmetric else 'one each'})"
        )
    if values.size and not low <= int(values.min()) <= int(values.max()) <= high:
        raise MNNError(f"values {values.min()}..{values.max()} do not fit {bits} bits")
    wide = max(rows, cols) > 0xFFFF
    header = struct.pack("<BII" if wide else "<BHH", 2, rows, cols) + struct.pack("<B", (1 << bits) & 0xFF)
    table = np.arange(low, high + 1, dtype=np.int8)
    codes = (values.reshape(-1).astype(np.int16) - low).astype(np.uint8)
    buffer = np.concatenate([np.frombuffer(header, np.uint8), table.view(np.uint8), pack_bits(codes, bits)])
    quan = Record("IDSTQuan", type=DENSE, buffer=buffer.view(np.int8), aMaxOrBits=bits, quantScale=1.0, shapeInt32=wide)
    if asymmetric:
        quan.aMin = low
        quan.readType = rows
    if fp16_scales:
        with np.errstate(over="ignore"):
            quan.alphaFp16 = alpha.astype("<f2").view("<u2")
        quan.scaleStorage = "FP16"
    else:
        quan.alpha = alpha.astype(np.float32)
    return quan


def _check_bits(bits: int) -> None:
    if not 2 <= bits <= 8:
        raise MNNError(f"weights of {bits} bits; expected 2 to 8")
