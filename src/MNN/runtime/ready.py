"""Running stored programs: the way to an answer that reads no model and plans nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from MNN.backends.base.backend import Bound
from MNN.backends.base.registry import backend
from MNN.backends.base.run_lock import RunLock
from MNN.errors import RunError
from MNN.runtime.config import Config
from MNN.runtime.fast_path import LastRun
from MNN.runtime.limits import check_memory
from MNN.runtime.storage.programs import Shapes, StoredProgram, StoredPrograms

KEPT = 32
KEPT_BYTES = 256 << 20
"""Programs held, and the arena memory that they may take together; the one in use is held in any case."""


class ReadyPrograms:
    """Stored programs of a model, brought in when inputs of their sizes come. Thread safe: one run at a time."""

    def __init__(self, stored: StoredPrograms, config: Config) -> None:
        self._stored, self._config = stored, config
        self._backend = backend(config.backend, config.cache)
        self._threads = self._backend.usable_threads(config.threads)
        self._bound: OrderedDict[Shapes, tuple[StoredProgram, Bound]] = OrderedDict()
        self._absent: set[Shapes] = set()
        self._run_lock = RunLock()
        self._room = self._backend.room(self._run_lock)

    def run(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """The outputs by name, None when no program for such inputs is stored."""
        shapes = shapes_of(arrays)
        with self._run_lock.lock:
            found = self._find(shapes)
            if found is None:
                return None
            stored, bound = found
            given = [arrays[name] for name in stored.inputs]
            results = bound.run(given, self._threads) if stored.checks is None else self._try(shapes, given)
            if results is None:
                return None
        return dict(zip(stored.outputs, results, strict=True))

    def find(self, arrays: Mapping[str, np.ndarray]) -> StoredProgram | None:
        """The program for such inputs, brought in when it is stored."""
        with self._run_lock.lock:
            found = self._find(shapes_of(arrays))
        return None if found is None else found[0]

    def _find(self, shapes: Shapes) -> tuple[StoredProgram, Bound] | None:
        found = self._bound.get(shapes)
        if found is None:
            found = None if shapes in self._absent else self._bring(shapes)
        if found is not None:
            self._bound.move_to_end(shapes)
        return found

    def _try(self, shapes: Shapes, given: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """The first results of a program; None when its constants turn out to be damaged, and it is forgotten."""
        stored, bound = self._bound[shapes]
        assert stored.checks is not None
        try:
            results = bound.run(given, self._threads)
        except RunError:
            if stored.checks.sound():
                raise
        if not stored.checks.sound():
            self.forget(shapes)
            return None
        self._bound[shapes] = replace(stored, checks=None), bound
        return results

    def last_run(self, arrays: Mapping[str, np.ndarray]) -> LastRun | None:
        """How to run again on inputs like these, when there is a program for them."""
        with self._run_lock.lock:
            found = self._bound.get(shapes_of(arrays))
            if found is None:
                return None
            stored, bound = found
            given = [(name, arrays[name]) for name in stored.inputs]
            return LastRun(given, stored.outputs, bound, self._threads)

    def forget(self, shapes: Shapes) -> None:
        """From now on there is none for such inputs: they have been planned anew."""
        with self._run_lock.lock:
            self._bound.pop(shapes, None)
            self._absent.add(shapes)

    def _bring(self, shapes: Shapes) -> tuple[StoredProgram, Bound] | None:
        stored = self._stored.find(shapes)
        if stored is None:
            self._absent.add(shapes)
            return None
        check_memory(stored.program.arena_bytes, self._config.memory, "its tensors")
        bound = self._backend.bind(stored.program, self._threads, room=self._room)
        self._bound[shapes] = stored, bound
        while len(self._bound) > 1 and (len(self._bound) > KEPT or self._bytes() > KEPT_BYTES):
            self._bound.popitem(last=False)
        return stored, bound

    def _bytes(self) -> int:
        taken: dict[Hashable, int] = {}
        for _, bound in self._bound.values():
            taken |= bound.memory()
        return sum(taken.values())


def shapes_of(arrays: Mapping[str, np.ndarray]) -> Shapes:
    """What tells inputs apart for planning."""
    return tuple((name, str(a.dtype), a.shape) for name, a in arrays.items())
