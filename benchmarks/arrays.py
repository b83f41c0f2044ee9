"""``MNN.numpy`` beside numpy and PyMNN on arrays of 1e3 to 1e7 floats: ``python -m benchmarks.arrays``.

numpy runs in turns in this process, on the same numbers; the least time of all calls counts, results read included. All
take as many threads as there are processors, numpy for products only (``OPENBLAS_NUM_THREADS``). ``--sizes 1e3 1e5``
and ``--only NAME`` choose. ``--pymnn PYTHON`` is the interpreter of an environment with the official package: it runs
this module, too, and has its turns case by case.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import MNN.expr
import MNN.numpy
from benchmarks.array_variants import VARIANTS

SIZES = (1e3, 1e5, 1e6, 1e7)
LONGEST_SIDE = 1000
"""Of the matrices that are multiplied."""
ROUNDS = 4
"""How often each library has its turn."""


class Given(NamedTuple):
    """The arrays of a size: a row of positive numbers, a square, and one small enough to be multiplied; whole numbers
    and bytes, of 1 to 99; a cube, and an image with channels last."""

    row: Any
    square: Any
    factor: Any
    whole: Any
    whole_square: Any
    byte: Any
    byte_square: Any
    cube: Any
    image: Any


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
    """Seconds of a case in each library, whose arguments are given: each is called a few times in a row, so that it
    finds the caches as it left them itself, and not another one, as that of another process does."""
    best = [float("inf")] * len(libraries)
    for _ in range(ROUNDS):
        for i, given in enumerate(libraries):
            for _ in range(-(-turns // ROUNDS)):
                start = time.perf_counter()
                np.asarray(function(*given))
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


class PyMNN:
    """The official package in a process of its own, that of ``python``."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.Popen(
            [self._python, "-m", "benchmarks.arrays", "--serve"], env=kept, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def least(self, name: str, size: int, turns: int) -> float:
        """Seconds of a case; infinite where it lacks a function, or ends the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(size, turns, name, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("least "):
                return float(line.split()[1])
        self._process = self._started()
        return math.inf


def serve() -> None:
    """Answers lines ``size turns name`` with the least seconds of a case, by the ``MNN`` that is installed here."""
    MNN.expr.set_thread_number(os.cpu_count() or 1)
    for line in sys.stdin:
        size, turns, name = line.rstrip("\n").split(" ", 2)
        given = Given(*map(_array, arrays_of(int(size))))
        case = (CASES | VARIANTS)[name]
        try:
            seconds = least(lambda lib, g, case=case: _read(case(lib, g)), [(MNN.numpy, given)], int(turns))[0]
        except Exception:  # noqa: BLE001 - stubs there raise what they like
            seconds = math.inf
        print("least", seconds, flush=True)


def _array(array: Any) -> Any:
    """PyMNN's array, which is not made of bytes directly."""
    if array.dtype == np.uint8:
        return MNN.numpy.array(array.astype(np.int32)).astype(MNN.numpy.uint8)
    return MNN.numpy.array(array)


def _read(found: Any) -> Any:
    """The numbers of a result of PyMNN, which may be one number."""
    return found.read() if hasattr(found, "read") else found


def arrays_of(size: int) -> Given:
    """numpy's."""
    row = np.random.default_rng(0).random(size, dtype=np.float32) + np.float32(0.1)
    side = int(size**0.5)
    edge = max(3, round(size ** (1 / 3)) - 1)
    squared = slice(side * side), (side, side)
    square, whole = _part(row, *squared), np.random.default_rng(1).integers(1, 100, size, np.int32)
    byte = whole.astype(np.uint8)
    factor = np.ascontiguousarray(square[:LONGEST_SIDE, :LONGEST_SIDE])
    cube = _part(row, slice(edge**3), (edge,) * 3)
    width = int((size // 3) ** 0.5)
    image = _part(row, slice(width * width * 3), (width, width, 3))
    return Given(row, square, factor, whole, _part(whole, *squared), byte, _part(byte, *squared), cube, image)


def _part(row: Any, which: slice, shape: tuple[int, ...]) -> Any:
    return row[which].reshape(shape)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES)
    parser.add_argument("--only", default="", help="cases whose names hold this")
    parser.add_argument("--variants", action="store_true", help="other element types, axes and parts in their place")
    parser.add_argument("--pymnn", help="an interpreter that has the official package")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve()
        return
    MNN.expr.set_thread_number(os.cpu_count() or 1)
    other = PyMNN(asked.pymnn) if asked.pymnn else None
    found: list[float] = []
    for size in map(int, asked.sizes):
        arrays = arrays_of(size)
        libraries = [(np, arrays), (MNN.numpy, Given(*(MNN.numpy.array(a) for a in arrays)))]
        print(f"\n| {size} elements | numpy, us | PyMNN, us | MNN, us | best of them / MNN |")
        print("| --- | ---: | ---: | ---: | ---: |")
        ratios = []
        for name, function in (VARIANTS if asked.variants else CASES).items():
            if asked.only in name:
                turns = 300 if size < 10**4 else 60 if size < 10**6 else 20 if size < 10**7 else 8
                theirs, ours = least(function, libraries, turns)
                official = math.inf if other is None else other.least(name, size, turns)
                ratios.append(min(theirs, official) / ours)
                shown = "-" if math.isinf(official) else f"{official * 1e6:.1f}"
                print(f"| {name} | {theirs * 1e6:.1f} | {shown} | {ours * 1e6:.1f} | {ratios[-1]:.2f} |", flush=True)
        print(f"| *geometric mean, lowest* | | | | {mean(ratios):.2f}, {min(ratios):.2f} |")
        found += ratios
    print(f"\nAll: {mean(found):.2f}, lowest {min(found):.2f}")


if __name__ == "__main__":
    main()
