"""Sounds as tensors: WAV files, windows, spectrograms, and the features that speech models read.

Waveforms are vectors of float32 from -1 to 1; spectrograms have the shape (frames, bins)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from MNN.audio._features import fbank, mel_spectrogram, whisper_fbank
from MNN.audio._files import load, save
from MNN.audio._spectrum import (
    BLACKMAN,
    CONSTANT,
    EDGE,
    HAMMING,
    HANNING,
    POVEY,
    RECTANGULAR,
    REFLECT,
    SYMMETRIC,
    hamming_window,
    hann_window,
    hanning_window,
    melscale_fbanks,
    spectrogram,
)
from MNN.expr.arrays.mistakes import tell as _tell

__all__ = [
    "BLACKMAN", "CONSTANT", "EDGE", "HAMMING", "HANNING", "POVEY", "RECTANGULAR", "REFLECT", "SYMMETRIC", "fbank",
    "hamming_window", "hann_window", "hanning_window", "load", "mel_spectrogram", "melscale_fbanks", "save",
    "spectrogram", "whisper_fbank",
]  # fmt: skip

if not TYPE_CHECKING:  # which know the functions as they are
    _tell(globals(), "MNN.audio")
