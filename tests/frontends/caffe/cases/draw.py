"""What families draw from, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tests.frontends.caffe.build import inputs, layer
from tests.frontends.trials import entry

T = TypeVar("T")


@dataclass
class Case:
    """A network and its inputs. ``wanted``: outputs as numpy has them; without any, OpenCV's count. ``rows``: outputs
    whose rows are compared in any order."""

    net: dict[str, Any]
    feeds: dict[str, np.ndarray]
    outputs: tuple[str, ...]
    wanted: Mapping[str, np.ndarray] = field(default_factory=dict)
    tolerance: float = 2e-5
    rows: bool = False


class Draw:
    """Seeded choices, and the layers of a network."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.feeds: dict[str, np.ndarray] = {}
        self.layers: list[dict[str, Any]] = []

    def int(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def one(self, options: Sequence[T]) -> T:
        return options[int(self.rng.integers(len(options)))]

    def number(self, low: float, high: float) -> float:
        """One that f32 holds exactly."""
        return float(np.float32(low + (high - low) * self.rng.random()))

    def array(self, *shape: int, low: float = -2, high: float = 2) -> np.ndarray:
        return (low + (high - low) * self.rng.random(shape)).astype(np.float32)

    def image(self, low: int = 1, high: int = 9) -> tuple[int, int, int, int]:
        return self.int(1, 2), self.int(1, 6), self.int(low, high), self.int(low, high)

    def input(self, *shape: int, name: str = "data", low: float = -2, high: float = 2) -> np.ndarray:
        """An input with its numbers."""
        return self.fed(self.array(*shape, low=low, high=high), name)

    def fed(self, array: np.ndarray, name: str) -> np.ndarray:
        """An input with these numbers."""
        self.feeds[name] = array.astype(np.float32)
        self.layers += inputs(**{name: array.shape})
        return self.feeds[name]

    def add(
        self, kind: str, bottoms: Sequence[str], tops: Sequence[str] = ("out",), *blobs: np.ndarray, **params: Any
    ) -> None:
        """Appends a layer; parameters that are None or empty are left out."""
        kept = {k: {f: v for f, v in p.items() if v is not None} for k, p in params.items()}
        self.layers.append(layer(kind, bottoms, tops, blobs, **{k: p for k, p in kept.items() if p}))

    def case(self, *outputs: str, wanted: Sequence[np.ndarray] = (), **more: Any) -> Case:
        """The case whose results are these blobs."""
        names = outputs or ("out",)
        net = {"name": "net", "layer": self.layers}
        return Case(net, self.feeds, names, dict(zip(names, wanted, strict=bool(wanted))), **more)


Family = Callable[[Draw], Case]
FAMILIES: dict[str, Family] = {}


def family(*names: str) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """Enters a family for layers; one for several is told which. What follows a space tells families of one apart."""
    return entry(FAMILIES, *names)
