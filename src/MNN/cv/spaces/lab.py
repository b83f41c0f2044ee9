"""CIE 1976 L*a*b* and L*u*v* of pictures in sRGB or linear light, under the white D65 (CIE 15:2004; IEC 61966-2-1)."""

from __future__ import annotations

import numpy as np

from MNN.cv._array import Array, to_dtype

XYZ = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
"""From linear red, green and blue (ITU-R BT.709)."""
_WHITE = np.array([0.950456, 1.0, 1.088754])
_U, _V = 4 * _WHITE[0] / (_WHITE @ [1, 15, 3]), 9 * _WHITE[1] / (_WHITE @ [1, 15, 3])
_LINEAR, _SLOPE = 0.008856, 903.3
"""The share of white up to which lightness is proportional to it, and how much it is of 1."""
_RANGES = {"Lab": ((255 / 100, 1.0, 1.0), (0.0, 128.0, 128.0)),
           "Luv": ((255 / 100, 255 / 354, 255 / 262), (0.0, 134 * 255 / 354, 140 * 255 / 262))}  # fmt: skip
"""Scales and shifts of the three numbers in bytes."""
_STEPS = 255 * 8


def _light(values: Array) -> Array:
    """From the stored numbers of sRGB to light."""
    low = values / 12.92
    return np.where(values <= 0.04045, low, ((np.maximum(values, 0) + 0.055) / 1.055) ** 2.4)


def _stored(light: Array) -> Array:
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * np.maximum(light, 0) ** (1 / 2.4) - 0.055)


def _root(share: Array) -> Array:
    """The cube root, a line near 0."""
    return np.where(share > _LINEAR, np.cbrt(share), share * (_SLOPE / 116) + 16 / 116)


def _lightness(share: Array) -> Array:
    return np.where(share > _LINEAR, 116 * np.cbrt(share) - 16, share * _SLOPE)


def _share(lightness: Array) -> Array:
    low = lightness / _SLOPE
    return np.where(lightness <= _LINEAR * _SLOPE, low, ((lightness + 16) / 116) ** 3)


def to_lightness(image: Array, space: str, srgb: bool) -> Array:
    """From red, green and blue: L* of 100, and the two others as they are; in bytes all of 255."""
    whole = image.dtype == np.uint8
    rgb = image[:, :, :3].astype(np.float64)
    rgb = np.clip(rgb / 255 if whole else rgb, 0, 1)
    light = _light(rgb) if srgb else rgb
    if space == "Lab":
        weights = XYZ / _WHITE[:, None]
        if whole:  # light, and the shares of white, are kept in steps of an eighth of a grey level
            light, weights = np.rint(light * _STEPS) / _STEPS, np.rint(weights * 4096) / 4096
        shares = light @ weights.T
        shares = np.rint(shares * _STEPS) / _STEPS if whole else shares
        fx, fy, fz = (_root(shares[:, :, i]) for i in range(3))
        lightness = _lightness(shares[:, :, 1])
        found = np.stack([lightness, 500 * (fx - fy), 200 * (fy - fz)], 2)
    else:
        x, y, z = (light @ row for row in XYZ)
        lightness = _lightness(y)
        total = np.maximum(x + 15 * y + 3 * z, np.finfo(np.float32).eps)
        found = np.stack([lightness, 13 * lightness * (4 * x / total - _U), 13 * lightness * (9 * y / total - _V)], 2)
    if not whole:
        return found.astype(np.float32)
    scale, shift = _RANGES[space]
    return to_dtype(found * scale + shift, image.dtype)


def from_lightness(image: Array, space: str, srgb: bool) -> Array:
    """To red, green and blue, the inverse of :func:`to_lightness`; what no screen shows is cut off."""
    whole = image.dtype == np.uint8
    values = image.astype(np.float64)
    if whole:
        scale, shift = (np.array(n) for n in _RANGES[space])
        values = (values - shift) / scale
    lightness, one, two = (values[:, :, i] for i in range(3))
    y = _share(lightness)
    if space == "Lab":
        fy = _root(y)
        roots = np.stack([fy + one / 500, fy, fy - two / 200], 2)
        xyz = np.where(roots <= _root(np.float64(_LINEAR)), (roots - 16 / 116) * (116 / _SLOPE), roots**3) * _WHITE
        xyz[:, :, 1] = y
    else:
        u, v = one + 13 * lightness * _U, two + 13 * lightness * _V  # 13 L* times the chromaticity
        over = np.where(v < 0, -1, 1) / np.maximum(np.abs(v), 1)  # no colour has less, but in the dark
        xyz = np.stack([y * 9 / 4 * u * over, y, y * ((39 * lightness - 0.75 * u) * over - 5)], 2)
        xyz = np.clip(xyz, 0, 2) if whole else xyz  # bytes may say what is no colour at all
    rgb = np.clip(xyz @ np.linalg.inv(XYZ).T, 0, 1)
    rgb = _stored(rgb) if srgb else rgb
    if not whole:
        return rgb.astype(np.float32)
    return to_dtype(rgb * 255 if srgb else np.floor(rgb * 255), image.dtype)  # as OpenCV, which cuts light off


__all__ = ["XYZ", "from_lightness", "to_lightness"]
