"""Another sample rate: a sinc under a Kaiser window (Smith, "Digital Audio Resampling Home Page", 2002)."""

from __future__ import annotations

import math

import numpy as np

from MNN.audio._spectrum import Array
from MNN.errors import MNNError

CROSSINGS = 32
"""Zero crossings of the sinc on each side."""
BETA = 12.0
"""Of the Kaiser window."""
BLOCK = 1 << 18
"""Numbers that are worked on at once."""
MOST = 1 << 30
"""Samples that a result may have."""


def resample(wave: Array, rate: int, wanted: int) -> Array:
    """``wave`` of ``rate`` samples a second as one of ``wanted``: its length times their ratio, rounded up. Raises
    :class:`MNNError` for a result of more than 2^30 samples."""
    common = math.gcd(rate, wanted)
    up, down = wanted // common, rate // common
    count = -(-len(wave) * up // down)
    if count > MOST:
        raise MNNError(
            f"load(): {len(wave)} samples of {rate} Hz would be {count} of {wanted} Hz, at most 2^30 are made; is the "
            "file's rate right?"
        )
    cutoff = min(1.0, up / down)
    reach = math.ceil(CROSSINGS / cutoff)
    near = min(reach, len(wave))  # farther off there are no samples
    steps = np.arange(-near, near + 1)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(wave, near), len(steps))
    phases = min(up, count)  # outputs whose places lie alike between two samples have weights in common
    turns = -(-count // phases)
    result = np.empty((turns, phases))
    each = max(1, BLOCK // (len(steps) * turns))  # phases at once: many where each has few outputs
    for begin in range(0, phases, each):
        first, rest = np.divmod(np.arange(begin, min(begin + each, phases)) * down, up)
        weights = _weights(rest[:, None] / up - steps, cutoff, reach + 1)
        rows = max(1, BLOCK // (len(steps) * len(first)))
        for turn in range(0, turns, rows):
            places = first + down * np.arange(turn, min(turn + rows, turns))[:, None]
            taken = windows[np.minimum(places, len(wave) - 1)]  # beyond the end: of results that are cut off
            result[turn : turn + rows, begin : begin + each] = _products(taken, weights)
    return result.reshape(-1)[:count]


def _products(windows: Array, weights: Array) -> Array:
    """``[turns, phases]`` of windows ``[turns, phases, steps]``."""
    if len(weights) == 1:
        return np.asarray(windows[:, 0] @ weights[0])[:, None]
    return np.asarray(np.einsum("tps,ps->tp", windows, weights))


def _weights(apart: Array, cutoff: float, width: int) -> Array:
    """What samples so far off count."""
    inside = np.maximum(1 - (apart / width) ** 2, 0)
    return np.asarray(cutoff * np.sinc(cutoff * apart) * np.i0(BETA * np.sqrt(inside)) / np.i0(BETA))
