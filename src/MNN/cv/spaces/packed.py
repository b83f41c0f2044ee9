"""Pixels of two bytes, chroma shared by neighbours, and colours multiplied by their alpha; uint8 all of them."""

from __future__ import annotations

import numpy as np

from MNN.cv._array import Array
from MNN.errors import ShapeError

_SHIFT = 20
_TO_YUV = np.array([[269484, 528482, 102760], [-155188, -305135, 460324], [460324, -385875, -74448]])
"""Red, green and blue to Y, U and V, in fixed point: ITU-R BT.601 with Y from 16 to 235."""


def bytes_of(image: Array, what: str) -> Array:
    """The picture itself. Raises :class:`ShapeError` unless it is uint8."""
    if image.dtype != np.uint8:
        raise ShapeError(f"{what} is uint8; src is {image.dtype}")
    return image


def to_16(image: Array, bits: int) -> Array:
    """Blue, green and red (and alpha) as one little-endian word a pixel: 5, ``bits`` and 5 bits, blue lowest; a word of
    15 bits has whether alpha is not 0 on top. Gives shape (h, w, 2)."""
    blue, green, red = (bytes_of(image, "what becomes words of 16 bits")[:, :, i].astype(np.uint16) for i in range(3))
    words = (blue >> 3) | ((green >> (8 - bits)) << 5) | ((red >> 3) << (5 + bits))
    if bits == 5 and image.shape[2] == 4:
        words |= np.where(image[:, :, 3] != 0, np.uint16(1 << 15), np.uint16(0))
    return np.stack([words & 255, words >> 8], 2).astype(np.uint8)


def from_16(image: Array, bits: int) -> Array:
    """The opposite of :func:`to_16`: blue, green, red and alpha, the bits that are not there 0."""
    low, high = (bytes_of(image, "a picture of words of 16 bits")[:, :, i].astype(np.uint16) for i in range(2))
    words = low | (high << 8)
    alpha = np.full_like(words, 255) if bits == 6 else np.where(words >> 15, 255, 0)
    channels = words << 3, (words >> 5) << (8 - bits), (words >> (5 + bits)) << 3, alpha
    return np.stack([channel & 255 for channel in channels], 2).astype(np.uint8)


def split_422(image: Array, layout: str) -> tuple[Array, Array, Array]:
    """Y, U and V at full size of a picture (h, w, 2) whose bytes come as ``layout`` says, such as ``uyvy``."""
    if image.shape[1] % 2:
        raise ShapeError(f"a 4:2:2 picture has an even width; src is {image.shape}")
    pairs = bytes_of(image, "a 4:2:2 picture").reshape(image.shape[0], -1, 4)
    u, v = (np.repeat(pairs[:, :, layout.index(name)], 2, 1) for name in "uv")
    return image[:, :, layout.index("y")], u, v


def luma_422(image: Array, layout: str) -> Array:
    """Y of such a picture, (h, w, 1)."""
    place = layout.index("y")
    found: Array = bytes_of(image, "a 4:2:2 picture")[:, :, place : place + 1]
    return found


def to_420(image: Array, layout: str) -> Array:
    """Red, green and blue as planes of Y and, of the upper left pixel of every 2 x 2, U and V (``i420``) or V and U
    (``yv12``): shape (h * 3 / 2, w, 1)."""
    height, width = image.shape[:2]
    if height % 2 or width % 2:
        raise ShapeError(f"a picture that becomes 4:2:0 has even sizes; src is {image.shape}")
    rgb = bytes_of(image, "what becomes 4:2:0").astype(np.int32)
    half = 1 << (_SHIFT - 1)

    def plane(values: Array, weights: Array, offset: int) -> Array:
        found = (values @ weights + half + (offset << _SHIFT)) >> _SHIFT
        flat: Array = np.clip(found, 0, 255).astype(np.uint8).ravel()
        return flat

    luma = plane(rgb, _TO_YUV[0], 16)
    chroma = [plane(rgb[::2, ::2], weights, 128) for weights in _TO_YUV[1:]]
    planes = [luma, *(chroma if layout == "i420" else chroma[::-1])]
    return np.concatenate(planes).reshape(height // 2 * 3, width, 1)


def premultiplied(image: Array) -> Array:
    """Colours times alpha."""
    wide = bytes_of(image, "a picture with alpha").astype(np.int32)
    wide[:, :, :3] = (wide[:, :, :3] * wide[:, :, 3:] + 128) // 255
    return wide.astype(np.uint8)


def unmultiplied(image: Array) -> Array:
    """Colours that were multiplied by alpha, as they were; 0 where alpha is."""
    wide = bytes_of(image, "a picture with alpha").astype(np.int32)
    alpha = wide[:, :, 3:]
    found = (wide[:, :, :3] * 255 + alpha // 2) // np.maximum(alpha, 1)
    wide[:, :, :3] = np.where(alpha == 0, 0, np.minimum(found, 255))
    return wide.astype(np.uint8)


__all__ = ["from_16", "luma_422", "premultiplied", "split_422", "to_16", "to_420", "unmultiplied"]
