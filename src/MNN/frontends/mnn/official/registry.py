"""The official form of each operator, by its name."""

from __future__ import annotations

from functools import cache

from MNN.discovery import import_modules
from MNN.frontends.mnn.official.record import Layout, Official

_UNTOLD = Official()


@cache
def officials() -> dict[str, Official]:
    """All that the files in ``operators/`` say. Raises ValueError for an operator that is told twice."""
    found: dict[str, Official] = {}
    for module in import_modules("MNN.frontends.mnn.official.operators"):
        told: dict[str, Official] = module.OPERATORS
        if twice := sorted(found.keys() & told.keys()):
            raise ValueError(f"{module.__name__}: told twice: {', '.join(twice)}")
        found |= told
    return found


def official(operator: str) -> Official:
    """What is said of an operator; defaults for one of which nothing is."""
    return officials().get(operator, _UNTOLD)


def packs_first(operator: str) -> bool:
    """Whether its first input and its outputs are packed, and other inputs plain."""
    return official(operator).layout is Layout.PACKED_FIRST
