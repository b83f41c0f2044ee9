"""Features of speech: mel spectrograms, and the forms that Kaldi's and Whisper's models read."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from MNN.audio._spectrum import HANNING, REFLECT, Array, by_blocks, mel_filters, power_spectra, signal, var, window
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var


def mel_spectrogram(
    waveform: ArrayLike, n_mels: int, n_fft: int, sampe_rate: int = 16000, htk: bool = True, norm: bool = False,
    f_min: float = 0.0, f_max: float = 0.0, hop_length: int = 0, win_length: int = 0, window_type: int = HANNING,
    pad_left: int = 0, pad_right: int = 0, center: bool = False, normalized: bool = False, pad_mode: int = REFLECT,
    power: float = 2.0,
) -> Var:  # fmt: skip
    """:func:`~MNN.audio.spectrogram` seen through :func:`~MNN.audio.melscale_fbanks`: (frames, n_mels)."""
    spectra = power_spectra(signal(waveform), n_fft, hop_length, win_length, window_type, pad_left, pad_right, center,
                            normalized, pad_mode, power)  # fmt: skip
    return var(spectra @ mel_filters(n_mels, n_fft, sampe_rate, htk, norm, f_min, f_max).T)


def fbank(
    waveform: ArrayLike, sample_rate: int = 16000, n_mels: int = 80, n_fft: int = 400, hop_length: int = 160,
    dither: float = 0.0, preemphasis: float = 0.97,
) -> Var:  # fmt: skip
    """Logarithms of mel energies (frames, n_mels) as PyMNN's: frames of ``n_fft`` samples less their mean and
    ``preemphasis`` of the sample before (the first its own), zeros up to the next power of two, Hann's window over all
    of that, triangles from 20 Hz on of Slaney's height. ``dither`` adds noise of that size."""
    wave = signal(waveform)
    if n_fft < 2 or hop_length < 1 or len(wave) < n_fft:
        raise ShapeError(f"fbank(): {len(wave)} samples for frames of {n_fft} every {hop_length}")
    size = 1 << (n_fft - 1).bit_length()
    shape = window(HANNING, size)
    filters = mel_filters(n_mels, size, sample_rate, True, False, 20.0, 0.0).T
    noise = np.random.default_rng()

    def energies(part: Array) -> Array:
        frames = part + noise.uniform(-dither, dither, part.shape) if dither > 0 else part
        frames = frames - frames.mean(1, keepdims=True)
        if preemphasis:
            frames = frames - preemphasis * np.concatenate([frames[:, :1], frames[:, :-1]], 1)
        spectra = np.abs(np.fft.rfft(np.pad(frames, ((0, 0), (0, size - n_fft))) * shape)) ** 2
        return np.asarray(spectra @ filters)

    found = by_blocks(np.lib.stride_tricks.sliding_window_view(wave, n_fft)[::hop_length], n_mels, energies)
    return var(np.log(np.maximum(found, np.finfo(np.float32).tiny)))


def whisper_fbank(
    waveform: ArrayLike, sample_rate: int = 16000, n_mels: int = 128, n_fft: int = 400, hop_length: int = 160,
    chunk_len: int = 30,
) -> Var:  # fmt: skip
    """What Whisper reads of ``chunk_len`` seconds (shorter ones are filled up): (1, n_mels, frames). Base-10 logarithms
    of Slaney's mel energies, cut at 8 below the largest, plus 4, over 4."""
    wave = signal(waveform)
    if n_mels < 1 or n_fft < 2 or hop_length < 1 or chunk_len < 0 or sample_rate < 1:
        raise MNNError(f"whisper_fbank(): n_mels {n_mels}, n_fft {n_fft}, hop_length {hop_length}, chunk_len "
                       f"{chunk_len} or sample_rate {sample_rate} is out of range")  # fmt: skip
    missing = max(chunk_len * sample_rate - len(wave), 0)
    spectra = power_spectra(wave, n_fft, hop_length, 0, HANNING, 0, missing, True, False, REFLECT, 2.0)
    mels = spectra[:-1] @ mel_filters(n_mels, n_fft, sample_rate, False, True, 0.0, 0.0).T
    logs = np.log10(np.maximum(mels, 1e-10))
    return var(((np.maximum(logs, logs.max() - 8) + 4) / 4).T[None])
