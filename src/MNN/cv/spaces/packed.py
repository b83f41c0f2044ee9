"""Colours in words of 16 bits, and colours multiplied by their alpha; bytes all of them."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.cv.spaces.numbers import Number, where


def to_16(channels: Sequence[Number], _whole: bool, bits: int) -> list[Number]:
    """Blue, green and red (and alpha) as the two bytes of one word a pixel: 5, ``bits`` and 5 bits, blue lowest; a word
    of 15 bits has whether alpha is not 0 on top."""
    blue, green, red = channels[:3]
    word = (blue >> 3) | ((green >> (8 - bits)) << 5) | ((red >> 3) << (5 + bits))
    if bits == 5 and len(channels) == 4:
        word = word | where(channels[3].apply("eq", 0), word.of(0), 1 << 15)
    return [word & 255, word >> 8]


def from_16(channels: Sequence[Number], _whole: bool, bits: int) -> list[Number]:
    """The opposite of :func:`to_16`: blue, green, red and alpha, the bits that are not there 0."""
    low, high = channels
    word = low | (high << 8)
    alpha = low.of(255) if bits == 6 else where(high.apply("ge", 128), low.of(255), 0)
    colours = word << 3, (word >> 5) << (8 - bits), (word >> (5 + bits)) << 3
    return [*(colour & 255 for colour in colours), alpha]


def gray_of_16(channels: Sequence[Number], whole: bool, bits: int) -> list[Number]:
    """The luminance of such words, in the fixed point of :func:`MNN.cv.kernels.colors.gray`."""
    blue, green, red = from_16(channels, whole, bits)[:3]
    return [(blue * 3735 + green * 19235 + red * 9798 + (1 << 14)) >> 15]


def premultiplied(channels: Sequence[Number], _whole: bool) -> list[Number]:
    """Colours times alpha. Quotients are of whole numbers, and rounded down."""
    *colours, alpha = channels
    return [*((colour.fma(alpha, 128) / 255).apply("floor") for colour in colours), alpha]


def unmultiplied(channels: Sequence[Number], _whole: bool) -> list[Number]:
    """Colours that were multiplied by alpha, as they were; 0 where alpha is."""
    *colours, alpha = channels
    none = alpha.apply("eq", 0)
    safe, half = where(none, 1, alpha), (alpha * 0.5).apply("floor")
    return [*(where(none, 0, (colour.fma(255, half) / safe).apply("floor")) for colour in colours), alpha]


__all__ = ["from_16", "gray_of_16", "premultiplied", "to_16", "unmultiplied"]
