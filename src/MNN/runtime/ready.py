"""Running stored programs: the way to an answer that reads no model and plans nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from MNN.backends.base.backend import Bound
from MNN.backends.base.registry import backend
from MNN.backends.base.run_lock import RunLock
from MNN.errors import RunError
from MNN.runtime.config import Config
from MNN.runtime.fast_path import LastOpenRun, LastRun
from MNN.runtime.limits import check_memory
from MNN.runtime.storage.programs import Shapes, StoredProgram, StoredPrograms, kinds_of

KEPT = 32
KEPT_BYTES = 256 << 20
"""Programs held, and the arena memory that they may take together; the one in use is held in any case."""


Key = tuple[Any, ...]
"""What a program goes by: the inputs' shapes, or what they are like and the sizes that it leaves open."""


class ReadyPrograms:
    """Stored programs of a model, brought in when inputs of their sizes come. Thread safe: one run at a time."""

    def __init__(self, stored: StoredPrograms, config: Config) -> None:
        self._stored, self._config = stored, config
        self._backend = backend(config.backend, config.cache)
        self._threads = self._backend.usable_threads(config.threads)
        self._bound: OrderedDict[Key, tuple[StoredProgram, Bound]] = OrderedDict()
        self._absent: set[Shapes] = set()
        self._run_lock = RunLock()
        self._room = self._backend.room(self._run_lock)
        self._damaged = False
        """Whether a program turned out to be; then none for a range is looked for any more."""
        self.last: Shapes | None = None
        """The inputs of the last run."""

    def run(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """The outputs by name, None when no program for such inputs is stored."""
        shapes = shapes_of(arrays)
        with self._run_lock.lock:
            key = self._find(shapes)
            if key is None:
                return None
            stored, bound = self._bound[key]
            given = [arrays[name] for name in stored.inputs]
            if stored.program.open_sizes is not None:
                bound.resize(_sizes(stored, shapes))
            results = bound.run(given, self._threads) if stored.checks is None else self._try(key, given)
            if results is None:
                return None
            self.last = shapes
        return dict(zip(stored.outputs, results, strict=True))

    def find(self, arrays: Mapping[str, np.ndarray]) -> StoredProgram | None:
        """The program for such inputs, brought in when it is stored."""
        with self._run_lock.lock:
            key = self._find(shapes_of(arrays))
            return None if key is None else self._bound[key][0]

    def sound(self, arrays: Mapping[str, np.ndarray]) -> tuple[StoredProgram, Bound] | None:
        """The program for such inputs, bound, once its constants are known to be what was stored; for runs that change
        more than their results."""
        with self._run_lock.lock:
            key = self._find(shapes_of(arrays))
            if key is None:
                return None
            stored, bound = self._bound[key]
            if stored.checks is not None:
                if not stored.checks.sound():
                    del self._bound[key]
                    self._damaged = True
                    return None
                self._bound[key] = stored, bound = replace(stored, checks=None), bound
            self.last = shapes_of(arrays)
            return stored, bound

    def _find(self, shapes: Shapes) -> Key | None:
        """What the program for such inputs goes by."""
        key: Key | None = shapes if shapes in self._bound else self._within(shapes)
        if key is None:
            return None if shapes in self._absent else self._bring(shapes)
        self._bound.move_to_end(key)
        return key

    def _within(self, shapes: Shapes) -> Key | None:
        """The same of the programs for ranges of sizes that are bound."""
        kinds = kinds_of(shapes)
        ranges = (k for k, (s, _) in self._bound.items() if s.program.open_sizes is not None)
        return next((k for k in ranges if k[0] == kinds and _sizes(self._bound[k][0], shapes)), None)

    def _try(self, key: Key, given: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """The first results of a program; None when its constants turn out to be damaged, and it is forgotten."""
        stored, bound = self._bound[key]
        assert stored.checks is not None
        try:
            results = bound.run(given, self._threads)
        except RunError:
            if stored.checks.sound():
                raise
        if not stored.checks.sound():
            del self._bound[key]
            self._damaged = True
            return None
        self._bound[key] = replace(stored, checks=None), bound
        return results

    def last_run(self, arrays: Mapping[str, np.ndarray]) -> LastRun | LastOpenRun | None:
        """How to run again on inputs like these, when there is a program for them."""
        with self._run_lock.lock:
            shapes = shapes_of(arrays)
            key = shapes if shapes in self._bound else self._within(shapes)
            if key is None:
                return None
            stored, bound = self._bound[key]
            given = [(name, arrays[name]) for name in stored.inputs]
            kind = LastRun if stored.program.open_sizes is None else LastOpenRun
            return kind(given, stored.outputs, bound, self._threads)

    def forget(self, shapes: Shapes) -> None:
        """From now on there is none for such inputs: they have been planned anew."""
        with self._run_lock.lock:
            self._bound.pop(shapes, None)
            self._absent.add(shapes)

    def _bring(self, shapes: Shapes) -> Key | None:
        stored = self._stored.find(shapes)
        key: Key = shapes
        if stored is None and not self._damaged:
            stored = self._stored.find_range(shapes)
            key = (kinds_of(shapes), *(() if stored is None else (stored.program.open_sizes,)))
        if stored is None:
            self._absent.add(shapes)
            return None
        check_memory(stored.program.arena_bytes, self._config.memory, "its tensors")
        bound = self._backend.bind(stored.program, self._threads, room=self._room)
        self._bound[key] = stored, bound
        while len(self._bound) > 1 and (len(self._bound) > KEPT or self._bytes() > KEPT_BYTES):
            self._bound.popitem(last=False)
        return key

    def _bytes(self) -> int:
        taken: dict[Hashable, int] = {}
        for _, bound in self._bound.values():
            taken |= bound.memory()
        return sum(taken.values())


def shapes_of(arrays: Mapping[str, np.ndarray]) -> Shapes:
    """What tells inputs apart for planning."""
    return tuple((name, str(a.dtype), a.shape) for name, a in arrays.items())


def _sizes(stored: StoredProgram, shapes: Shapes) -> tuple[int, ...]:
    """What the open sizes of a program are for such inputs; none where they are out of its bounds."""
    assert stored.program.open_sizes is not None
    given = {name: shape for name, _, shape in shapes}
    return stored.program.open_sizes.match([given[name] for name in stored.inputs]) or ()
