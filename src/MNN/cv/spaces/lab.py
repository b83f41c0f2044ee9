"""CIE 1976 L*a*b* and L*u*v* of pictures in sRGB or linear light, under the white D65 (CIE 15:2004; IEC 61966-2-1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.cv._array import Array
from MNN.cv.spaces.numbers import Number, where
from MNN.ir.dtype import DType

XYZ = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
"""From linear red, green and blue (ITU-R BT.709)."""
_WHITE = np.array([0.950456, 1.0, 1.088754])
_U, _V = 4 * _WHITE[0] / (_WHITE @ [1, 15, 3]), 9 * _WHITE[1] / (_WHITE @ [1, 15, 3])
_LINEAR, _SLOPE = 0.008856, 903.3
"""The share of white up to which lightness is proportional to it, and how much it is of 1."""
_OFFSET, _FACTOR = 16 / 116, _SLOPE / 116
"""The line that stands for the cube root of small shares."""
_DARK = _LINEAR * _FACTOR + _OFFSET
"""Where that line ends."""
_SCALES = {"Lab": (255 / 100, 1.0, 1.0), "Luv": (255 / 100, 255 / 354, 255 / 262)}
_SHIFTS = {"Lab": (0.0, 128.0, 128.0), "Luv": (0.0, 134 * 255 / 354, 140 * 255 / 262)}
"""Scales and shifts of the three numbers in bytes."""
_STEPS = 255 * 8
_BITS, _FINE = 12, 14
_LEVELS = 4096
_LEAST = 1e-3
"""Below all numbers that powers are taken of, which need positive ones."""


_POLYNOMIAL = (
    0.000861598703,
    0.0350901745,
    0.487516314,
    0.852259278,
    -0.839510202,
    0.908354104,
    -0.700257361,
    0.319760948,
    -0.0640756264,
)
"""The curve of sRGB over the bytes that are above its line, by least squares: a 300th of a step of bytes apart from it,
and never where that would round to another step."""


def _light(value: Number, whole: bool) -> Number:
    """From the stored number of sRGB to light; ``whole``: there are but those of bytes."""
    low, high = value * (1 / 12.92), value.of(_POLYNOMIAL[-1])
    for weight in _POLYNOMIAL[-2::-1] if whole else ():
        high = high.fma(value, weight)
    high = high if whole else value.fma(1 / 1.055, 0.055 / 1.055).power(2.4)
    return where(value.apply("le", 0.04045), low, high)


def _stored(light: Number) -> Number:
    high = light.apply("max", _LEAST).root(2.4).fma(1.055, -0.055)
    return where(light.apply("le", 0.0031308), light * 12.92, high)


def _root(share: Number) -> Number:
    """The cube root, a line near 0."""
    return where(share.apply("gt", _LINEAR), share.apply("max", _LEAST).root(3), share.fma(_FACTOR, _OFFSET))


def _cube(root: Number) -> Number:
    """The inverse of :func:`_root`."""
    return where(root.apply("le", _DARK), (root - _OFFSET) * (1 / _FACTOR), root * root * root)


def _product(weights: Sequence[float], values: Sequence[Number]) -> Number:
    total = values[-1] * weights[-1]
    for weight, value in zip(weights[-2::-1], values[-2::-1], strict=True):
        total = value.fma(weight, total)
    return total


def _rounded_up(value: Number) -> Number:
    """The nearest whole number, halves up."""
    return (value + 0.5).apply("floor")


def _limited(value: Number, low: float, high: float) -> Number:
    return value.apply("max", low).apply("min", high)


def to_lightness(rgb: Sequence[Number], whole: bool, space: str, srgb: bool) -> list[Number]:
    """From red, green and blue: L* of 100, and the two others as they are; in bytes all of 255."""
    light = [channel * (1 / 255) if whole else _limited(channel, 0, 1) for channel in rgb]
    light = [_light(channel, whole) for channel in light] if srgb else light
    if space == "Lab":
        if whole:  # light, and the shares of white, are kept in steps of an eighth of a grey level
            steps = [(channel * _STEPS).apply("round") for channel in light]
            weights = np.rint(XYZ / _WHITE[:, None] * (1 << _BITS))
            sums = [_product(row, steps) for row in weights.tolist()]  # whole, and below 2^24
            shares = [_rounded_up(total * (1 / (1 << _BITS))) * (1 / _STEPS) for total in sums]
        else:
            shares = [_product(row, light) for row in (XYZ / _WHITE[:, None]).tolist()]
        x, y, z = (_root(share) for share in shares)
        found = [116 * y - 16, 500 * (x - y), 200 * (y - z)]
    else:
        x, y, z = (_product(row, light) for row in XYZ.tolist())
        lightness = 116 * _root(y) - 16
        over = lightness * 13 / (x + 15 * y + 3 * z).apply("max", float(np.finfo(np.float32).eps))
        found = [lightness, 4 * x * over - lightness * (13 * _U), 9 * y * over - lightness * (13 * _V)]
    if not whole:
        return found
    return [n.fma(scale, shift) for n, scale, shift in zip(found, _SCALES[space], _SHIFTS[space], strict=True)]


def from_lightness(numbers: Sequence[Number], whole: bool, space: str, srgb: bool) -> list[Number]:
    """To red, green and blue, the inverse of :func:`to_lightness`; what no screen shows is cut off."""
    if whole:
        levels = (_levels_of_lab if space == "Lab" else _levels_of_luv)(numbers)
        return [_byte(level.cast(DType.F32) * (1 / _LEVELS), srgb) for level in levels]
    lightness, one, two = numbers
    middle = (lightness + 16) * (1 / 116)
    y = _cube(middle)
    if space == "Lab":
        x = _cube(middle + one * (1 / 500)) * _WHITE[0]
        xyz = [x, y, _cube(middle - two * (1 / 200)) * _WHITE[2]]
    else:
        u, over = one + lightness * (13 * _U), _inverse(two + lightness * (13 * _V))
        xyz = [y * u * over * 2.25, y, y * ((39 * lightness - 0.75 * u) * over - 5)]
    rgb = [_limited(_product(row, xyz), 0, 1) for row in np.linalg.inv(XYZ).tolist()]
    return [_stored(channel) for channel in rgb] if srgb else rgb


def _inverse(v: Number) -> Number:
    """Of 13 L* times the second chromaticity, which no colour has less than 1 of, but in the dark."""
    over = 1 / v.apply("abs").apply("max", 1)
    return where(v.apply("lt", 0), 0 - over, over)


def _byte(light: Number, srgb: bool) -> Number:
    """Of one of 4096 levels."""
    return _stored(light) * 255 if srgb else (light * 255).apply("floor")  # as OpenCV, which cuts light off


# Bytes become levels of light in whole numbers of 14 bits, rounded where OpenCV rounds: a level is nearly a grey level
# where it is dark, and there the chromaticity of bytes is a quotient of few bits.


def _luminance(lightness: Number) -> Number:
    """Of L* in a byte, in 14 bits."""
    return (_cube(lightness.fma(100 / (255 * 116), 16 / 116)) * (1 << _FINE)).apply("round")


def _levels_of(xyz: Sequence[Number], white: Array) -> list[Number]:
    """Red, green and blue in 4096 levels, of shares of ``white`` in 14 bits."""
    weights = np.rint(np.linalg.inv(XYZ) * white * (1 << _BITS)).astype(int).tolist()
    sums = [sum((n * w for n, w in zip(xyz[1:], row[1:], strict=True)), xyz[0] * row[0]) for row in weights]
    return [_limited((total + (1 << (_FINE - 1))) >> _FINE, 0, _LEVELS - 1) for total in sums]


def _levels_of_lab(numbers: Sequence[Number]) -> list[Number]:
    one, i32 = 1 << _FINE, DType.I32
    middle = (numbers[0].fma(100 / 255, 16) * (one / 116)).apply("round").cast(i32)
    a, b = (n.cast(i32) for n in numbers[1:])
    across = ((a * (5 * 53687) + (1 << 7)) >> 13) - 128 * one // 500
    behind = ((b * 41943 + (1 << 4)) >> 9) - (128 * one // 200 - 1)
    dark, offset = round(_DARK * one), one * 16 * 108 // (116 * 841)

    def cube(root: Number) -> Number:
        line = (root.cast(DType.F32) * (108 / 841)).apply("trunc").cast(i32) - offset
        return where(root.apply("le", dark), line, (((root * root) >> _FINE) * root) >> _FINE)

    return _levels_of([cube(middle + across), _luminance(numbers[0]).cast(i32), cube(middle - behind)], _WHITE)


def _levels_of_luv(numbers: Sequence[Number]) -> list[Number]:
    one = 1 << _FINE
    lightness, u, v = (
        (n - shift) * (1 / scale) for n, scale, shift in zip(numbers, _SCALES["Luv"], _SHIFTS["Luv"], strict=True)
    )
    y = _luminance(numbers[0])
    u = ((u + lightness * (13 * _U)) * 144).apply("round")
    over = (_inverse(v + lightness * (13 * _V)) * (1 << 22)).apply("round")
    x = y * (u * over * (1 / one)).apply("floor") * (1 / one)
    z = y * (((39 * 6400) * numbers[0] - 85 * u) * over * (1 / one) - 5 * 255 * one) * (1 / (one << 8))
    z = z.apply("floor") + (z * (1 / 256)).apply("floor")  # divided by 255, nearly
    xyz = [_limited(n.apply("floor"), 0, 2 * one).cast(DType.I32) for n in (x, y, z)]  # bytes may say what is no colour
    return _levels_of(xyz, np.ones(3))


__all__ = ["XYZ", "from_lightness", "to_lightness"]
