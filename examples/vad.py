"""Where somebody speaks in a recording, with Silero VAD, as it would run on a stream: window by window, with a state.

    python examples/vad.py silero_vad.onnx recording.wav

Needs the general model of the package silero-vad (inputs input, state and sr) as .onnx or .mnn, and a recording of 16
bits, mono, at 8 kHz or a multiple of 16 kHz. Prints the spans of speech in seconds.
"""

from __future__ import annotations

import argparse
import wave
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

import MNN
from MNN.model import Model

WINDOW, CONTEXT = {16000: 512, 8000: 256}, {16000: 64, 8000: 32}
"""Samples that a step takes, and those before them that it sees again, by sample rate."""
SPEECH, SILENCE = 0.5, 0.35
"""Speech begins above the one probability and ends below the other."""


def recording(path: Path) -> tuple[np.ndarray, int]:
    """Samples in -1 .. 1, [samples], and their rate: 16,000 or 8,000 a second."""
    with wave.open(str(path)) as file:
        if file.getsampwidth() != 2 or file.getnchannels() != 1:
            raise SystemExit(f"{path} is not 16-bit mono")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        rate = file.getframerate()
    if rate > 16000 and rate % 16000 == 0:  # means of neighbours: good enough to tell speech from silence
        step = rate // 16000
        return samples[: len(samples) // step * step].reshape(-1, step).mean(axis=1), 16000
    if rate not in WINDOW:
        raise SystemExit(f"{path} has {rate} samples a second; 8000 or a multiple of 16000 is needed")
    return samples, rate


def probabilities(model: Model, samples: np.ndarray, rate: int) -> Iterator[float]:
    """The probability of speech for one window after the other."""
    size, before = WINDOW[rate], CONTEXT[rate]
    state = np.zeros((2, 1, 128), np.float32)
    padded = np.concatenate([np.zeros(before, np.float32), samples])
    for start in range(0, len(samples) - size + 1, size):
        window = padded[None, start : start + before + size]
        outputs = model.run({"input": window, "state": state, "sr": np.array(rate, np.int64)})
        state = outputs["stateN"]
        yield float(outputs["output"].item())


def spans(heard: Iterable[float], seconds: float) -> Iterator[tuple[float, float]]:
    """(begin, end) of speech, in seconds; ``seconds`` is the length of a window."""
    begin, end = None, 0.0
    for k, probability in enumerate(heard):
        end = (k + 1) * seconds
        if begin is None and probability > SPEECH:
            begin = k * seconds
        elif begin is not None and probability < SILENCE:
            yield begin, k * seconds
            begin = None
    if begin is not None:
        yield begin, end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("recording", type=Path)
    options = parser.parse_args()
    samples, rate = recording(options.recording)
    heard = probabilities(MNN.load(options.model), samples, rate)
    for begin, end in spans(heard, WINDOW[rate] / rate):
        print(f"{begin:7.2f} s to {end:7.2f} s")


if __name__ == "__main__":
    main()
