"""Many random models against ncnn: ``python -m tests.frontends.ncnn.trial [--cases N] [--only NAME,NAME]``."""

from __future__ import annotations

import argparse
import zlib
from collections import Counter

from tests.frontends.ncnn.cases import FAMILIES, Case, Draw
from tests.frontends.ncnn.compare import difference
from tests.frontends.ncnn.peer import answers


def made(name: str, seed: int) -> Case:
    """A family's case of a seed."""
    return FAMILIES[name](Draw(zlib.crc32(name.encode()) * 1000 + seed))


def trial(names: list[str], seeds: range) -> dict[str, list[str]]:
    """What went wrong, by family; what ncnn itself refuses begins with ``ncnn``."""
    cases = {(n, s): made(n, s) for n in names for s in seeds}
    found = answers({_key(n, s): c.model for (n, s), c in cases.items()})
    wrong: dict[str, list[str]] = {n: [] for n in names}
    for (name, seed), case in cases.items():
        answer = found[_key(name, seed)]
        said = f"ncnn: {answer.error}" if answer.error else difference(case, answer)
        if said:
            wrong[name].append(f"seed {seed}: {said}")
    return wrong


def _key(name: str, seed: int) -> str:
    return f"{name.replace(' ', '-')}-{seed}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    names = [n for n in FAMILIES if not given.only or n in given.only.split(",")]
    wrong = trial(names, range(given.seed, given.seed + given.cases))
    counts: Counter[str] = Counter()
    for name, said in wrong.items():
        refused = [s for s in said if "ncnn:" in s]
        counts["refused by ncnn"] += len(refused)
        counts["failed"] += len(said) - len(refused)
        counts["passed"] += given.cases - len(said)
        if said:
            print(f"{name}: {len(said)} of {given.cases}: {said[0][:400]}")
    print(f"{len(names)} families: {dict(counts)}")


if __name__ == "__main__":
    main()
