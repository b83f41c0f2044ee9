"""Packing of 1- to 8-bit numbers, most significant bit first, with no padding between them."""

from __future__ import annotations

from typing import Any

import numpy as np

U8 = np.ndarray[Any, np.dtype[np.uint8]]
_GROUPS = 1 << 16  # groups of eight numbers that are handled at once


def packed_size(count: int, bits: int) -> int:
    """Bytes that ``count`` numbers of ``bits`` bits take."""
    return (count * bits + 7) // 8


def unpack_bits(data: U8, bits: int, count: int) -> U8:
    """The first ``count`` numbers of ``bits`` bits in ``data`` (bytes), as uint8."""
    if bits == 8:
        whole: U8 = data[:count].copy()
        return whole
    groups = -(-count // 8)
    out = np.empty((groups, 8), np.uint8)
    padded = np.zeros((groups, bits), np.uint8)
    padded.reshape(-1)[: packed_size(count, bits)] = data[: packed_size(count, bits)]
    mask = np.uint64((1 << bits) - 1)
    for start in range(0, groups, _GROUPS):
        part = padded[start : start + _GROUPS]
        word = np.zeros(len(part), np.uint64)  # eight numbers of b bits are b bytes
        for byte in range(bits):
            word = (word << np.uint64(8)) | part[:, byte]
        for i in range(8):
            out[start : start + _GROUPS, i] = (word >> np.uint64(bits * (7 - i))) & mask
    flat: U8 = out.reshape(-1)[:count]
    return flat


def pack_bits(values: U8, bits: int) -> U8:
    """The inverse of :func:`unpack_bits`; values must be below 2**bits."""
    if bits == 8:
        whole: U8 = values.copy()
        return whole
    groups = -(-values.size // 8)
    padded = np.zeros((groups, 8), np.uint8)
    padded.reshape(-1)[: values.size] = values
    out = np.empty((groups, bits), np.uint8)
    for start in range(0, groups, _GROUPS):
        part = padded[start : start + _GROUPS]
        word = np.zeros(len(part), np.uint64)
        for i in range(8):
            word = (word << np.uint64(bits)) | part[:, i]
        for byte in range(bits):
            out[start : start + _GROUPS, byte] = (word >> np.uint64(8 * (bits - 1 - byte))) & np.uint64(0xFF)
    flat: U8 = out.reshape(-1)[: packed_size(values.size, bits)]
    return flat
