"""``MNN.numpy`` beside numpy on arrays of 1e3 to 1e7 floats: ``python -m benchmarks.arrays``.

Both run in turns in this process, on the same numbers; the least time of all turns counts, results read included. numpy
takes as many threads for products as its BLAS does: set ``OPENBLAS_NUM_THREADS=1`` for one, as MNN's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import MNN.numpy

SIZES = (10**3, 10**5, 10**6, 10**7)
LONGEST_SIDE = 1000
"""Of the matrices that are multiplied."""


def chain(lib: Any, x: Any) -> Any:
    """Eight elementwise functions."""
    return lib.tanh(lib.abs(lib.exp(lib.sin(x * 0.5 + 1.0)) - 0.3)) * 2.0


CASES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "chain of 8": lambda lib, row, square, factor: chain(lib, row),
    "sum": lambda lib, row, square, factor: lib.sum(row),
    "max": lambda lib, row, square, factor: lib.max(row),
    "matmul": lambda lib, row, square, factor: lib.matmul(factor, factor),
    "transpose + add": lambda lib, row, square, factor: lib.transpose(square) + square,
}


def least(function: Callable[..., Any], libraries: list[tuple[Any, ...]], turns: int) -> list[float]:
    """Seconds of a case in each library, whose arguments are given."""
    best = [float("inf")] * len(libraries)
    for _ in range(turns):
        for i, given in enumerate(libraries):
            start = time.perf_counter()
            np.asarray(function(*given))
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def main() -> None:
    print(f"{'elements':>9}  {'case':<15} {'numpy, us':>10} {'MNN, us':>10}  numpy / MNN")
    for size in SIZES:
        row = np.random.default_rng(0).random(size, dtype=np.float32) + np.float32(0.1)
        side = int(size**0.5)
        square = row[: side * side].reshape(side, side)
        factor = np.ascontiguousarray(square[:LONGEST_SIDE, :LONGEST_SIDE])
        arrays = (row, square, factor)
        libraries = [(np, *arrays), (MNN.numpy, *(MNN.numpy.array(a) for a in arrays))]
        for name, function in CASES.items():
            theirs, ours = least(function, libraries, 5 if size > 10**6 else 30)
            print(f"{size:>9}  {name:<15} {theirs * 1e6:>10.1f} {ours * 1e6:>10.1f}  {theirs / ours:.3f}")


if __name__ == "__main__":
    main()
