"""What families draw from, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tests.frontends.ncnn.build import Model, Weight
from tests.frontends.trials import entry

T = TypeVar("T")


@dataclass
class Case:
    """A model with its inputs. ``tolerance``: of the largest number; ``steps``: how far integers may be apart."""

    model: Model
    tolerance: float = 2e-5
    steps: int = 0


class Draw:
    """Seeded choices, and a model to put them in."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.model = Model()

    def int(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def one(self, options: Sequence[T]) -> T:
        return options[int(self.rng.integers(len(options)))]

    def shape(self, low: int = 1, high: int = 4, most: int = 9) -> list[int]:
        return [self.int(1, most) for _ in range(self.int(low, high))]

    def array(self, shape: Sequence[int], low: float = -2, high: float = 2) -> np.ndarray:
        return (low + (high - low) * self.rng.random(shape)).astype(np.float32)

    def input(self, shape: Sequence[int], low: float = -2, high: float = 2, **more: Any) -> str:
        return self.model.input(self.array(shape, low, high), **more)

    def weight(self, count: int, kind: str = "", scale: float = 1.0) -> Weight:
        """Weights in one of the ways that files have."""
        return Weight(self.array([count], -scale, scale), kind or self.one(["float", "float", "half", "table"]))

    def plain(self, count: int, low: float = -1, high: float = 1) -> Weight:
        return Weight(self.array([count], low, high), "plain")

    def case(self, **more: Any) -> Case:
        return Case(self.model, **more)


Family = Callable[[Draw], Case]
FAMILIES: dict[str, Family] = {}


def family(*names: str) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """Enters a family for layers; one for several is told which."""
    return entry(FAMILIES, *names)
