"""All task checks of trained models, for any engine: ``for task in TASKS: task.check(*runs of task.models)``."""

from __future__ import annotations

from tests.models.task import Task
from tests.models.tasks import basic_pitch, imagenet, magika, minilm, ppocr, silero, swift_f0

TASKS: tuple[Task, ...] = (
    swift_f0.TASK,
    *silero.TASKS,
    magika.TASK,
    *ppocr.TASKS,
    basic_pitch.TASK,
    imagenet.TASK,
    minilm.TASK,
)
# tasks of one model, whose feeds serve comparisons number by number
SINGLE: tuple[Task, ...] = tuple(task for task in TASKS if len(task.models) == 1)
