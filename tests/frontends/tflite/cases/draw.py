"""What families draw from, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tests.frontends.tflite.build import TYPES, Graph, Model
from tests.frontends.trials import entry

T = TypeVar("T")


@dataclass
class Case:
    """A model and the inputs of its runs, by position. ``tolerance``: of the largest number; integers are exact unless
    ``steps`` may lie between. ``ties``: how far a few numbers (1 %) may be apart, whose rounded operands fell to
    another side. ``drawn``: the error is not compared, only sizes (random numbers)."""

    model: Model
    runs: list[list[np.ndarray]]
    tolerance: float = 1e-5
    steps: int = 0
    ties: float = 0.0
    reference: bool = False
    drawn: bool = False
    note: str = ""
    skip: list[int] = field(default_factory=list)


class Draw:
    """Seeded choices, and a model with one graph to put them in."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.model = Model()
        self.g: Graph = self.model.graph
        self.arrays: list[np.ndarray] = []

    def int(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def one(self, options: Sequence[T]) -> T:
        return options[int(self.rng.integers(len(options)))]

    def shape(self, low: int = 1, high: int = 4, most: int = 6) -> list[int]:
        return [self.int(1, most) for _ in range(self.int(low, high))]

    def array(self, shape: Sequence[int], kind: str = "FLOAT32", low: float = -2, high: float = 2) -> np.ndarray:
        dtype = np.dtype(next(k for k, v in TYPES.items() if v == kind))
        if kind == "BOOL":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            return self.rng.integers(max(int(low), info.min), min(int(high), info.max) + 1, shape).astype(dtype)
        return (low + (high - low) * self.rng.random(shape)).astype(dtype)

    def input(self, shape: Sequence[int], kind: str = "FLOAT32", low: float = -2, high: float = 2, **more: Any) -> int:
        """An input with its numbers."""
        self.arrays.append(self.array(shape, kind, low, high))
        return self.g.input(shape, kind, **more)

    def fed(self, array: np.ndarray, **more: Any) -> int:
        """An input with these numbers."""
        self.arrays.append(array)
        return self.g.input(array.shape, TYPES[array.dtype.name], **more)

    def case(self, *outputs: int, runs: int = 1, **more: Any) -> Case:
        """The case whose results are these tensors; further runs have other numbers."""
        self.g.outputs = list(outputs)
        others = [[self.rng.permutation(a.reshape(-1)).reshape(a.shape) for a in self.arrays] for _ in range(runs - 1)]
        return Case(self.model, [self.arrays, *others], **more)


Family = Callable[[Draw], Case]
FAMILIES: dict[str, Family] = {}
FORMS: dict[str, Family] = {}
"""More forms of quantised operators, of which tests try a few and :mod:`tests.frontends.tflite.trial` all."""


def family(*names: str) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """Enters a family for operators; one for several is told which."""
    return entry(FAMILIES, *names)


def form(*names: str) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """As :func:`family`, for forms."""
    return entry(FORMS, *names)
