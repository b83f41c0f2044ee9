"""The way of a run whose inputs are of the names, types and sizes of the last ones: nothing is looked up twice.

After a large model has run, the caches hold its weights, and every line of Python has to come from memory again: what
is not looked at costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from MNN.backends.base.backend import Bound, Given, NamedRun


class LastRun:
    """The program of the last run, for inputs like those that it had."""

    __slots__ = ("_bound", "run")

    def __init__(
        self,
        given: Sequence[tuple[str, np.ndarray]],
        outputs: Sequence[str],
        bound: Bound,
        threads: int,
    ) -> None:
        """``given``: what was accepted, by name, in the program's order; ``outputs``: what to call its results."""
        known = [(name, array.dtype, array.shape) for name, array in given]
        self._bound = bound
        long = _long_run(known, tuple(outputs), bound, threads)
        self.run: NamedRun = bound.short_run(known, outputs, threads, long)
        """The outputs by name; None when the inputs are not like the last ones, and have to be looked at."""


def _long_run(known: Sequence[Given], outputs: Sequence[str], bound: Bound, threads: int) -> NamedRun:
    def run(feeds: Mapping[str, Any]) -> dict[str, np.ndarray] | None:
        if type(feeds) is not dict or len(feeds) != len(known):
            return None
        arrays: list[np.ndarray] = []
        for name, dtype, shape in known:
            array = feeds.get(name)
            if type(array) is not np.ndarray or array.shape != shape:
                return None
            if array.dtype is not dtype and array.dtype != dtype:  # numpy takes its time to compare them
                return None
            arrays.append(array)
        results = bound.run(arrays, threads)
        found: dict[str, np.ndarray] = {}
        for name in outputs:  # a dict of a zip takes 15 us longer, in cold caches
            found[name] = results[len(found)]
        return found

    return run


class LastOpenRun:
    """The same of a program that leaves sizes open, for inputs of all sizes within its bounds."""

    __slots__ = ("_bound", "_given", "_known", "_outputs", "_sizes", "_threads")

    def __init__(
        self, given: Sequence[tuple[str, np.ndarray]], outputs: Sequence[str], bound: Bound, threads: int
    ) -> None:
        self._given = [(name, array.dtype) for name, array in given]
        self._outputs, self._bound, self._threads = tuple(outputs), bound, threads
        assert bound.program.open_sizes is not None
        self._sizes = bound.program.open_sizes
        self._known: tuple[list[tuple[int, ...]], tuple[int, ...]] = [], ()
        """The shapes of the last run, and what the open sizes were."""

    def run(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray] | None:
        """The outputs by name; None when the inputs are not like the last ones, or of sizes out of bounds."""
        if type(feeds) is not dict or len(feeds) != len(self._given):
            return None
        arrays: list[np.ndarray] = []
        shapes: list[tuple[int, ...]] = []
        for name, dtype in self._given:
            array = feeds.get(name)
            if type(array) is not np.ndarray or (array.dtype is not dtype and array.dtype != dtype):
                return None
            arrays.append(array)
            shapes.append(array.shape)
        known, sizes = self._known
        if shapes != known:
            found = self._sizes.match(shapes)
            if found is None:
                return None
            self._known, sizes = (shapes, found), found
        results = self._bound.run_at(sizes, arrays, self._threads)
        return dict(zip(self._outputs, results, strict=True))
