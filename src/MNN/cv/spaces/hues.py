"""Hue, saturation and value (Smith, 1978); hue, lightness and saturation (Joblove and Greenberg, 1978).

Hues of bytes are in ``hues`` steps a circle, of floats in degrees; the other numbers are of 255 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.cv.spaces.numbers import Number, where

_EPSILON = float(np.finfo(np.float32).eps)


def _hue(rgb: Sequence[Number], high: Number, spread: Number) -> Number:
    """In sixths of a circle, below 6."""
    return _around(_signed_hue(rgb, high, spread) / spread, 6)


def _signed_hue(rgb: Sequence[Number], high: Number, spread: Number) -> Number:
    """In sixths of a circle and of ``spread``, from -1 to 5."""
    red, green, blue = rgb
    hue = where(high.apply("eq", green), 2 * spread + blue - red, 4 * spread + red - green)
    return where(high.apply("eq", red), green - blue, hue)


def _around(hue: Number, circle: int) -> Number:
    return where(hue.apply("lt", 0), hue + circle, hue)


def _ends(rgb: Sequence[Number]) -> tuple[Number, Number]:
    red, green, blue = rgb
    return red.apply("max", green).apply("max", blue), red.apply("min", green).apply("min", blue)


def to_hsv(rgb: Sequence[Number], whole: bool, hues: int) -> list[Number]:
    """From red, green and blue."""
    value, low = _ends(rgb)
    spread = value - low
    gray, none = spread.apply("eq", 0), value.apply("eq", 0)
    some, most = where(gray, 1, spread), where(none, 1, value)
    if whole:  # quotients are rounded to 12 bits before, as OpenCV's, so that hues on an edge fall to the same side
        hue = _rounded_quotient(_signed_hue(rgb, value, spread), hues / 6, some)
        return [_around(hue, hues), _rounded_quotient(spread, 255, most), value]
    return [where(gray, 0, _hue(rgb, value, some)) * 60, where(none, 0, spread / most), value]


def _rounded_quotient(dividend: Number, scale: float, divisor: Number) -> Number:
    """``dividend * scale / divisor``, halves up, by the quotient of the two last in 12 bits."""
    return (dividend * ((scale * 4096) / divisor).apply("round")).fma(1 / 4096, 0.5).apply("floor")


def to_hls(rgb: Sequence[Number], whole: bool, hues: int) -> list[Number]:
    """From red, green and blue. The last of the ``hues`` may be a whole circle."""
    rgb = [channel / 255 for channel in rgb] if whole else rgb
    high, low = _ends(rgb)
    spread, total = high - low, high + low
    gray = spread.apply("le", _EPSILON)
    hue = where(gray, 0, _hue(rgb, high, where(gray, 1, spread)))
    width = where(total.apply("lt", 1), total, 2 - total)
    none = width.apply("eq", 0)
    saturation = where(gray, 0, spread / where(none, 1, width))
    if not whole:
        return [hue * 60, total / 2, saturation]
    return [(hue * (hues / 6)).apply("round"), total * 127.5, saturation * 255]


def _share(hue: Number, shift: int) -> Number:
    """How much of a channel there is: rising, 1 for two sixths of the circle, falling, 0 for the others."""
    turned = hue + shift
    k = turned - (turned * (1 / 6)).apply("floor") * 6
    return k.apply("min", 4 - k).apply("max", 0).apply("min", 1)


def from_hsv(hsv: Sequence[Number], whole: bool, hues: int) -> list[Number]:
    """To red, green and blue, the inverse of :func:`to_hsv`."""
    hue, saturation, value = hsv
    hue = hue * (6 / hues) if whole else hue / 60
    part = value * (saturation / 255 if whole else saturation)
    return [value - part * _share(hue, shift) for shift in (5, 3, 1)]


def from_hls(hls: Sequence[Number], whole: bool, hues: int) -> list[Number]:
    """To red, green and blue, the inverse of :func:`to_hls`."""
    hue, light, saturation = hls
    hue = hue * (6 / hues) if whole else hue / 60
    if whole:
        light, saturation = light / 255, saturation / 255
    high = where(light.apply("le", 0.5), light * (1 + saturation), light + saturation - light * saturation)
    low = 2 * light - high
    found = [low + (high - low) * _share(hue, shift) for shift in (2, 0, 4)]
    return [channel * 255 for channel in found] if whole else found


__all__ = ["from_hls", "from_hsv", "to_hls", "to_hsv"]
