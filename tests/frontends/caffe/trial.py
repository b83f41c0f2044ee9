"""Many random networks: ``python -m tests.frontends.caffe.trial [--cases N] [--only NAME]``."""

from __future__ import annotations

from tests.frontends.caffe.cases import FAMILIES, Case, Draw
from tests.frontends.caffe.compare import difference, request
from tests.frontends.caffe.opencv import answers
from tests.frontends.trials import command, key_of, seed_of


def made(name: str, seed: int) -> Case:
    """A family's case of a seed."""
    return FAMILIES[name](Draw(seed_of(name, seed)))


def trial(names: list[str], seeds: range) -> dict[str, list[str]]:
    """What went wrong, by family; what OpenCV refuses where nothing else tells the answer begins with ``OpenCV``."""
    cases = {(n, s): made(n, s) for n in names for s in seeds}
    asked = {key_of(n, s): request(c) for (n, s), c in cases.items() if not c.wanted}
    found = answers(asked) if asked else {}
    wrong: dict[str, list[str]] = {n: [] for n in names}
    for (name, seed), case in cases.items():
        said = difference(case, found.get(key_of(name, seed)))
        if said:
            wrong[name].append(f"seed {seed}: {said}")
    return wrong


if __name__ == "__main__":
    command(FAMILIES, trial, "OpenCV")
