"""Trained models keep their answers where tensors and products are bf16."""

from __future__ import annotations

import numpy as np
import pytest

from tests import zoo
from tests.models.answers import TASKS
from tests.models.runners import low_runner
from tests.models.task import Task
from tests.models.tasks import minilm, swift_f0
from tests.models.tasks.minilm import CAT, COSINES, KITTEN, STOCK, embed

EXACT = (minilm.TASK.name, swift_f0.TASK.name)
"""Tasks whose checks look at more digits than bf16 has; their answers are looked at below."""

pytestmark = pytest.mark.real


@pytest.mark.parametrize("task", [t for t in TASKS if t.name not in EXACT], ids=lambda t: t.name)
def test_answers(task: Task) -> None:
    task.check(*(low_runner(zoo.path(key)) for key in task.models))


def test_similarity_of_sentences() -> None:
    run = low_runner(zoo.path("minilm"))
    cat, kitten, stock = (embed(run, text)[0] for text in (CAT, KITTEN, STOCK))
    assert abs(float(cat @ kitten) - COSINES[0]) < 0.005
    assert abs(float(cat @ stock) - COSINES[1]) < 0.005


def test_pitch_of_tones() -> None:
    run = low_runner(zoo.path("swift_f0"))
    for frequency, expected in swift_f0.EXPECTED.items():
        found = run(swift_f0.inputs(swift_f0.tone((frequency,), swift_f0.RATE, swift_f0.RATE)))
        pitch, confidence = found["pitch"][0, 5:-5], found["confidence"][0, 5:-5]
        assert abs(float(np.median(pitch)) / expected - 1) < 0.006  # a tenth of a semitone
        assert float(confidence.min()) > 0.4
