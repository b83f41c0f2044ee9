"""GGUF's simple blocks: 32 numbers with one scale, perhaps a minimum. Layouts as in ggml's ``ggml-common.h``."""

from __future__ import annotations

import numpy as np

from MNN.llm.files.gguf.blocks import Array, Block, block, half

IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)
"""The sixteen levels of IQ4_NL and IQ4_XS."""
FP4_VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
"""The numbers of a 4-bit float (two bits exponent, one mantissa), doubled."""


def halves(data: Array) -> Array:
    """The low four bits of all bytes, then the high ones: uint8 ``[..., n]`` to ``[..., 2 n]``."""
    return np.concatenate([data & np.uint8(15), data >> np.uint8(4)], axis=-1)


def _fifth(data: Array) -> Array:
    """32 bits as the fifth bits of 32 numbers: uint8 ``[n, 4]`` to ``[n, 32]`` of 0 and 16."""
    bits: Array = np.unpackbits(data, axis=1, bitorder="little") << np.uint8(4)
    return bits


@block(2, "Q4_0", 32, 18, bits=4)
def q4_0(data: Array) -> Block:
    return Block(halves(data[:, 2:]).view(np.int8) - np.int8(8), half(data, 0))


@block(3, "Q4_1", 32, 20, bits=4)
def q4_1(data: Array) -> Block:
    return Block(halves(data[:, 4:]).view(np.int8), half(data, 0), half(data, 2))


@block(6, "Q5_0", 32, 22, bits=5)
def q5_0(data: Array) -> Block:
    codes = halves(data[:, 6:]) | _fifth(data[:, 2:6])
    return Block(codes.view(np.int8) - np.int8(16), half(data, 0))


@block(7, "Q5_1", 32, 24, bits=5)
def q5_1(data: Array) -> Block:
    return Block((halves(data[:, 8:]) | _fifth(data[:, 4:8])).view(np.int8), half(data, 0), half(data, 2))


@block(8, "Q8_0", 32, 34, bits=8)
def q8_0(data: Array) -> Block:
    return Block(data[:, 2:].view(np.int8), half(data, 0))


@block(20, "IQ4_NL", 32, 18, bits=8)
def iq4_nl(data: Array) -> Block:
    return Block(IQ4_VALUES[halves(data[:, 2:])], half(data, 0))


@block(39, "MXFP4", 32, 17, bits=8)
def mxfp4(data: Array) -> Block:
    """OCP Microscaling Formats (MX) 1.0: a scale of eight exponent bits."""
    exponent = data[:, :1].astype(np.int32) - 128  # the levels are doubled
    return Block(FP4_VALUES[halves(data[:, 1:])], np.ldexp(np.float32(1), exponent).astype(np.float32))


@block(40, "NVFP4", 64, 36, bits=8)
def nvfp4(data: Array) -> Block:
    """NVIDIA's: each 16 numbers have a scale of four exponent bits and three of mantissa, without a sign."""
    told = data[:, :4]
    exponent, mantissa = (told >> np.uint8(3) & np.uint8(15)).astype(np.int32), told & np.uint8(7)
    number = np.where(exponent > 0, mantissa + np.uint8(8), mantissa).astype(np.float32)
    scale = np.ldexp(number, np.maximum(exponent, 1) - 11)  # the levels are doubled
    scale[told == 127] = 0
    return Block(FP4_VALUES[halves(data[:, 4:].reshape(-1, 4, 8)).reshape(-1, 64)], scale.astype(np.float32))


@block(41, "Q1_0", 128, 18, bits=2)
def q1_0(data: Array) -> Block:
    """A bit a number, of its sign."""
    bits = np.unpackbits(data[:, 2:], axis=1, bitorder="little").view(np.int8)
    return Block(2 * bits - np.int8(1), half(data, 0))


@block(42, "Q2_0", 64, 18, bits=2)
def q2_0(data: Array) -> Block:
    """From -1 to 2, four numbers in a byte."""
    codes = (data[:, 2:, None] >> np.arange(0, 8, 2, dtype=np.uint8)) & np.uint8(3)
    scale = half(data, 0)
    return Block(codes.reshape(len(data), -1).view(np.int8), scale, -scale)
