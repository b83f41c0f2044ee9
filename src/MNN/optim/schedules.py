"""Learning rates that change with the step: functions from the number of a step (from 0 on) to a rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.nn.settings import not_negative, whole

Schedule = Callable[[int], float]


def constant(rate: float) -> Schedule:
    """The same rate for all steps."""
    not_negative("the rate of a schedule", rate)
    return lambda step: rate


def cosine(rate: float, steps: int, least: float = 0.0) -> Schedule:
    """From ``rate`` to ``least`` along half a cosine (Loshchilov and Hutter, 2017)."""
    count = _along(rate, steps, least)
    return lambda step: least + (rate - least) * 0.5 * (1 + math.cos(math.pi * min(step / count, 1.0)))


def linear(rate: float, steps: int, least: float = 0.0) -> Schedule:
    """From ``rate`` to ``least`` along a line."""
    count = _along(rate, steps, least)
    return lambda step: rate + (least - rate) * min(step / count, 1.0)


def exponential(rate: float, factor: float, every: int = 1) -> Schedule:
    """Times ``factor`` after every so many steps."""
    _times(rate, factor)
    whole("every", every)
    return lambda step: rate * factor ** (step // every)


def milestones(rate: float, steps: Sequence[int], factor: float = 0.1) -> Schedule:
    """Times ``factor`` at each of these steps."""
    _times(rate, factor)
    if not isinstance(steps, (Sequence, np.ndarray)) or not all(isinstance(s, (int, np.integer)) for s in steps):
        raise MNNError(f"milestones are the numbers of steps, such as [100, 200], found {steps!r}")
    return lambda step: rate * factor ** sum(step >= s for s in steps)


def warmup(schedule: Schedule, steps: int) -> Schedule:
    """Rising along a line for so many steps, then as ``schedule`` says of those after it."""
    if not callable(schedule):
        raise MNNError(f"warmup() takes a schedule, such as constant(0.1), found {schedule!r}")
    not_negative("the number of steps of a warmup", steps)
    return lambda step: schedule(0) * (step + 1) / steps if step < steps else schedule(step - steps)


def _along(rate: float, steps: int, least: float) -> float:
    """The number of steps of a schedule that ends, at least 1; its settings are checked."""
    not_negative("the rate of a schedule", rate)
    not_negative("the least rate of a schedule", least)
    return max(not_negative("the number of steps of a schedule", steps), 1.0)


def _times(rate: float, factor: float) -> None:
    not_negative("the rate of a schedule", rate)
    not_negative("the factor of a schedule", factor)


__all__ = ["Schedule", "constant", "cosine", "exponential", "linear", "milestones", "warmup"]
