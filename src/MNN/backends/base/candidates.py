"""Choosing between ways to compute one node: the cheapest by the cost model, or the one that was measured to be."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One way to compute a node."""

    name: str
    """What reports call it and tuning remembers, such as ``implicit GEMM 8x3`` or ``Winograd F(4,3)``."""
    cycles: float
    """The cost model's estimate for one thread, in cycles of the target."""
    emit: Callable[[], None]
    """Emits the commands."""


@dataclass(frozen=True)
class Choice:
    """What was chosen for a piece of work, and why; kept with its commands for reports and tuning."""

    signature: str
    """The work: operation, element types and extents. Equal work has equal signatures in every model."""
    name: str
    reason: str
    rejected: tuple[str, ...] = ()
    """Names of the candidates that were not taken."""


NEAR = 5.0
"""How many times more or less work of the same node has its algorithm without looking at others: for pictures of 2.2
times the height and width, say. Looking at all of them is most of what a plan for another size takes."""
CLOSE = 1.5
"""How many times the least cycles an algorithm may take to be kept when a node comes with another size: its weights are
packed and its kernel is compiled already, and packing them for another one would take memory for as long as both are
in use."""


def near(extent: int, known: Mapping[int, str]) -> str:
    """What was chosen for the nearest of the ``known`` extents of the same work, empty when all are far off."""
    if extent in known:
        return known[extent]
    nearest = min(known, key=lambda n: max(n, extent) / max(min(n, extent), 1), default=0)
    return known[nearest] if nearest and max(nearest, extent) <= NEAR * min(nearest, extent) else ""


_only = contextvars.ContextVar("only", default="")
_without = contextvars.ContextVar[tuple[str, ...]]("without", default=())


@contextlib.contextmanager
def restricted(only: str = "", without: Sequence[str] = ()) -> Iterator[None]:
    """For tests and experiments: within this context algorithms whose names begin with ``only`` are chosen wherever
    there are some, and those whose names begin with one of ``without`` only where there is no other."""
    tokens = _only.set(only), _without.set(tuple(without))
    try:
        yield
    finally:
        _only.reset(tokens[0])
        _without.reset(tokens[1])


def _allowed(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    only, without = _only.get(), _without.get()
    left = [c for c in candidates if not without or not c.name.startswith(without)] or candidates
    return [c for c in left if c.name.startswith(only)] or left


def choose(
    signature: str, candidates: Sequence[Candidate], tuned: Mapping[str, str], earlier: str = ""
) -> tuple[Candidate, Choice]:
    """The candidate to emit: the tuned one where ``tuned`` knows the signature, else the one taken ``earlier`` for the
    same node at another size while that is close to the best, else the least cycles.

    ``candidates`` must not be empty. A name that is no candidate (of another version, say) is ignored.
    """
    ranked = sorted(_allowed(candidates), key=lambda c: c.cycles)
    best = next((c for c in ranked if c.name == tuned.get(signature)), None)
    only = "kept from another size" if earlier else "only way"
    reason = "measured" if best is not None else only if len(ranked) == 1 else "estimated"
    if best is None:
        limit = CLOSE * ranked[0].cycles
        best = next((c for c in ranked if c.name == earlier and c.cycles <= limit), ranked[0])
        if best is not ranked[0]:
            reason = "kept from another size"
    others = tuple(c.name for c in ranked if c is not best)
    if len(ranked) > 1:
        listed = ", ".join(f"{c.name} {c.cycles / 1e3:,.0f}" for c in ranked)
        reason += f" (thousand cycles: {listed})"
    return best, Choice(signature, best.name, reason, others)
