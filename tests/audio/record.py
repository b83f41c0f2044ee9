"""What librosa answers, for tests. Run with librosa to write ``librosa.npz`` anew: ``python tests/audio/record.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("librosa.npz")
FILTERS = [(20, 400, 16000, 0.0, 0.0), (40, 512, 22050, 50.0, 8000.0), (13, 256, 8000, 20.0, 3800.0)]
SPECTRA = [(400, 160, 400, "hann", True, 2.0),
           (512, 128, 512, "hamming", True, 1.0), (256, 100, 256, "hann", False, 2.0),
           (256, 64, 256, "blackman", False, 1.0)]  # fmt: skip


def wave() -> Any:
    random = np.random.default_rng(5)
    t = np.arange(4000) / 16000
    return (0.3 * np.sin(2 * np.pi * 440 * t * (1 + t)) + 0.05 * random.normal(size=4000)).astype(np.float32)


if __name__ == "__main__":
    import librosa
    import scipy.signal

    results = {}
    for i, (mels, n, rate, low, high) in enumerate(FILTERS):
        for htk in (False, True):
            for norm in (None, "slaney"):
                found = librosa.filters.mel(
                    sr=rate, n_fft=n, n_mels=mels, fmin=low, fmax=high or None, htk=htk, norm=norm, dtype=np.float64
                )
                results[f"mel {i} {htk} {norm}"] = found.astype(np.float32)
    for i, (n, hop, length, kind, center, power) in enumerate(SPECTRA):
        shape = scipy.signal.get_window(kind, length, fftbins=False)
        found = librosa.stft(wave().astype(np.float64), n_fft=n, hop_length=hop, win_length=length, window=shape,
                             center=center, pad_mode="reflect")  # fmt: skip
        results[f"spectrum {i}"] = (np.abs(found) ** power).T.astype(np.float32)
    np.savez_compressed(FILE, **results)
