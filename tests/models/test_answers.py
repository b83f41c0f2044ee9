"""Trained models give their known answers, and the same numbers as ONNX Runtime, on every engine of ``runners``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from MNN.backends.cpu.amx.tiles import has_tiles
from MNN.backends.cpu.targets import host_target
from tests import zoo
from tests.models.answers import SINGLE, TASKS
from tests.models.light import LIGHT, SMALL, Light, randomised
from tests.models.runners import REFERENCE, RUNNERS, Runner, onnxruntime_runner
from tests.models.task import Run, Task, largest_error

TOLERANCE = 5e-4  # of the largest output: what the default precision promises
STEEP = 1e-3  # where matrix units multiply two parts of numbers that a steep function is taken of

pytestmark = pytest.mark.real


@pytest.fixture(params=sorted(RUNNERS))
def runner(request: pytest.FixtureRequest) -> Runner:
    """Each engine under test."""
    return RUNNERS[request.param]


@pytest.fixture(params=sorted(set(RUNNERS) - {REFERENCE}))
def other(request: pytest.FixtureRequest) -> Runner:
    """Each engine but the one compared with."""
    return RUNNERS[request.param]


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_task_answer(task: Task, runner: Runner) -> None:
    task.check(*(runner(zoo.path(key)) for key in task.models))


@pytest.mark.parametrize("task", SINGLE, ids=lambda t: t.name)
def test_same_numbers_as_reference(task: Task, other: Runner) -> None:
    path = zoo.path(task.models[0])
    tolerance = STEEP if task.steep and has_tiles(host_target()) else TOLERANCE
    _compare(other(path), onnxruntime_runner(path), task.feeds(), tolerance)


@pytest.mark.parametrize("light", LIGHT, ids=lambda m: m.name)
def test_light_model_stored_output(light: Light, runner: Runner) -> None:
    light.check(runner(light.path))


@pytest.mark.parametrize("name", SMALL)
def test_light_model_random_weights(name: str, other: Runner, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    onnx.save(randomised(name), str(path))
    ramp = Light(name).feeds()
    noise = {k: np.random.default_rng(3).standard_normal(v.shape).astype(np.float32) for k, v in ramp.items()}
    _compare(other(path), onnxruntime_runner(path), [ramp, noise])


def _compare(run: Run, reference: Run, all_feeds: list, tolerance: float = TOLERANCE) -> None:  # type: ignore[type-arg]
    for feeds in all_feeds:
        error = largest_error(run(feeds), reference(feeds))
        assert error < tolerance, f"largest error {error:.2e} of the largest output"
