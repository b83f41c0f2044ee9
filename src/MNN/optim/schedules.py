"""Learning rates that change with the step: functions from the number of a step (from 0 on) to a rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Schedule = Callable[[int], float]


def constant(rate: float) -> Schedule:
    """The same rate for all steps."""
    return lambda step: rate


def cosine(rate: float, steps: int, least: float = 0.0) -> Schedule:
    """From ``rate`` to ``least`` along half a cosine (Loshchilov and Hutter, 2017)."""
    return lambda step: least + (rate - least) * 0.5 * (1 + math.cos(math.pi * min(step / max(steps, 1), 1.0)))


def linear(rate: float, steps: int, least: float = 0.0) -> Schedule:
    """From ``rate`` to ``least`` along a line."""
    return lambda step: rate + (least - rate) * min(step / max(steps, 1), 1.0)


def exponential(rate: float, factor: float, every: int = 1) -> Schedule:
    """Times ``factor`` after every so many steps."""
    return lambda step: rate * factor ** (step // every)


def milestones(rate: float, steps: Sequence[int], factor: float = 0.1) -> Schedule:
    """Times ``factor`` at each of these steps."""
    return lambda step: rate * factor ** sum(step >= s for s in steps)


def warmup(schedule: Schedule, steps: int) -> Schedule:
    """Rising along a line for so many steps, then as ``schedule`` says of those after it."""
    return lambda step: schedule(0) * (step + 1) / steps if step < steps else schedule(step - steps)


__all__ = ["Schedule", "constant", "cosine", "exponential", "linear", "milestones", "warmup"]
