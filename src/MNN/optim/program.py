"""A step as one program: forward, backward and the optimiser, parameters and moments being states in its memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from MNN.backends.base.host_memory import machine_memory
from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor
from MNN.runtime.state_memory import StateMemory
from MNN.runtime.state_run import Source, StateRun

_K = TypeVar("_K")
_V = TypeVar("_V")
KEPT = 64
"""Programs that are kept at most: those of so many shapes of a batch, such as lengths of texts."""
KEPT_SHARE = 8
"""They take at most one part in so many of the machine's memory; the last one is kept in any case."""


def _nothing(value: object) -> int:
    del value
    return 0


class Recent(OrderedDict[_K, _V], Generic[_K, _V]):
    """What was used last, by key; what was not used for longest is dropped."""

    def __init__(self, nbytes: Callable[[_V], int] = _nothing) -> None:
        """``nbytes``: memory that is freed with a value."""
        super().__init__()
        self._nbytes = nbytes

    def recall(self, key: _K) -> _V | None:
        """The value of a key, which is the one used last from now on; None where there is none."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)

    def keep(self, key: _K, value: _V) -> _V:
        """Another value; others are dropped for it where they are too many."""
        self[key] = value
        most = machine_memory() // KEPT_SHARE
        while len(self) > 1 and (len(self) > KEPT or sum(map(self._nbytes, self.values())) > most):
            self.popitem(last=False)
        return value


class StepProgram:
    """Runs a graph some of whose inputs are states, in a memory that it shares with other programs of these states."""

    def __init__(
        self, graph: Graph, states: Sequence[tuple[Value, Value]], config: Config, arrays: Mapping[str, np.ndarray]
    ) -> None:
        """``states``: inputs and the outputs that they become; ``arrays``: inputs like those that it will be run on,
        states among them. Plans and compiles. Raises :class:`UnsupportedError` for what is no single program."""
        executor = Executor(graph, config, states=states)
        inputs = [v for v in graph.inputs if not v.is_const]
        plan = executor.plan({v: arrays[v.name] for v in inputs}, graph.outputs)
        if plan.stage.blocked is not None:
            raise UnsupportedError(
                f"{plan.stage.blocked.node.op} '{plan.stage.blocked.node.name}': what it computes decides sizes, so "
                "that a training step is no single program; give these sizes as constants"
            )
        numbers = {t: i for i, t in enumerate(plan.results)}
        given = {t: v.name for v, t in zip(plan.inputs, plan.input_tensors, strict=True)}
        outputs: dict[str, Source] = {}
        for value in graph.outputs:
            tensor = plan.stage.env[value]
            source: Source | None = numbers.get(tensor, given.get(tensor))
            outputs[value.name] = source if source is not None else np.asarray(tensor.const)
        names = {v.name: w.name for v, w in states}
        threads = executor.backend.usable_threads(config.threads)
        self._run = StateRun(plan.bound, [v.name for v in plan.inputs], outputs, names, {}, threads)
        self._executor = executor
        self.graph, self.states = graph, names
        self.bound = plan.bound
        """The compiled program."""

    @property
    def nbytes(self) -> int:
        """Memory that it works in, states aside."""
        return sum(self.bound.memory().values())

    @property
    def in_place(self) -> int:
        """How many of the states are written in place."""
        return len(self._run.places)

    def run(self, feeds: Mapping[str, np.ndarray], memory: StateMemory) -> dict[str, np.ndarray]:
        """The outputs that are no states; those in ``memory`` go on."""
        run = self._run
        if memory.layout is not run:
            memory.lay_out(run, run.places, run.count)
        found = run.step(feeds, memory, _any_length)
        assert found is not None
        return found


def _any_length(length: int) -> None:
    del length


__all__ = ["Recent", "StepProgram"]
