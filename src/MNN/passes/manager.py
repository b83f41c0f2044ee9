"""Runs graph passes: found by file, run in rounds until nothing changes, each one can be switched off."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from MNN.discovery import import_modules
from MNN.errors import MISFITS, MNNError
from MNN.ir.graph import Graph
from MNN.ir.verify import verify

MAX_ROUNDS = 8


@dataclass(frozen=True)
class Pass:
    """A rewriting of graphs that keeps their meaning.

    ``run`` changes the graph in place and returns how many places it changed. Passes run in order of ``rank``; those
    whose ``level`` is above the optimisation level are left out. Level 1 is exact up to rounding; level 2 may cost a
    file more bytes to make it faster.
    """

    name: str
    run: Callable[[Graph], int]
    rank: int
    level: int = 1


@functools.cache
def passes() -> dict[str, Pass]:
    """All passes by name, in running order. A pass is a module of this package that defines ``PASS``."""
    found: list[Pass] = [module.PASS for module in import_modules(__package__) if hasattr(module, "PASS")]
    return {p.name: p for p in sorted(found, key=lambda p: (p.rank, p.name))}


def optimize(
    graph: Graph,
    level: int = 1,
    disabled: Iterable[str] = (),
    progress: Callable[[str, int], None] | None = None,
) -> dict[str, int]:
    """Runs the passes of this level on a graph (and its subgraphs) in place; gives the changes made per pass.

    ``disabled`` names passes to leave out; an unknown name is an :class:`MNNError` that lists the known ones.
    ``progress`` is called with each pass's name and its number of changes.
    """
    known = passes()
    unknown = sorted(set(disabled) - set(known))
    if unknown:
        raise MNNError(f"no pass is called {', '.join(unknown)}; the passes are: {', '.join(known)}")
    chosen = [p for p in known.values() if p.level <= level and p.name not in set(disabled)]
    totals = {p.name: 0 for p in chosen}
    held: dict[Graph, list[Graph]] = {}
    made, clean = 0, dict.fromkeys(totals, -1)  # changes in all, and how many there were when a pass had none to make
    for _ in range(MAX_ROUNDS):
        before = made
        for p in chosen:
            changes = 0 if clean[p.name] == made else _run_everywhere(p, graph, held)
            if changes:
                totals[p.name] += changes
                made += changes
                verify(graph, f"after pass {p.name}")
            else:
                clean[p.name] = made
            if progress is not None:
                progress(p.name, changes)
        if made == before:
            break
    return totals


def _run_everywhere(p: Pass, graph: Graph, held: dict[Graph, list[Graph]]) -> int:
    """``held``: the subgraphs that a graph's nodes hold, while no pass changes any."""
    try:
        changes = p.run(graph)
    except MISFITS as error:
        what = f"{type(error).__name__}: {error}"
        raise MNNError(f"pass {p.name} failed ({what}); is the model damaged? The pass can be disabled") from error
    if changes:
        held.clear()
    if graph not in held:
        held[graph] = [sub for node in graph.nodes for _, sub in node.subgraphs()]
    for sub in held[graph]:
        changes += _run_everywhere(p, sub, held)
    return changes
