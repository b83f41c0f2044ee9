"""The ways to compute a convolution or matrix product: each kernel family registers its own."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from MNN.backends.base.candidates import Candidate
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import load_families
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.products.lane_groups import Lanes
from MNN.backends.cpu.products.product import Product
from MNN.ir.prims import Prim, Tensor


@dataclass(frozen=True)
class Contraction:
    """What has to be computed, as all ways see it: ``product`` with ``weights`` on its right, for the primitive
    ``prim``, a convolution where there is a ``window``. The plain way is called ``plain``; ``signature`` names the work
    for tuning. ``in_lines`` gives the same with the groups of channels that lie in a line of memory as one; None where
    that changes nothing. ``in_sections`` gives it as one product whose columns have, in sections of so many, a part of
    the channels each; None where groups do not come out even. ``in_lanes`` gives it with groups side by side in the
    lanes of vectors (:mod:`MNN.backends.cpu.products.lane_groups`), where they are small; ``in_panels`` as one product,
    with the weights and the number of groups."""

    prim: Prim
    plain: str
    signature: str
    product: Product
    weights: Weights
    window: Window | None = None
    in_lines: Callable[[], tuple[Product, Weights, Window] | None] = lambda: None
    in_sections: Callable[[int], tuple[Product, Weights, Window] | None] = lambda columns: None
    in_lanes: Callable[[], tuple[Product, Weights, Lanes] | None] = lambda: None
    in_panels: Callable[[], tuple[Product, Tensor, int] | None] = lambda: None


Make = Callable[[Emitter, Contraction, str], list[Candidate]]
"""The candidates of a way, none where it does not apply. Where the last argument names one that is settled, a way that
has it may leave out the others."""
M = TypeVar("M", bound=Make)


@dataclass(frozen=True)
class ContractionAlgorithm:
    """``begins``: what the names of its candidates begin with; empty: they are called as the contraction says.
    ``parts``: it takes a left side that is kept in two bf16 parts."""

    begins: str
    rank: int
    parts: bool
    make: Make

    def may_be(self, name: str, work: Contraction) -> bool:
        """Whether a candidate of this name can be one of this way."""
        return name.startswith(self.begins or work.plain)


_ALGORITHMS: list[ContractionAlgorithm] = []


def contraction_algorithm(begins: str, rank: int, parts: bool = False) -> Callable[[M], M]:
    """Decorator: makes a way known. Of candidates with equal costs the one of the lowest ``rank`` is taken."""

    def add(make: M) -> M:
        _ALGORITHMS.append(ContractionAlgorithm(begins, rank, parts, make))
        _ALGORITHMS.sort(key=lambda w: w.rank)
        return make

    return add


class Cycles(NamedTuple):
    """What a contraction takes the plain way, and the best way."""

    plain: float
    best: float


_asked: contextvars.ContextVar[list[Cycles] | None] = contextvars.ContextVar("asked", default=None)


@contextlib.contextmanager
def plain_ways() -> Iterator[list[Cycles]]:
    """Within this context contractions are computed the plain way, whose kernel can be a stage of a chain; gives what
    each takes."""
    found: list[Cycles] = []
    token = _asked.set(found)
    try:
        yield found
    finally:
        _asked.reset(token)


def only_asked() -> bool:
    """Whether candidates are asked for what they would take alone, as in :func:`plain_ways`: where the product stands
    beside them it does not matter."""
    return _asked.get() is not None


def candidates(e: Emitter, work: Contraction, settled: str, parts: bool = False) -> list[Candidate]:
    """The candidates of all ways (with ``parts`` of those that take them), or where an algorithm is ``settled`` and
    still possible that one alone; see :func:`plain_ways`."""
    load_families()
    algorithms: Sequence[ContractionAlgorithm] = [w for w in _ALGORITHMS if w.parts or not parts]
    asked = _asked.get()
    if asked is not None:
        every = [c for one in algorithms for c in one.make(e, work, "")]
        plain = [c for c in every if c.name == work.plain]
        if plain:
            asked.append(Cycles(plain[0].cycles, min(c.cycles for c in every)))
        return plain or every
    for one in algorithms if settled else ():
        if one.may_be(settled, work):
            found = [c for c in one.make(e, work, settled) if c.name == settled]
            if found:
                return found
    return [c for one in algorithms for c in one.make(e, work, settled)]


__all__ = [
    "Contraction",
    "ContractionAlgorithm",
    "Cycles",
    "candidates",
    "contraction_algorithm",
    "only_asked",
    "plain_ways",
]
