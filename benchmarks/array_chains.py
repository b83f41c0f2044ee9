"""Chains of eight elementwise functions, drawn at random, beside numpy: ``python -m benchmarks.array_chains``.

Each chain begins with an array of floats and ends in numbers that are read; its functions are drawn from those of one
operand, and of two: the chain so far and a number, or the array that it began with. Both libraries have their turns on
the same numbers, a few calls at a time; the least time counts. ``--chains`` says how many, ``--sizes`` of how many
numbers, ``--cheap`` leaves out what takes longer than memory does."""

from __future__ import annotations

import argparse
import functools
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import MNN.expr
import MNN.numpy
from benchmarks.arrays import mean

SIZES = (1e3, 1e4, 1e5, 1e6, 1e7)
LENGTH = 8
Step = Callable[[Any, Any, Any], Any]

CHEAP: dict[str, Step] = {
    "+": lambda lib, v, x: v + 0.25, "*": lambda lib, v, x: v * 0.75, "1 -": lambda lib, v, x: 1.0 - v,
    "+ x": lambda lib, v, x: v + x, "- x": lambda lib, v, x: v - x, "* x": lambda lib, v, x: v * x,
    "abs": lambda lib, v, x: lib.abs(v), "maximum": lambda lib, v, x: lib.maximum(v, x),
    "minimum": lambda lib, v, x: lib.minimum(v, 0.9), "sqrt": lambda lib, v, x: lib.sqrt(lib.abs(v)),
    "where": lambda lib, v, x: lib.where(v > 0.5, v, x), "square": lambda lib, v, x: lib.square(v),
}  # fmt: skip
COSTLY: dict[str, Step] = {
    "exp": lambda lib, v, x: lib.exp(-lib.abs(v)), "tanh": lambda lib, v, x: lib.tanh(v),
    "sin": lambda lib, v, x: lib.sin(v), "cos": lambda lib, v, x: lib.cos(v),
    "log1p": lambda lib, v, x: lib.log1p(lib.abs(v)), "arctan": lambda lib, v, x: lib.arctan(v),
}  # fmt: skip
TWO_CALLS = ("sqrt", "where", "exp", "log1p")
"""Which count as two functions."""


def drawn(seed: int, steps: dict[str, Step]) -> list[str]:
    """The names of a chain's steps, of eight functions together."""
    rng = random.Random(seed)
    names: list[str] = []
    left = LENGTH
    while left:
        name = rng.choice([n for n in steps if left > 1 or n not in TWO_CALLS])
        names.append(name)
        left -= 2 if name in TWO_CALLS else 1
    return names


def run(steps: Sequence[Step], lib: Any, x: Any) -> Any:
    """The numbers of a chain."""
    v = x
    for step in steps:
        v = step(lib, v, x)
    return np.asarray(v)


def least(functions: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """Of each function in turns, for so many seconds in all."""
    best = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, function in enumerate(functions):
            for _ in range(8):
                start = time.perf_counter()
                function()
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES)
    parser.add_argument("--chains", type=int, default=12)
    parser.add_argument("--cheap", action="store_true", help="no functions that take longer than memory does")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each chain and size")
    asked = parser.parse_args()
    MNN.expr.set_thread_number(asked.threads)
    steps = CHEAP if asked.cheap else CHEAP | COSTLY
    for size in map(int, asked.sizes):
        array = np.random.default_rng(0).random(size, dtype=np.float32) + np.float32(0.1)
        var = MNN.numpy.array(array)
        print(f"\n| {size} elements | numpy, us | MNN, us | numpy / MNN |\n| --- | ---: | ---: | ---: |")
        ratios = []
        for seed in range(asked.chains):
            names = drawn(seed, steps)

            functions = [steps[name] for name in names]
            given = [functools.partial(run, functions, np, array), functools.partial(run, functions, MNN.numpy, var)]
            for _ in range(400 if size < 10**5 else 10):  # until its loop is compiled
                given[1]()
            theirs, ours = least(given, asked.seconds)
            ratios.append(theirs / ours)
            print(f"| {', '.join(names)} | {theirs * 1e6:.1f} | {ours * 1e6:.1f} | {ratios[-1]:.2f} |", flush=True)
        print(f"| *geometric mean, lowest* | | | {mean(ratios):.2f}, {min(ratios):.2f} |")


if __name__ == "__main__":
    main()
