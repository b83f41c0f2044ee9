"""Many random models against ncnn: ``python -m tests.frontends.ncnn.trial [--cases N] [--only NAME,NAME]``."""

from __future__ import annotations

from tests.frontends.ncnn.cases import FAMILIES, Case, Draw
from tests.frontends.ncnn.compare import difference
from tests.frontends.ncnn.peer import answers
from tests.frontends.trials import command, key_of, seed_of


def made(name: str, seed: int) -> Case:
    """A family's case of a seed."""
    return FAMILIES[name](Draw(seed_of(name, seed)))


def trial(names: list[str], seeds: range) -> dict[str, list[str]]:
    """What went wrong, by family; what ncnn itself refuses begins with ``ncnn``."""
    cases = {(n, s): made(n, s) for n in names for s in seeds}
    found = answers({key_of(n, s): c.model for (n, s), c in cases.items()})
    wrong: dict[str, list[str]] = {n: [] for n in names}
    for (name, seed), case in cases.items():
        answer = found[key_of(name, seed)]
        said = f"ncnn: {answer.error}" if answer.error else difference(case, answer)
        if said:
            wrong[name].append(f"seed {seed}: {said}")
    return wrong


if __name__ == "__main__":
    command(FAMILIES, trial, "ncnn")
