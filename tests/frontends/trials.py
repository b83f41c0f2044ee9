"""Families of random models of a format, and the command that tries many of them against the format's own engine."""

from __future__ import annotations

import argparse
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

M = TypeVar("M", bound=Callable[..., Any])


def entry(families: dict[str, Any], *names: str) -> Callable[[M], M]:
    """Enters a family; one for several names is told which."""

    def add(make: M) -> M:
        for name in names:
            assert name not in families, name
            families[name] = make if len(names) == 1 else lambda d, name=name: make(d, name)
        return make

    return add


def seed_of(name: str, seed: int) -> int:
    """What a family's case of a seed is drawn with."""
    return zlib.crc32(name.encode()) * 1000 + seed


def key_of(name: str, seed: int) -> str:
    """What files of a case are called."""
    return f"{name.replace(' ', '-')}-{seed}"


def command(
    families: Mapping[str, Any], trial: Callable[[list[str], range], dict[str, list[str]]], peer: str
) -> None:  # fmt: skip
    """Prints what went wrong, by family; what the ``peer`` itself refuses begins with its name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="families, with commas between")
    given = parser.parse_args()
    names = [n for n in families if not given.only or n in given.only.split(",")]
    counts: Counter[str] = Counter()
    for name, said in trial(names, range(given.seed, given.seed + given.cases)).items():
        refused = sum(f" {peer}:" in s for s in said)
        counts["passed"] += given.cases - len(said)
        counts[f"refused by {peer}"] += refused
        counts["failed"] += len(said) - refused
        if said:
            print(f"{name}: {len(said)} of {given.cases}: {said[0][:400]}")
    print(f"{len(names)} families: {dict(counts)}")
