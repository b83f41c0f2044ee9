"""Silero VAD: probability of speech for every 512 samples (32 ms) at 16 kHz, with a recurrent state.

All variants take the 64 samples before a window in front of it. The general model also takes 8 kHz (256 + 32 samples).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tests.models.media import sound
from tests.models.task import Array, Run, Task

Step = Callable[[Run, Array, Array], tuple[float, Array]]


def _step(with_rate: bool, rate: int, run: Run, window: Array, state: Array) -> tuple[float, Array]:
    feeds: dict[str, Array] = {"input": window, "state": state}
    if with_rate:
        feeds["sr"] = np.array(rate, np.int64)
    outputs = run(feeds)
    return float(outputs["output"].item()), outputs["stateN"]


def probabilities(run: Run, audio: Array, with_rate: bool, rate: int = 16000) -> list[float]:
    """Speech probability of each window of ``audio``."""
    size, context = (512, 64) if rate == 16000 else (256, 32)
    state: Array = np.zeros((2, 1, 128), np.float32)
    padded = np.concatenate([np.zeros(context, np.float32), audio])
    found = []
    for start in range(0, len(audio) - size + 1, size):
        window = padded[start : start + context + size][None]
        probability, state = _step(with_rate, rate, run, window, state)
        found.append(probability)
    return found


def _silence(samples: int) -> Array:
    return (np.random.default_rng(0).standard_normal(samples) * 1e-4).astype(np.float32)


def _check(with_rate: bool, rates: tuple[int, ...], run: Run) -> None:
    for rate in rates:
        heard = probabilities(run, sound("speech_two_cities", rate)[: 3 * rate], with_rate, rate)
        _check_recording(heard, rate)
        quiet = probabilities(run, _silence(rate), with_rate, rate)
        assert max(quiet[5:]) < 0.05, f"silence at {rate} Hz: up to {max(quiet[5:])}"


def _check_recording(heard: list[float], rate: int) -> None:
    """The recording begins with 1.1 s of room noise; its first sentence goes on until 2.8 s."""
    room, speech = heard[20:34], heard[42:86]
    assert max(room) < 0.05, f"room noise at {rate} Hz: up to {max(room)}"
    assert min(speech) > 0.75, f"speech at {rate} Hz: down to {min(speech)}"
    assert float(np.median(speech)) > 0.99


def _feeds(with_rate: bool) -> list[dict[str, Array]]:
    audio = sound("speech_two_cities", 16000)
    state = np.random.default_rng(1).standard_normal((2, 1, 128)).astype(np.float32) * 0.3
    result: list[dict[str, Array]] = []
    for start in (16000, 40000):
        feeds: dict[str, Array] = {"input": audio[None, start : start + 576], "state": state}
        if with_rate:
            feeds["sr"] = np.array(16000, np.int64)
        result.append(feeds)
    return result


def _sequence_inputs(audio: Array) -> dict[str, Array]:
    """All windows of ``audio`` at once, [windows, 576]: the LSTM runs over them inside the model."""
    padded = np.concatenate([np.zeros(64, np.float32), audio])
    windows = np.stack([padded[k : k + 576] for k in range(0, len(audio) - 511, 512)])
    zero = np.zeros((1, 1, 128), np.float32)
    return {"input": windows, "h": zero, "c": zero}


def _sequence_feeds() -> list[dict[str, Array]]:
    audio = sound("speech_two_cities", 16000)
    return [_sequence_inputs(audio[16000:36480]), _sequence_inputs(audio[:3000])]


def _check_sequence(run: Run) -> None:
    heard = run(_sequence_inputs(sound("speech_two_cities", 16000)[:48000]))["speech_probs"]
    _check_recording(heard.tolist(), 16000)
    quiet = run(_sequence_inputs(_silence(16000)))["speech_probs"]
    assert float(np.max(quiet[5:])) < 0.05


def _task(name: str, with_rate: bool, rates: tuple[int, ...] = (16000,)) -> Task:
    return Task(name, (name,), partial(_check, with_rate, rates), partial(_feeds, with_rate))


TASKS = (
    _task("silero_vad", True, (16000, 8000)),
    _task("silero_vad_16k", True),
    _task("silero_vad_half", False),
    _task("silero_vad_ifless", True, (16000, 8000)),
    _task("silero_vad_openvino", False),
    Task("silero_vad_sequence", ("silero_vad_sequence",), _check_sequence, _sequence_feeds),
)
