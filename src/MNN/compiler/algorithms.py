"""Choosing between ways to compute one node: the cheapest by the cost model, or the one that was measured to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


CLOSE = 1.1
"""How many times the least cycles an algorithm may take to be kept when a node comes with another size: its weights are
packed and its kernel is compiled already, and packing them for another one would take memory for as long as both are
in use."""


def choose(
    signature: str, candidates: Sequence[Candidate], tuned: Mapping[str, str], earlier: str = ""
) -> tuple[Candidate, Choice]:
    """The candidate to emit: the tuned one where ``tuned`` knows the signature, else the one taken ``earlier`` for the
    same node at another size while that is close to the best, else the least cycles.

    ``candidates`` must not be empty. A name that is no candidate (of another version, say) is ignored.
    """
    ranked = sorted(candidates, key=lambda c: c.cycles)
    best = next((c for c in ranked if c.name == tuned.get(signature)), None)
    reason = "measured" if best is not None else "only way" if len(ranked) == 1 else "estimated"
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
