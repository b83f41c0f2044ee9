"""Hue, lightness and saturation (Joblove and Greenberg, 1978)."""

from __future__ import annotations

import numpy as np

from MNN.cv._array import Array, to_dtype


def to_hls(image: Array, hues: int) -> Array:
    """From red, green and blue. Hue in ``hues`` steps a circle (8 bit) or degrees; the others of 255 or 1."""
    whole = image.dtype == np.uint8
    rgb = image.astype(np.float32) / np.float32(255) if whole else image.astype(np.float32)
    r, g, b = (rgb[:, :, i] for i in range(3))
    high, low = rgb[:, :, :3].max(2), rgb[:, :, :3].min(2)
    spread, total = high - low, high + low
    grey = spread <= np.finfo(np.float32).eps
    safe = np.where(grey, 1, spread)
    hue = np.where(high == r, (g - b) / safe, np.where(high == g, 2 + (b - r) / safe, 4 + (r - g) / safe))
    hue = np.where(grey, 0, np.where(hue < 0, hue + 6, hue))
    width = np.where(total < 1, total, 2 - total)
    saturation = np.where(grey, 0, spread / np.where(grey | (width == 0), 1, width))
    if not whole:
        return np.stack([hue * 60, total / 2, saturation], 2).astype(np.float32)
    steps = np.rint(hue * np.float32(hues / 6))  # the last one may be a whole circle
    return to_dtype(np.stack([steps, total * np.float32(127.5), saturation * 255], 2), image.dtype)


def from_hls(image: Array, hues: int) -> Array:
    """To red, green and blue, the inverse of :func:`to_hls`."""
    h, light, s = (image[:, :, i].astype(np.float32) for i in range(3))
    whole = image.dtype == np.uint8
    h = h * np.float32(6 / hues) if whole else h / np.float32(60)
    if whole:
        light, s = light / np.float32(255), s / np.float32(255)
    high = np.where(light <= 0.5, light * (1 + s), light + s - light * s)
    low = 2 * light - high
    channels = []
    for shift in (2, 0, 4):  # red, green, blue: a third of the circle apart
        k = (h + shift) % 6
        rising = np.where(k < 1, k, np.where(k < 3, 1, np.where(k < 4, 4 - k, 0)))
        channels.append(low + (high - low) * rising)
    found = np.stack(channels, 2)
    return to_dtype(found * 255, image.dtype) if whole else found.astype(np.float32)


__all__ = ["from_hls", "to_hls"]
