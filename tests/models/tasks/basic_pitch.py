"""Basic Pitch: notes in two seconds of sound at 22,050 Hz; outputs are frames x 88 keys (MIDI 21 is the first)."""

from __future__ import annotations

import numpy as np

from tests.models.media import sound, tone
from tests.models.task import Array, Run, Task

RATE, SAMPLES, LOWEST_KEY = 22050, 43844, 21
INPUT, NOTES, CONTOURS = "serving_default_input_2:0", "StatefulPartitionedCall:1", "StatefulPartitionedCall:0"


def _chord() -> Array:
    """A4 (440 Hz) and E5 with three partials each."""
    return tone((440.0, 659.255), RATE, SAMPLES, 3)[None, :, None]


def check(run: Run) -> None:
    outputs = run({INPUT: _chord()})
    notes, contours = outputs[NOTES], outputs[CONTOURS]
    assert notes.shape == (1, 172, 88)
    assert contours.shape == (1, 172, 264)
    strength = np.mean(notes[0, 20:150], 0)
    sounding = [int(k) + LOWEST_KEY for k in np.flatnonzero(strength > 0.6)]
    assert sounding == [69, 76]
    bins = np.sort(np.argsort(np.mean(contours[0, 20:150], 0))[-2:])  # three bins a semitone, the middle one in tune
    assert [round((int(b) - 1) / 3) + LOWEST_KEY for b in bins] == [69, 76]


def feeds() -> list[dict[str, Array]]:
    """Speech, and speech over noise.

    Not pure tones: between their partials is nothing, and the logarithm of the almost silent bands magnifies rounding
    so much that one engine differs from itself by 1e-3 when the order of sums changes.
    """
    speech = sound("speech_beckett", 16000)
    noise = np.random.default_rng(0).standard_normal(SAMPLES).astype(np.float32) * 0.01
    first = np.repeat(speech[20000 : 20000 + SAMPLES // 2], 2)
    second = np.repeat(speech[60000 : 60000 + SAMPLES // 2], 2) + noise
    return [{INPUT: first.reshape(1, SAMPLES, 1)}, {INPUT: second.reshape(1, SAMPLES, 1)}]


TASK = Task("basic_pitch", ("basic_pitch",), check, feeds)
