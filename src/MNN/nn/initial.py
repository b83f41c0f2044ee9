"""What parameters begin with: numbers of one generator, which a seed starts anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.nn import settings

_generator = np.random.default_rng()
_layers = 0


def seed(number: int) -> None:
    """The layers made from now on begin with the same numbers for the same seed, and drop out the same."""
    global _generator, _layers
    _generator, _layers = np.random.default_rng(settings.seed("a seed", number)), 0


def xavier(shape: Sequence[int], fan_in: int) -> np.ndarray:
    """Uniform within ``sqrt(3 / fan_in)`` (Glorot and Bengio, 2010, as MNN has it)."""
    reach = math.sqrt(3.0 / max(fan_in, 1))
    return _of(shape, lambda: _generator.uniform(-reach, reach, tuple(shape)))


def normal(shape: Sequence[int], deviation: float) -> np.ndarray:
    """Normally distributed around zero."""
    return _of(shape, lambda: _generator.standard_normal(tuple(shape)) * deviation)


def constant(count: int, number: float) -> np.ndarray:
    """The same number so many times."""
    return _of([count], lambda: np.full(count, number, np.float32))


def _of(shape: Sequence[int], make: Callable[[], np.ndarray]) -> np.ndarray:
    try:
        return make().astype(np.float32, copy=False)
    except (MemoryError, ValueError) as error:  # numpy's, of more numbers than an address has bits for
        raise MNNError(f"there is no memory for a parameter of shape {list(shape)}") from error


def next_seed() -> int:
    """A seed for what draws numbers while it is trained; another one for every layer."""
    global _layers
    _layers += 1
    return int(_generator.integers(1 << 24)) * 256 + _layers % 256


__all__ = ["constant", "next_seed", "normal", "seed", "xavier"]
