"""A trained TorchScript program with branches, an LSTM and states: speech detection, against its ONNX form."""

from __future__ import annotations

import numpy as np
import pytest

import MNN
from MNN.stateful import StatefulModel
from tests import zoo


@pytest.mark.parametrize(("rate", "samples", "context"), [(16000, 512, 64), (8000, 256, 32)])
def test_speech_detection_answers_as_its_onnx_form(rate: int, samples: int, context: int) -> None:
    """What ``forward`` assigns to attributes (the LSTM's state, the end of the last window) goes on from run to run."""
    model = MNN.from_torch(zoo.path("silero_vad_torchscript"), {"x": (1, samples), "sr": rate})
    assert isinstance(model, StatefulModel)
    reference = MNN.load(zoo.path("silero_vad"))
    rng = np.random.default_rng(0)
    sound = np.cumsum(rng.standard_normal((20, samples)), 1).astype(np.float32) * 0.01
    state, before = np.zeros((2, 1, 128), np.float32), np.zeros((1, context), np.float32)
    for window in sound[:, None]:
        found = model.run({"x": window})["output"]
        feeds = {"input": np.concatenate([before, window], 1), "state": state, "sr": np.array(rate)}
        wanted = reference.run(feeds)
        state, before = wanted["stateN"], window[:, -context:]
        assert np.abs(found - wanted["output"]).max() < 1e-5
