"""GGUF's blocks of 256 numbers: groups of 16 or 32 whose scales are small integers themselves.

Layouts as in ggml's ``ggml-common.h``: the K kinds, IQ4_XS, and the ternary TQ kinds.
"""

from __future__ import annotations

import numpy as np

from MNN.llm.files.gguf.blocks import Array, Block, block, half
from MNN.llm.files.gguf.small_blocks import IQ4_VALUES, halves


def planes(data: Array, run: int, bits: int) -> Array:
    """Numbers of a few bits that lie in planes: of each ``run`` bytes all the lowest bits, then all the next.

    uint8 ``[n, m]`` to ``[n, m * 8 / bits]``.
    """
    n = len(data)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    spread: Array = (data.reshape(n, -1, 1, run) >> shifts) & np.uint8((1 << bits) - 1)
    return np.asarray(spread.reshape(n, -1))


def _scales(data: Array) -> tuple[Array, Array]:
    """Eight scales and eight minima of six bits in twelve bytes, uint8 ``[n, 8]`` each."""
    low, high, top = data[:, 0:4], data[:, 4:8], data[:, 8:12]
    two = np.uint8(48)
    scale = np.concatenate([low & np.uint8(63), (top & np.uint8(15)) | ((low >> np.uint8(2)) & two)], axis=1)
    minimum = np.concatenate([high & np.uint8(63), (top >> np.uint8(4)) | ((high >> np.uint8(2)) & two)], axis=1)
    return scale, minimum


def _with_minima(values: Array, d: Array, scale: Array, d_minimum: Array, minimum: Array) -> Block:
    with np.errstate(all="ignore"):  # a file may hold any scale
        return Block(values.view(np.int8), d * scale, -(d_minimum * minimum))


def _scaled(values: Array, d: Array, scale: Array) -> Block:
    with np.errstate(all="ignore"):
        return Block(values, d * scale.astype(np.float32))


@block(10, "Q2_K", 256, 84, bits=2)
def q2_k(data: Array) -> Block:
    scales = data[:, :16]
    values = planes(data[:, 16:80], 32, 2)
    return _with_minima(values, half(data, 80), scales & np.uint8(15), half(data, 82), scales >> np.uint8(4))


@block(11, "Q3_K", 256, 110, bits=3)
def q3_k(data: Array) -> Block:
    high = planes(data[:, :32], 32, 1)
    values = (planes(data[:, 32:96], 32, 2) | (high << np.uint8(2))).view(np.int8) - np.int8(4)
    scale = halves(data[:, 96:104]) | (planes(data[:, 104:108], 4, 2) << np.uint8(4))
    return _scaled(values, half(data, 108), scale.view(np.int8) - np.int8(32))


@block(12, "Q4_K", 256, 144, bits=4)
def q4_k(data: Array) -> Block:
    scale, minimum = _scales(data[:, 4:16])
    return _with_minima(planes(data[:, 16:], 32, 4), half(data, 0), scale, half(data, 2), minimum)


@block(13, "Q5_K", 256, 176, bits=5)
def q5_k(data: Array) -> Block:
    scale, minimum = _scales(data[:, 4:16])
    values = planes(data[:, 48:], 32, 4) | (planes(data[:, 16:48], 32, 1) << np.uint8(4))
    return _with_minima(values, half(data, 0), scale, half(data, 2), minimum)


@block(14, "Q6_K", 256, 210, bits=6)
def q6_k(data: Array) -> Block:
    codes = planes(data[:, :128], 64, 4) | (planes(data[:, 128:192], 32, 2) << np.uint8(4))
    return _scaled(codes.view(np.int8) - np.int8(32), half(data, 208), data[:, 192:208].view(np.int8))


@block(23, "IQ4_XS", 256, 136, bits=8)
def iq4_xs(data: Array) -> Block:
    low = (data[:, 4:8, None] >> np.array([0, 4], np.uint8)) & np.uint8(15)
    high = (data[:, 2:4, None] >> np.array([0, 2, 4, 6], np.uint8)) & np.uint8(3)
    scale = (low.reshape(-1, 8) | (high.reshape(-1, 8) << np.uint8(4))).view(np.int8) - np.int8(32)
    values = IQ4_VALUES[halves(data[:, 8:].reshape(-1, 8, 16)).reshape(-1, 256)]
    return _scaled(values, half(data, 0), scale)


@block(34, "TQ1_0", 256, 54, bits=2)
def tq1_0(data: Array) -> Block:
    """Five numbers of three values in a byte: the digits of a fraction of 256."""

    def digits(part: Array, run: int, places: int) -> Array:
        powers = np.array([1, 3, 9, 27, 81][:places], np.uint8)[:, None]
        moved = part.reshape(len(part), -1, 1, run) * powers  # in eight bits
        return np.asarray((moved.astype(np.uint16) * np.uint16(3)) >> np.uint16(8)).reshape(len(part), -1)

    parts = [digits(data[:, :32], 32, 5), digits(data[:, 32:48], 16, 5), digits(data[:, 48:52], 4, 4)]
    return Block(np.concatenate(parts, axis=1).astype(np.int8) - np.int8(1), half(data, 52))


@block(35, "TQ2_0", 256, 66, bits=2)
def tq2_0(data: Array) -> Block:
    scale = half(data, 64)  # the fourth value is not used by writers, but a file may have it
    return Block(planes(data[:, :64], 32, 2).view(np.int8), scale, -scale)
