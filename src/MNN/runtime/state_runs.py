"""Finds the program for a step of a model with states: stored, or planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from MNN.backends.base.backend import Bound
from MNN.backends.base.registry import backend
from MNN.runtime.session import Session
from MNN.runtime.state_run import Source, StateRun

if TYPE_CHECKING:
    from MNN.compiler.lower import Guard
    from MNN.ir.prims import Tensor
    from MNN.runtime.executor import Plan

KEPT = 8
"""Runs that are kept: of ranges of lengths, and of small sizes with programs of their own."""


class StateRuns:
    """The runs of one model."""

    def __init__(self, session: Session, states: Mapping[str, str], axes: Mapping[str, int]) -> None:
        """``states``: names of outputs by those of the inputs that they become; ``axes``: along which they grow."""
        self._session, self._states, self._axes = session, states, axes
        self._runs: tuple[StateRun, ...] = ()
        config = session.config
        self._threads = backend(config.backend, config.cache).usable_threads(config.threads)

    def find(self, arrays: Mapping[str, np.ndarray]) -> StateRun | None:
        """The run for such inputs, states among them; None where no one program gives all outputs."""
        arrays = {name: arrays[name] for name in self._session.inputs}  # stored by kind in the model's order
        stored = self._session.stored_program(arrays)
        if stored is not None:
            found, bound = stored
            return self._known(bound) or self._made(bound, found.inputs, {n: i for i, n in enumerate(found.outputs)})
        plan = self._session.whole_plan(arrays)
        if plan is None:
            return None
        return self._known(plan.bound) or self._planned(plan)

    def _known(self, bound: Bound) -> StateRun | None:
        return next((run for run in self._runs if run.bound is bound), None)

    def _planned(self, plan: Plan) -> StateRun:
        numbers = {t: i for i, t in enumerate(plan.results)}
        given = {t: v.name for v, t in zip(plan.inputs, plan.input_tensors, strict=True)}
        outputs: dict[str, Source] = {}
        for value in self._session.graph.outputs:
            tensor = plan.stage.env[value]
            source: Source | None = numbers.get(tensor, given.get(tensor))
            outputs[value.name] = source if source is not None else np.asarray(tensor.const)
        return self._made(plan.bound, [v.name for v in plan.inputs], outputs, plan.guards, plan.input_tensors)

    def _made(
        self,
        bound: Bound,
        inputs: Sequence[str],
        outputs: Mapping[str, Source],
        guards: Sequence[Guard] = (),
        tensors: Sequence[Tensor] = (),
    ) -> StateRun:
        def holds(arrays: Sequence[np.ndarray]) -> bool:
            numbers = dict(zip(tensors, arrays, strict=True))
            return all(guard.holds(numbers) for guard in guards)

        seen = {t for guard in guards for t in (guard.tensor, *[x for q in guard.prims for x in q.inputs])}
        watched = [name for name, tensor in zip(inputs, tensors, strict=False) if tensor in seen]
        asked = holds if guards else None
        run = StateRun(bound, inputs, outputs, self._states, self._axes, self._threads, asked, watched)
        self._runs = (run, *self._runs[: KEPT - 1])
        return run


__all__ = ["StateRuns"]
