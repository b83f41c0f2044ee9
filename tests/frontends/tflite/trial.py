"""Many random models against LiteRT: ``python -m tests.frontends.tflite.trial [--cases N] [--only NAME]``."""

from __future__ import annotations

from tests.frontends.tflite.cases import FAMILIES, FORMS, Case, Draw
from tests.frontends.tflite.compare import difference
from tests.frontends.tflite.litert import Request, answers
from tests.frontends.trials import command, key_of, seed_of


def made(name: str, seed: int) -> Case:
    """A family's case of a seed."""
    return (FAMILIES | FORMS)[name](Draw(seed_of(name, seed)))


def trial(names: list[str], seeds: range) -> dict[str, list[str]]:
    """What went wrong, by family; what LiteRT itself refuses begins with ``LiteRT``."""
    cases = {(n, s): made(n, s) for n in names for s in seeds}
    requests = {key_of(n, s): Request(c.model.finish(), c.runs, c.reference) for (n, s), c in cases.items()}
    found = answers(requests)
    wrong: dict[str, list[str]] = {n: [] for n in names}
    for (name, seed), case in cases.items():
        answer = found[key_of(name, seed)]
        said = f"LiteRT: {answer.error}" if answer.error else difference(case, answer)
        if said:
            wrong[name].append(f"seed {seed}: {said}")
    return wrong


if __name__ == "__main__":
    command(FAMILIES | FORMS, trial, "LiteRT")
