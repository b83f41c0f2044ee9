"""A model ready to answer: checked inputs in, named outputs out."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.graph import Graph, Value
from MNN.runtime.config import Config
from MNN.runtime.feeds import as_input, named
from MNN.runtime.info import TensorInfo as TensorInfo
from MNN.runtime.ready import ReadyPrograms, shapes_of
from MNN.runtime.storage.background import IDLE, run_in_background
from MNN.runtime.storage.digests import FromFiles, graph_digest
from MNN.runtime.storage.programs import Card, StoredProgram, StoredPrograms
from MNN.schema.files import watched

if TYPE_CHECKING:
    from MNN.backends.base.backend import Bound
    from MNN.backends.base.program import Program
    from MNN.ir.dtype import DType
    from MNN.runtime.executor import Executor, Plan
    from MNN.runtime.fast_path import LastOpenRun, LastRun

UNNAMED = "?"
"""A size that is open and has no name: two of them need not agree."""


class Session:
    """Runs a graph with given settings; plans are made per input shape on first use.

    >>> session.run({"x": np.zeros((1, 3, 224, 224), np.float32)})["prob"]  # doctest: +SKIP
    """

    def __init__(
        self,
        graph: Graph | Callable[[], Graph],
        config: Config | None = None,
        stored: StoredPrograms | None = None,
        states: Mapping[str, str] | None = None,
    ) -> None:
        """``graph`` may be a function that reads it. With what is ``stored`` of its file it is only called when
        inputs come for which there is no program. ``states``: outputs that share their memory with inputs, where they
        can, by the names of these; such programs are run by :class:`MNN.runtime.state_runs.StateRuns`."""
        self.config = config or Config()
        self._open = graph if callable(graph) else lambda: graph
        self._graph: Graph | None = None
        self._files: dict[str, str] = {}
        self._stored = stored
        self._ready: ReadyPrograms | None = None
        self._executor_made: Executor | None = None
        self._making = threading.RLock()
        self._named: dict[str, Value] | None = None
        self._last: dict[str, np.ndarray] | None = None  # what a stored program ran on last
        self._last_run: LastRun | LastOpenRun | None = None  # when the last run was of one program, for its outputs
        _SESSIONS.add(self)
        card = stored.card() if stored is not None else None
        self._kinds: Mapping[str, str] = {}  # nothing is stored of models whose inputs or outputs are not plain tensors
        if card is None:
            self._kinds = kinds(self.graph)
            card = Card.of(self.graph)
        elif stored is not None:
            self._ready = ReadyPrograms(stored, self.config)
        self.card = card
        self.own_states: dict[str, str] = json.loads(card.facts.get("states", "{}"))
        """What operators keep from run to run by themselves: outputs by the inputs that they become."""
        self._states = {**self.own_states, **(states or {})}
        self.conditions: list[str] = json.loads(card.facts.get("sizes", "[]"))
        """On sizes of inputs, and the names of these; empty where the program takes nothing for granted."""
        self._fitting: tuple[tuple[int, ...], ...] = ()
        """The last sizes that the conditions are true of."""
        self.inputs = {info.name: info for info in card.inputs}
        self.outputs = {info.name: info for info in card.outputs}

    @property
    def graph(self) -> Graph:
        """The model's graph, read when it is first asked for."""
        if self._graph is None:
            with self._making:
                if self._graph is None:
                    with watched() as self._files:
                        self._graph = self._open()
        return self._graph

    @property
    def _executor(self) -> Executor:
        if self._executor_made is None:
            from MNN.runtime.executor import Executor

            keep = weakref.WeakMethod(self._keep)  # a cycle would keep weights in memory until garbage is collected

            def made(plan: Plan, fetch: Sequence[Value]) -> None:
                method = keep()
                if method is not None:
                    method(plan, fetch)

            with self._making:
                if self._executor_made is None:
                    keeps = None if self._stored is None else made
                    self._executor_made = Executor(self.graph, self.config, made=keeps, states=self._state_values())
        return self._executor_made

    def _state_values(self) -> list[tuple[Value, Value]]:
        graph = self.graph
        if not self._states:
            return []
        given, made = ({v.name: v for v in part} for part in (graph.inputs, graph.outputs))
        return [(given[name], made[output]) for name, output in self._states.items()]

    @overload
    def run(self, feeds: Mapping[str, Any], fetch: Sequence[str] | str | None = None) -> dict[str, Any]: ...

    @overload
    def run(self, feeds: Any, fetch: Sequence[str] | str | None = None) -> dict[str, Any]: ...

    @overload
    def run(self, feeds: Sequence[str] | None, fetch: Mapping[str, Any]) -> list[Any]: ...

    def run(self, feeds: Any, fetch: Any = None) -> Any:
        """One inference. ``fetch`` names any tensors of the model; by default its outputs.

        What comes in and goes out are arrays; of ONNX models also lists of them (sequences), dicts (maps) and None (an
        optional without a value). Which element types are taken: :mod:`MNN.runtime.feeds`. A model with one input
        takes its array alone, too. As ONNX Runtime has it, ``run(names or None, feeds)`` gives a list.

        Raises :class:`ShapeError` when inputs are missing, unknown or do not fit, and :class:`RunError` when the
        computation fails.
        """
        if type(feeds) is not dict:
            if isinstance(fetch, Mapping):
                return list(self.run(fetch, feeds).values())
            feeds = named(self.inputs, feeds)
        if fetch is not None:
            return self._fetch(feeds, self._names(fetch))
        last_run = self._last_run
        if last_run is not None:
            found = last_run.run(feeds)
            if found is not None:
                return found
        self._last_run = None
        arrays = self._checked(feeds)
        if self._ready is not None:
            found = self._ready.run(arrays)
            if found is not None:
                self._last = arrays
                self._last_run = None if self.conditions else self._ready.last_run(arrays)
                return found
        self._last = None
        wanted, values = self.graph.outputs, self._values(arrays)
        self._pass_on()
        results = self._executor.run(values, wanted)
        if not self._kinds and not self.conditions:  # which takes all sizes of a range
            self._last_run = self._executor.last_run(values, wanted)
        return dict(zip([v.name for v in wanted], results, strict=True))

    def _pass_on(self) -> None:
        """Tells the planner which inputs a stored program has run on."""
        before = None if self._ready is None else self._ready.last
        if self._ready is not None and before is not None:  # asked once: another thread may pass it on, too
            self._ready.last = None
            kinds, shapes = [np.dtype(kind) for _, kind, _ in before], [shape for *_, shape in before]
            self._executor.saw(kinds, shapes, self.graph.outputs)

    def stored_program(self, arrays: Mapping[str, np.ndarray]) -> tuple[StoredProgram, Bound] | None:
        """A stored program for such inputs, bound, where there is one."""
        return None if self._ready is None else self._ready.sound(arrays)

    def whole_plan(self, arrays: Mapping[str, Any]) -> Plan | None:
        """The plan for such inputs where one program gives all outputs."""
        self._pass_on()
        return self._executor.whole_plan(self._values(arrays), self.graph.outputs)

    def planned_run(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs for such inputs, states being arrays like others: of graphs that are no one program."""
        outputs = self.graph.outputs
        return dict(zip([v.name for v in outputs], self._executor.run(self._values(arrays), outputs), strict=True))

    def get_inputs(self) -> list[TensorInfo]:
        """The inputs, in the model's order: ``name``, ``shape``, ``type``."""
        return list(self.inputs.values())

    def get_outputs(self) -> list[TensorInfo]:
        """The outputs, like :meth:`get_inputs`."""
        return list(self.outputs.values())

    def _names(self, fetch: object) -> list[str]:
        """The tensors to fetch; a name alone is one."""
        names = [fetch] if isinstance(fetch, str) else fetch
        if not isinstance(names, Sequence) or isinstance(names, bytes) or not all(isinstance(n, str) for n in names):
            raise ShapeError(f"fetch takes names of tensors, such as {list(self.outputs)[:2]}, not {fetch!r:.60}")
        return list(names)

    def _fetch(self, feeds: Mapping[str, Any], fetch: Sequence[str]) -> dict[str, Any]:
        """The tensors of these names."""
        self._last = self._last_run = None
        arrays = self._checked(feeds)
        wanted = [self._value(n) for n in fetch]
        return dict(zip(fetch, self._executor.run(self._values(arrays), wanted), strict=True))

    def plan(self, feeds: Mapping[str, Any]) -> Plan:
        """The (first) plan for inputs like these, for reports on memory, arithmetic and kernels."""
        return self._plan(self._checked(feeds))

    def program(self, feeds: Mapping[str, Any]) -> Program:
        """The (first) program for inputs like these, stored or planned: its memory and arithmetic."""
        arrays = self._checked(feeds)
        found = None if self._ready is None else self._ready.find(arrays)
        return self._plan(arrays).bound.program if found is None else found.program

    def result_types(self, feeds: Mapping[str, Any]) -> list[tuple[DType, tuple[int, ...]]] | None:
        """Element types and sizes of the outputs for inputs like these; None when they depend on numbers."""
        arrays = self._checked(feeds)
        found = None if self._ready is None else self._ready.find(arrays)
        if found is not None:
            return found.result_types(shapes_of(arrays))
        self._last_run = None
        return self._executor.result_types(self._values(arrays), self.graph.outputs)

    def another(self) -> Session:
        """A session with memory of its own on the same model."""
        return Session(self._open, self.config, self._stored, self._states)

    def digest(self) -> str:
        """What tells the model from others. Raises :class:`MNNError` when a file of it has been written to since it was
        opened, or is gone."""
        if not isinstance(self._open, FromFiles):
            return graph_digest(self.graph)
        files = self._stored.files() if self._graph is None and self._stored is not None else None
        if files is None:
            _ = self.graph  # reads them
            files = self._files
        return self._open.digest(files)

    @property
    def kinds(self) -> Mapping[str, str]:
        """Which inputs and outputs are a ``sequence``, a ``map`` or an ``optional``."""
        return self._kinds

    def plans_used(self) -> list[Plan]:
        """The plans of the last run, one per stage."""
        if self._last is not None:
            arrays, self._last = self._last, None
            self._executor.last_plans = [self._plan(arrays)]
        return [] if self._executor_made is None else list(self._executor_made.last_plans)

    def _plan(self, arrays: Mapping[str, np.ndarray]) -> Plan:
        self._last_run = None
        plan = self._executor.plan(self._values(arrays), self.graph.outputs)
        if self._ready is not None:
            self._ready.forget(shapes_of(arrays))  # one plan is enough
        return plan

    def _values(self, arrays: Mapping[str, Any]) -> dict[Value, Any]:
        return {v: arrays[v.name] for v in self.graph.inputs if not v.is_const}

    def _keep(self, plan: Plan, fetch: Sequence[Value]) -> None:
        """Stores a new plan, a little later, when nothing in it depends on more than the sizes of the inputs."""
        program = plan.simple_program(fetch)
        if self._stored is None or program is None or self._kinds or list(fetch) != self.graph.outputs:
            return
        names = tuple(v.name for v in plan.inputs)
        given = zip(names, plan.input_tensors, strict=True)
        shapes = tuple((name, str(t.dtype.numpy), tuple(map(int, t.shape))) for name, t in given)
        found = StoredProgram(program, names, tuple(v.name for v in fetch))
        save = partial(self._stored.save, shapes, found, self.card, dict(self._files))
        run_in_background(save, IDLE)

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        wanted = self.inputs
        missing = [name for name in wanted if name not in feeds]
        unknown = [name for name in feeds if name not in wanted]
        if missing or unknown:
            parts = [f"missing {'input' if len(missing) == 1 else 'inputs'} {', '.join(missing)}"] if missing else []
            parts += [f"unknown {'input' if len(unknown) == 1 else 'inputs'} {', '.join(unknown)}"] if unknown else []
            listed = "\n".join(f"  {info}" for info in self.inputs.values())
            raise ShapeError(f"{'; '.join(parts)}. The model's inputs are:\n{listed}")
        values: dict[str, Any] = {}
        symbols: dict[str, tuple[int, str]] = {}
        for name, info in wanted.items():
            if name in self._kinds:
                values[name] = _nested(name, self._kinds[name], feeds[name])
                continue
            values[name] = array = as_input(info, feeds[name])
            self._check_shape(info, array, symbols)
        self._check_conditions(values)
        return values

    def _check_conditions(self, values: Mapping[str, Any]) -> None:
        """What the program takes for granted of sizes."""
        if not self.conditions:
            return
        shapes = {name: value.shape for name, value in values.items() if isinstance(value, np.ndarray)}
        key = tuple(shapes.values())
        if key != self._fitting:
            from MNN.ops.arranging.size_conditions import check

            conditions, names = self.conditions
            check(conditions, names, shapes)
            self._fitting = key

    def _check_shape(self, info: TensorInfo, array: np.ndarray, symbols: dict[str, tuple[int, str]]) -> None:
        if info.shape is None:
            return
        fits = len(info.shape) == array.ndim
        for want, have in zip(info.shape, array.shape, strict=False):
            if isinstance(want, str) and want != UNNAMED:
                size, other = symbols.setdefault(want, (have, info.name))
                if size != have:
                    raise ShapeError(
                        f"input '{info.name}' has {have} where '{other}' has {size}: both are '{want}' and must agree"
                    )
            fits = fits and (isinstance(want, str) or want == have)
        if not fits:
            raise ShapeError(
                f"input '{info.name}' has shape {list(array.shape)} but the model takes {list(info.shape)}"
            )

    def _value(self, name: str) -> Value:
        if self._named is None:
            self._named = {v.name: v for v in self.graph.values()}
        if name not in self._named:
            close = [n for n in self._named if name and name in n][:5]
            hint = f"; did you mean one of {close}?" if close else ""
            raise ShapeError(f"the model has no tensor named '{name}'{hint}")
        return self._named[name]


def kinds(graph: Graph) -> dict[str, str]:
    """Which of a graph's inputs and outputs are a ``sequence``, a ``map`` or an ``optional``."""
    noted = graph.meta.get("kinds")
    return {str(k): str(v) for k, v in noted.items()} if isinstance(noted, dict) else {}


def _nested(name: str, kind: str, value: object) -> object:
    """A value for an input that is no plain tensor."""
    from MNN.ops.core import nested

    fits = {"sequence": (list, tuple), "map": (Mapping,)}.get(kind)
    if fits is not None and not isinstance(value, fits):
        wanted = "a sequence: give a list of arrays" if kind == "sequence" else "a map: give a dict"
        raise ShapeError(f"input '{name}' is {wanted}, not {type(value).__name__}")
    return nested.checked(name, value)


_SESSIONS: weakref.WeakSet[Session] = weakref.WeakSet()


def _after_fork() -> None:
    """A thread that is gone in the child may have held a lock."""
    for session in list(_SESSIONS):
        session._making = threading.RLock()
        session._last_run = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
