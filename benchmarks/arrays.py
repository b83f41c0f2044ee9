"""``MNN.numpy`` beside numpy on arrays of 1e3 to 1e7 floats: ``python -m benchmarks.arrays``.

Both run in turns in this process, on the same numbers; the least time of all turns counts, results read included. Both
take as many threads as there are processors, numpy for products only: set ``OPENBLAS_NUM_THREADS`` and
``MNN.expr.set_thread_number`` for others. ``--sizes 1e3 1e5`` and ``--only NAME`` choose.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import MNN.numpy

SIZES = (1e3, 1e5, 1e6, 1e7)
LONGEST_SIDE = 1000
"""Of the matrices that are multiplied."""


class Given(NamedTuple):
    """The arrays of a size: a row of positive numbers, a square, and one small enough to be multiplied."""

    row: Any
    square: Any
    factor: Any


def chain(lib: Any, x: Any) -> Any:
    """Eight elementwise functions."""
    return lib.tanh(lib.abs(lib.exp(lib.sin(x * 0.5 + 1.0)) - 0.3)) * 2.0


def softmax(lib: Any, x: Any) -> Any:
    """Along the rows of a matrix."""
    e = lib.exp(x - lib.max(x, axis=1, keepdims=True))
    return e / lib.sum(e, axis=1, keepdims=True)


CASES: dict[str, Callable[[Any, Given], Any]] = {
    "chain of 8": lambda lib, g: chain(lib, g.row),
    "sum of the chain": lambda lib, g: lib.sum(chain(lib, g.row)),
    "add": lambda lib, g: g.row + g.row,
    "x * 2 + 1": lambda lib, g: g.row * 2.0 + 1.0,
    "exp": lambda lib, g: lib.exp(g.row),
    "sqrt": lambda lib, g: lib.sqrt(g.row),
    "where": lambda lib, g: lib.where(g.row > 0.5, g.row, 0.0),
    "clip": lambda lib, g: lib.clip(g.row, 0.2, 0.8),
    "row + column": lambda lib, g: g.square[0] + g.square[:, :1],
    "sum": lambda lib, g: lib.sum(g.row),
    "max": lambda lib, g: lib.max(g.row),
    "mean": lambda lib, g: lib.mean(g.row),
    "std": lambda lib, g: lib.std(g.row),
    "sum, axis 0": lambda lib, g: lib.sum(g.square, axis=0),
    "sum, axis 1": lambda lib, g: lib.sum(g.square, axis=1),
    "argmax": lambda lib, g: lib.argmax(g.row),
    "argmax, axis 1": lambda lib, g: lib.argmax(g.square, axis=1),
    "cumsum": lambda lib, g: lib.cumsum(g.row),
    "softmax": lambda lib, g: softmax(lib, g.square),
    "sort": lambda lib, g: lib.sort(g.row),
    "concatenate": lambda lib, g: lib.concatenate([g.row, g.row]),
    "transpose + add": lambda lib, g: lib.transpose(g.square) + g.square,
    "matmul": lambda lib, g: lib.matmul(g.factor, g.factor),
    "matrix by vector": lambda lib, g: lib.matmul(g.factor, g.factor[0]),
}


def least(function: Callable[..., Any], libraries: list[tuple[Any, Given]], turns: int) -> list[float]:
    """Seconds of a case in each library, whose arguments are given."""
    best = [float("inf")] * len(libraries)
    for _ in range(turns):
        for i, given in enumerate(libraries):
            start = time.perf_counter()
            np.asarray(function(*given))
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES)
    parser.add_argument("--only", default="", help="cases whose names hold this")
    asked = parser.parse_args()
    found: list[float] = []
    for size in map(int, asked.sizes):
        row = np.random.default_rng(0).random(size, dtype=np.float32) + np.float32(0.1)
        side = int(size**0.5)
        square = row[: side * side].reshape(side, side)
        arrays = row, square, np.ascontiguousarray(square[:LONGEST_SIDE, :LONGEST_SIDE])
        libraries = [(np, Given(*arrays)), (MNN.numpy, Given(*(MNN.numpy.array(a) for a in arrays)))]
        print(f"\n| {size} elements | numpy, us | MNN, us | numpy / MNN |\n| --- | ---: | ---: | ---: |")
        ratios = []
        for name, function in CASES.items():
            if asked.only in name:
                turns = 300 if size < 10**4 else 60 if size < 10**6 else 20 if size < 10**7 else 5
                theirs, ours = least(function, libraries, turns)
                ratios.append(theirs / ours)
                print(f"| {name} | {theirs * 1e6:.1f} | {ours * 1e6:.1f} | {ratios[-1]:.2f} |", flush=True)
        print(f"| *geometric mean, lowest* | | | {mean(ratios):.2f}, {min(ratios):.2f} |")
        found += ratios
    print(f"\nAll: {mean(found):.2f}, lowest {min(found):.2f}")


if __name__ == "__main__":
    main()
