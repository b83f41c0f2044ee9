"""SwiftF0: pitch of pure tones. Input audio [1, samples] at 16 kHz with a band in Hz; one frame per 256 samples."""

from __future__ import annotations

import numpy as np

from tests.models.media import sound, tone
from tests.models.task import Array, Run, Task

RATE = 16000
EXPECTED = {110.0: 110.1, 220.0: 220.0, 440.0: 439.7, 880.0: 877.8}  # what the trained weights say, in Hz


def inputs(audio: Array) -> dict[str, Array]:
    return {"audio": audio[None], "fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}


def check(run: Run) -> None:
    for frequency, expected in EXPECTED.items():
        outputs = run(inputs(tone((frequency,), RATE, RATE)))
        pitch, confidence = outputs["pitch"][0], outputs["confidence"][0]
        assert len(pitch) == 62  # one frame a hop, the last padded
        middle = slice(5, -5)
        assert abs(float(np.median(pitch[middle])) - expected) < 0.2
        assert float(np.min(confidence[middle])) > 0.4
    noise = np.random.default_rng(0).standard_normal(RATE).astype(np.float32) * 0.1
    assert float(np.max(run(inputs(noise))["confidence"])) < 0.2


def feeds() -> list[dict[str, Array]]:
    speech = sound("speech_beckett", RATE)
    # recordings have a noise floor; without one the logarithm of empty bands would show nothing but rounding
    floor = np.random.default_rng(5).standard_normal(5000).astype(np.float32) * np.float32(1e-3)
    return [inputs(speech[20000:36000]), inputs(tone((220.0, 330.0), RATE, 5000, 3) + floor)]


TASK = Task("swift_f0", ("swift_f0",), check, feeds)
