"""Many random networks: ``python -m tests.frontends.caffe.trial [--cases N] [--only NAME]``."""

from __future__ import annotations

import argparse
import zlib
from collections import Counter

from tests.frontends.caffe.cases import FAMILIES, Case, Draw
from tests.frontends.caffe.compare import difference, request
from tests.frontends.caffe.opencv import answers


def made(name: str, seed: int) -> Case:
    """A family's case of a seed."""
    return FAMILIES[name](Draw(zlib.crc32(name.encode()) * 1000 + seed))


def trial(names: list[str], seeds: range) -> dict[str, list[str]]:
    """What went wrong, by family; what OpenCV refuses where nothing else tells the answer begins with ``OpenCV``."""
    cases = {(n, s): made(n, s) for n in names for s in seeds}
    asked = {_key(n, s): request(c) for (n, s), c in cases.items() if not c.wanted}
    found = answers(asked) if asked else {}
    wrong: dict[str, list[str]] = {n: [] for n in names}
    for (name, seed), case in cases.items():
        said = difference(case, found.get(_key(name, seed)))
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
        counts["refused by OpenCV"] += sum(" OpenCV:" in s for s in said)
        counts["failed"] += sum(" OpenCV:" not in s for s in said)
        if said:
            print(f"{name}: {len(said)} of {given.cases}: {said[0][:300]}")
    print(f"{len(names)} families: {dict(counts)}")


if __name__ == "__main__":
    main()
