"""GGUF's kinds of one to three bits whose numbers stand in groups of four or eight, each group an entry of a codebook
(the I-quants). Layouts as in ggml's ``ggml-common.h``; the codebooks themselves lie in ``assets/gguf_codebooks.npz``.

Signs stand beside the entries: of eight numbers in a byte, or in seven bits, where the last sign makes the number of
minus signs even. Such numbers have 6 to 16 values: they take four bits in memory where processors look bytes up.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np

from MNN.llm.files.gguf.blocks import Array, Block, block, half

_PARTS = 8
"""Parts of 32 numbers that a block of 256 has."""


@functools.cache
def codebooks() -> Mapping[str, Array]:
    """int8 ``[entries, 4 or 8]`` by the names of kinds."""
    with (resources.files("MNN") / "assets" / "gguf_codebooks.npz").open("rb") as file:
        held = np.load(file, allow_pickle=False)
        return {name: held[name] for name in held.files}


def _times(d: Array, *factors: Array | np.float32) -> Array:
    """A block's scale times those of its parts, float32."""
    found: Array = d
    with np.errstate(all="ignore"):  # a file may hold any scale
        for factor in factors:
            found = np.asarray(found * factor)
    return found


def _plus_half(scales: Array) -> Array:
    return np.asarray(scales.astype(np.float32) + np.float32(0.5))


def _words(data: Array, kind: str) -> Any:
    return np.ascontiguousarray(data).view(kind)


def _nibbles(data: Array) -> Array:
    """The low and the high half of each byte, one after the other: uint8 ``[n, m]`` to ``[n, 2 m]``."""
    return np.stack([data & np.uint8(15), data >> np.uint8(4)], axis=-1).reshape(len(data), -1)


def _signed(values: Array, signs: Array) -> Array:
    """Entries ``[n, groups, 8]`` as int8 ``[n, 256]``, minus where bits of ``signs`` uint8 ``[n, groups]`` are set."""
    minus = np.unpackbits(signs[..., None], axis=-1, bitorder="little").astype(bool)
    return np.where(minus, -values, values).astype(np.int8).reshape(len(values), -1)


def _even(seven: Array) -> Array:
    """Seven signs with the eighth, uint8."""
    odd = seven ^ (seven >> 4)
    odd ^= odd >> 2
    return np.asarray(seven | ((odd ^ (odd >> 1)) & 1) << 7, np.uint8)


@block(16, "IQ2_XXS", 256, 66, bits=8)
def iq2_xxs(data: Array) -> Block:
    words = _words(data[:, 2:], "<u4").reshape(-1, _PARTS, 2)
    entries = _words(words[:, :, 0], "u1").reshape(len(data), -1)
    told = words[:, :, 1]
    signs = _even(told[:, :, None] >> np.arange(0, 28, 7, dtype=np.uint32) & np.uint32(127))
    scale = _times(half(data, 0), _plus_half(told >> np.uint32(28)), np.float32(0.25))
    return Block(_signed(codebooks()["IQ2_XXS"][entries], signs.reshape(len(data), -1)), scale)


@block(17, "IQ2_XS", 256, 74, bits=8)
def iq2_xs(data: Array) -> Block:
    words = _words(data[:, 2:66], "<u2")
    scale = _times(half(data, 0), _plus_half(_nibbles(data[:, 66:])), np.float32(0.25))
    return Block(_signed(codebooks()["IQ2_XS"][words & np.uint16(511)], _even(words >> np.uint16(9))), scale)


@block(22, "IQ2_S", 256, 82, bits=8)
def iq2_s(data: Array) -> Block:
    high = (data[:, 66:74, None] >> np.arange(0, 8, 2, dtype=np.uint8)) & np.uint8(3)
    entries = data[:, 2:34] | high.reshape(len(data), -1).astype(np.uint16) << np.uint16(8)
    scale = _times(half(data, 0), _plus_half(_nibbles(data[:, 74:])), np.float32(0.25))
    return Block(_signed(codebooks()["IQ2_S"][entries], data[:, 34:66]), scale)


@block(18, "IQ3_XXS", 256, 98, bits=8)
def iq3_xxs(data: Array) -> Block:
    told = _words(data[:, 66:], "<u4")
    signs = _even(told[:, :, None] >> np.arange(0, 28, 7, dtype=np.uint32) & np.uint32(127))
    scale = _times(half(data, 0), _plus_half(told >> np.uint32(28)), np.float32(0.5))
    values = codebooks()["IQ3_XXS"][data[:, 2:66]].reshape(len(data), -1, 8)
    return Block(_signed(values, signs.reshape(len(data), -1)), scale)


@block(21, "IQ3_S", 256, 110, bits=8)
def iq3_s(data: Array) -> Block:
    high = np.unpackbits(data[:, 66:74], axis=1, bitorder="little").astype(np.uint16)
    values = codebooks()["IQ3_S"][data[:, 2:66] | high << np.uint16(8)].reshape(len(data), -1, 8)
    scale = _times(half(data, 0), (1 + 2 * _nibbles(data[:, 106:])).astype(np.float32))
    return Block(_signed(values, data[:, 74:106]), scale)


def _shifted(entries: Array, minus: Array) -> Array:
    """Of a codebook of -1, 0 and 1, eight times the numbers, each an eighth less or more: int8 ``[n, 256]``."""
    values = 8 * codebooks()["IQ1"][entries] + np.where(minus, -1, 1).astype(np.int8)[..., None]
    return np.asarray(values, np.int8).reshape(len(entries), -1)


@block(19, "IQ1_S", 256, 50, bits=8)
def iq1_s(data: Array) -> Block:
    told = _words(data[:, 34:], "<u2")
    high = (told[:, :, None] >> np.arange(0, 12, 3, dtype=np.uint16)) & np.uint16(7)
    entries = data[:, 2:34] | high.reshape(len(data), -1) << np.uint16(8)
    scale = _times(half(data, 0), (2 * (told >> np.uint16(12) & 7) + 1).astype(np.float32), np.float32(0.125))
    return Block(_shifted(entries, np.repeat(told >> np.uint16(15), 4, axis=1)), scale)


@block(29, "IQ1_M", 256, 56, bits=8)
def iq1_m(data: Array) -> Block:
    told, nibbles = _words(data[:, 48:], "<u2"), _nibbles(data[:, 32:48])
    tops = (told >> np.uint16(12)) << np.arange(0, 16, 4, dtype=np.uint16)
    whole = np.bitwise_or.reduce(tops, axis=1).astype("<u2").view("u1").reshape(-1, 2)
    scales = (told[:, :, None] >> np.arange(0, 12, 3, dtype=np.uint16) & np.uint16(7)).reshape(len(data), -1)
    entries = data[:, :32] | (nibbles & np.uint8(7)).astype(np.uint16) << np.uint16(8)
    scale = _times(half(whole, 0), (2 * scales + 1).astype(np.float32), np.float32(0.125))
    return Block(_shifted(entries, nibbles >> np.uint8(3)), scale)
