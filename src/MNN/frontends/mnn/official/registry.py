"""The official form of each operator, by its name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from MNN.discovery import import_modules
from MNN.frontends.mnn.official.record import Layout, Official
from MNN.ops.core.base import operators

_UNTOLD = Official()


@cache
def officials() -> dict[str, Official]:
    """All that the files in ``operators/`` say. Raises ValueError for what :func:`joined` refuses."""
    return joined((m.__name__, m.OPERATORS) for m in import_modules("MNN.frontends.mnn.official.operators"))


def joined(files: Iterable[tuple[str, dict[str, Official]]]) -> dict[str, Official]:
    """The records of several files, which come with their names.

    Raises ValueError for an operator that is told twice, and for one that neither this engine has nor a record says to
    stand for others.
    """
    found: dict[str, Official] = {}
    for name, told in files:
        if twice := sorted(found.keys() & told.keys()):
            raise ValueError(f"{name}: told twice: {', '.join(twice)}")
        own = {op for op, form in told.items() if not form.stands_for}.union(*(f.stands_for for f in told.values()))
        if unknown := sorted(own - operators().keys()):
            raise ValueError(f"{name}: no operators: {', '.join(unknown)}")
        found |= told
    return found


def official(operator: str) -> Official:
    """What is said of an operator; defaults for one of which nothing is."""
    return officials().get(operator, _UNTOLD)


def packs_first(operator: str) -> bool:
    """Whether its first input and its outputs are packed, and other inputs plain."""
    return official(operator).layout is Layout.PACKED_FIRST
