"""Which places of a row make up each place of a longer or shorter one. Half-pixel centres, as in OpenCV."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from MNN.cv._constants import (
    INTER_AREA,
    INTER_CUBIC,
    INTER_LANCZOS4,
    INTER_LINEAR,
    INTER_LINEAR_EXACT,
    INTER_NEAREST,
    INTER_NEAREST_EXACT,
)
from MNN.cv.kernels.run import Array
from MNN.errors import MNNError


class Taps(NamedTuple):
    """The first of the neighbours that make each output, which may lie outside, int (outputs,), and the weights of all,
    float32 (outputs, taps)."""

    first: Array
    weights: Array

    def places(self, source: int) -> Array:
        """All neighbours, those outside brought to the edge."""
        inside: Array = np.clip(self.first[:, None] + np.arange(self.weights.shape[1]), 0, source - 1)
        return inside


def taps(source: int, wanted: int, factor: float, interpolation: int, shrinks: bool) -> Taps:
    """Which places of a row of ``source`` make each of the ``wanted`` ones; ``factor`` is output over source size."""
    places = np.arange(wanted)
    scale = 1 / factor  # not source / wanted: the last bit decides ties, and OpenCV has this one
    if interpolation == INTER_NEAREST:
        return _one(np.minimum(np.floor(places * scale).astype(np.int64), source - 1))
    if interpolation == INTER_NEAREST_EXACT:
        return _one((2 * places + 1) * source // (2 * wanted))
    centers = (places + 0.5) * scale - 0.5
    if interpolation == INTER_AREA and shrinks:
        return _area(source, wanted, scale)
    base = np.floor(centers).astype(np.int64)
    fraction = centers - base
    if interpolation == INTER_AREA:  # enlarging: pixels stay flat, only their borders are blended
        base = np.floor(places * scale).astype(np.int64)
        fraction = ((places + 1) - (base + 1) * factor).astype(np.float32)  # where 0.99999999 is 1, as in OpenCV
        fraction = np.where(fraction <= 0, 0.0, fraction - np.floor(fraction))
        interpolation = INTER_LINEAR
    if interpolation in (INTER_LINEAR, INTER_LINEAR_EXACT):
        return Taps(base, np.stack([1 - fraction, fraction], 1).astype(np.float32))
    if interpolation == INTER_CUBIC:
        return Taps(base - 1, cubic(fraction).astype(np.float32))
    if interpolation == INTER_LANCZOS4:
        return Taps(base - 3, lanczos4(fraction).astype(np.float32))
    raise MNNError(f"the interpolation {interpolation} is unknown; use INTER_NEAREST, _LINEAR, _CUBIC, _AREA, ...")


def cubic(fraction: Array, a: float = -0.75) -> Array:
    """Weights of the 4 neighbours: Keys' cubic convolution (1981), with OpenCV's ``a``."""
    distance = np.abs(fraction[..., None] - np.arange(-1, 3))
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def lanczos4(fraction: Array) -> Array:
    """Weights of the 8 neighbours: sinc windowed by a sinc of four times the width, made to sum to 1."""
    distance = fraction[..., None] - np.arange(-3, 5)
    weights = np.where(np.abs(distance) < 4, np.sinc(distance) * np.sinc(distance / 4), 0.0)
    result: Array = weights / weights.sum(-1, keepdims=True)
    return result


def _area(source: int, wanted: int, scale: float) -> Taps:
    """Every output is the mean of the source interval that it covers."""
    start = np.arange(wanted) * scale
    end = np.minimum(start + scale, source)
    first = np.floor(start + 1e-9).astype(np.int64)
    count = int(np.max(np.ceil(end - 1e-9).astype(np.int64) - first))
    positions = first[:, None] + np.arange(max(count, 1))
    covered = np.minimum(positions + 1, end[:, None]) - np.maximum(positions, start[:, None])
    weights = np.where(covered > 1e-9, covered, 0.0)
    return Taps(first, (weights / weights.sum(1, keepdims=True)).astype(np.float32))


def _one(places: Array) -> Taps:
    return Taps(places, np.ones((len(places), 1), np.float32))
