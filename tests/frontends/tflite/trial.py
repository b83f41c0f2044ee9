"""Many random models against LiteRT: ``python -m tests.frontends.tflite.trial [--cases N] [--only NAME]``."""

from __future__ import annotations

import argparse
import zlib
from collections import Counter

from tests.frontends.tflite.cases import FAMILIES, Case, Draw
from tests.frontends.tflite.compare import difference
from tests.frontends.tflite.litert import Request, answers


def made(name: str, seed: int) -> Case:
    """A family's case of a seed."""
    return FAMILIES[name](Draw(zlib.crc32(name.encode()) * 1000 + seed))


def trial(names: list[str], seeds: range) -> dict[str, list[str]]:
    """What went wrong, by family; what LiteRT itself refuses begins with ``LiteRT``."""
    cases = {(n, s): made(n, s) for n in names for s in seeds}
    requests = {_key(n, s): Request(c.model.finish(), c.runs, c.reference) for (n, s), c in cases.items()}
    found = answers(requests)
    wrong: dict[str, list[str]] = {n: [] for n in names}
    for (name, seed), case in cases.items():
        answer = found[_key(name, seed)]
        said = f"LiteRT: {answer.error}" if answer.error else difference(case, answer)
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
        counts["passed"] += given.cases - len(said)
        counts["refused by LiteRT"] += sum("LiteRT:" in s for s in said)
        counts["failed"] += sum("LiteRT:" not in s for s in said)
        if said:
            print(f"{name}: {len(said)} of {given.cases}: {said[0][:300]}")
    print(f"{len(names)} families: {dict(counts)}")


if __name__ == "__main__":
    main()
