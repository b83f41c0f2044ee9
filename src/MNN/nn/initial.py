"""What parameters begin with: numbers of one generator, which a seed starts anew."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.nn.settings import count

_generator = np.random.default_rng()
_layers = 0


def seed(number: int) -> None:
    """The layers made from now on begin with the same numbers for the same seed, and drop out the same."""
    global _generator, _layers
    if count("a seed", number) < 0:
        raise MNNError(f"a seed must not be negative, found {number}")
    _generator, _layers = np.random.default_rng(number), 0


def xavier(shape: Sequence[int], fan_in: int) -> np.ndarray:
    """Uniform within ``sqrt(3 / fan_in)`` (Glorot and Bengio, 2010, as MNN has it)."""
    reach = math.sqrt(3.0 / max(fan_in, 1))
    return _generator.uniform(-reach, reach, tuple(shape)).astype(np.float32)


def normal(shape: Sequence[int], deviation: float) -> np.ndarray:
    """Normally distributed around zero."""
    return (_generator.standard_normal(tuple(shape)) * deviation).astype(np.float32)


def next_seed() -> int:
    """A seed for what draws numbers while it is trained; another one for every layer."""
    global _layers
    _layers += 1
    return int(_generator.integers(1 << 24)) * 256 + _layers % 256


__all__ = ["next_seed", "normal", "seed", "xavier"]
