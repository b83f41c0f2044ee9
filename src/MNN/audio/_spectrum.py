"""Windows, short-time spectra and mel filters, computed with numpy on the numbers at hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from MNN.errors import MNNError, ShapeError
from MNN.expr.build import leaf, to_var
from MNN.expr.types import NHWC
from MNN.expr.var import Var
from MNN.formatting import plural

HAMMING, HANNING, POVEY, RECTANGULAR, BLACKMAN = range(5)
CONSTANT, REFLECT, SYMMETRIC, EDGE = range(4)

Array = NDArray[Any]
BLOCK = 1 << 20
"""Samples of frames that are worked on at once."""
_MODES = {CONSTANT: "constant", REFLECT: "reflect", SYMMETRIC: "symmetric", EDGE: "edge"}


def var(array: Array) -> Var:
    """A result as a Var."""
    return leaf(np.ascontiguousarray(array, np.float32), NHWC)


def signal(waveform: ArrayLike) -> Array:
    """A waveform as float64. Raises :class:`ShapeError` for several channels and for nothing."""
    array = np.asarray(to_var(waveform)._array(), np.float64)
    if array.size != max(array.shape, default=0) or not array.size:
        raise ShapeError(f"a waveform is one channel of samples, found shape {array.shape}")
    return array.ravel()


def hamming_window(window_size: int, periodic: bool = False, alpha: float = 0.54, beta: float = 0.46) -> Var:
    """``alpha - beta cos(2 pi n / N)``, where N is the size, or one less unless ``periodic``."""
    return var(alpha - beta * _cosines(window_size, periodic))


def hanning_window(window_size: int, periodic: bool = False) -> Var:
    """``(1 - cos(2 pi n / N)) / 2``; see :func:`hamming_window`."""
    return var(0.5 - 0.5 * _cosines(window_size, periodic))


hann_window = hanning_window


def _cosines(size: int, periodic: bool) -> Array:
    if size < 1:
        raise MNNError(f"a window has at least one sample, found {size}")
    return np.cos(2 * math.pi * np.arange(size) / max(size if periodic else size - 1, 1))


def window(kind: int, size: int, periodic: bool = False) -> Array:
    """A window by its number, float64."""
    cosines = _cosines(size, periodic)
    windows: dict[int, Callable[[], Array]] = {
        HAMMING: lambda: 0.54 - 0.46 * cosines,
        HANNING: lambda: 0.5 - 0.5 * cosines,
        POVEY: lambda: (0.5 - 0.5 * cosines) ** 0.85,
        RECTANGULAR: lambda: np.ones(size),
        BLACKMAN: lambda: 0.42 - 0.5 * cosines + 0.08 * (2 * cosines**2 - 1),
    }
    if kind not in windows:
        raise MNNError(f"window_type is {kind}; it must be one of HAMMING, HANNING, POVEY, RECTANGULAR, BLACKMAN")
    return windows[kind]()


def melscale_fbanks(
    n_mels: int, n_fft: int, sampe_rate: int = 16000, htk: bool = True, norm: bool = False, f_min: float = 0.0,
    f_max: float = 0.0,
) -> Var:  # fmt: skip
    """Triangles (n_mels, n_fft // 2 + 1) evenly spaced in mels from ``f_min`` to ``f_max`` (half the sample rate if 0).

    ``htk``: O'Shaughnessy's scale, else Slaney's. As in PyMNN, triangles have the height 1 with ``htk`` and ``norm``,
    and Slaney's height of 2 / width (in Hz) otherwise."""
    return var(mel_filters(n_mels, n_fft, sampe_rate, htk, norm, f_min, f_max))


def mel_filters(n_mels: int, n_fft: int, rate: int, htk: bool, norm: bool, low: float, high: float) -> Array:
    if n_mels < 1 or n_fft < 2 or rate <= 0:
        raise MNNError(f"mel filters need n_mels, n_fft and a sample rate above 0, found {n_mels}, {n_fft}, {rate}")
    frequencies = np.arange(n_fft // 2 + 1) * (rate / 2) / (n_fft // 2)
    high = high if high > 0 else rate / 2
    if not 0 <= low < high:
        raise MNNError(f"mel filters reach from f_min, at least 0, up to a larger f_max, found {low} and {high} Hz")
    ends = to_hertz(np.linspace(to_mel(low, htk), to_mel(high, htk), n_mels + 2), htk)
    left, middle, right = ends[:-2, None], ends[1:-1, None], ends[2:, None]
    rising, falling = (frequencies - left) / (middle - left), (right - frequencies) / (right - middle)
    triangles = np.maximum(np.minimum(rising, falling), 0)
    return np.asarray(triangles if htk and norm else triangles * (2 / (right - left)))


_STEP = math.log(6.4) / 27


def to_mel(hertz: float, htk: bool) -> float:
    """A frequency in mels."""
    if htk:
        return 2595 * math.log10(1 + hertz / 700)
    return hertz * 3 / 200 if hertz < 1000 else 15 + math.log(hertz / 1000) / _STEP


def to_hertz(mels: Array, htk: bool) -> Array:
    """Frequencies of mels."""
    if htk:
        return np.asarray(700 * (10 ** (mels / 2595) - 1))
    return np.where(mels < 15, mels * 200 / 3, 1000 * np.exp(_STEP * (np.maximum(mels, 15) - 15)))


def spectrogram(
    waveform: ArrayLike, n_fft: int = 400, hop_length: int = 0, win_length: int = 0, window_type: int = HANNING,
    pad_left: int = 0, pad_right: int = 0, center: bool = False, normalized: bool = False, pad_mode: int = REFLECT,
    power: float = 2.0,
) -> Var:  # fmt: skip
    """Magnitudes to the ``power`` of the spectra of frames of ``win_length`` (``n_fft`` if 0) samples every
    ``hop_length`` (half of ``n_fft`` if 0): (frames, n_fft // 2 + 1).

    ``pad_left`` and ``pad_right`` zeros are added; with ``center`` also half of ``n_fft`` on both sides by
    ``pad_mode``. ``normalized`` divides by the sum of the window's squares."""
    return var(power_spectra(signal(waveform), n_fft, hop_length, win_length, window_type, pad_left, pad_right, center,
                             normalized, pad_mode, power))  # fmt: skip


def power_spectra(
    wave: Array, n_fft: int, hop: int, length: int, kind: int, left: int, right: int, center: bool, normalized: bool,
    pad_mode: int, power: float,
) -> Array:  # fmt: skip
    """What :func:`spectrogram` gives, on arrays."""
    fits = n_fft >= 2 and hop >= 0 and 0 <= length <= n_fft and min(left, right) >= 0 and math.isfinite(power)
    if not fits or pad_mode not in _MODES:
        raise MNNError(f"spectrogram(): n_fft {n_fft}, hop_length {hop}, win_length {length} (at most n_fft), pad_left "
                       f"{left}, pad_right {right}, pad_mode {pad_mode} or power {power} is out of range")  # fmt: skip
    hop, length = hop or n_fft // 2, length or n_fft
    wave = np.pad(wave, (left, right))
    if center:
        mode: Any = _MODES[pad_mode]
        if pad_mode == REFLECT and len(wave) <= n_fft // 2:
            raise ShapeError(f"{plural(len(wave), 'sample')} cannot be reflected over {n_fft // 2}")
        wave = np.pad(wave, n_fft // 2, mode)
    if len(wave) < length:
        raise ShapeError(f"{plural(len(wave), 'sample')} make less than a frame of {length}")
    shape = window(kind, length)
    frames = np.lib.stride_tricks.sliding_window_view(wave, length)[::hop]
    if normalized and not shape.any():
        raise MNNError(f"spectrogram(): a window of {plural(length, 'sample')} is zero, and cannot be normalized by")
    scale = 1 / (shape**2).sum() if normalized else 1.0
    return by_blocks(frames, n_fft // 2 + 1, lambda part: np.abs(np.fft.rfft(part * shape, n_fft)) ** power * scale)


def by_blocks(frames: Array, width: int, work: Callable[[Array], Array]) -> Array:
    """``work`` of frames, which lie over each other in memory, some at a time: rows of ``width``."""
    found = np.empty((len(frames), width))
    rows = max(1, BLOCK // frames.shape[1])
    for begin in range(0, len(frames), rows):
        found[begin : begin + rows] = work(frames[begin : begin + rows])
    return found
