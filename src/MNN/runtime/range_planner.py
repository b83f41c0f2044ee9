"""Planning a graph for a range of sizes: lowered and compiled at some of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from MNN.backends.base.open_words import Shape
from MNN.backends.base.options import Options
from MNN.backends.base.program import Program
from MNN.compiler.lower import lower_stage
from MNN.compiler.open.errors import NeverOpenError, NotOpenError
from MNN.compiler.open.plan import Lowered, SizeRange, open_program
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.prims import Conv, MatMul, Prim, Tensor
from MNN.ir.traced import OpenSize, Trace, room_of
from MNN.runtime.machines import Machines
from MNN.runtime.state_numbers import state_numbers


class RangePlanner:
    """Makes programs of one graph for ranges of sizes."""

    def __init__(
        self,
        graph: Graph,
        machines: Machines,
        options: Options,
        memory: int,
        states: Sequence[tuple[Value, Value]],
        room: int,
    ) -> None:
        """``options`` with ``open_sizes``; ``memory``: bytes that a tensor may take; ``states``: inputs and outputs
        that are one memory; ``room``: bytes that a plan may work in."""
        self._graph, self._machines, self._options = graph, machines, options
        self._memory, self._states, self._room = memory, states, room

    def plan(
        self,
        shapes: Mapping[Value, Shape],
        dtypes: Mapping[Value, DType],
        ranges: Mapping[str, SizeRange],
        fetch: Sequence[Value],
    ) -> tuple[Program, Lowered]:
        """The program for all sizes within ``ranges``, and the stage at the largest. Raises
        :class:`MNN.compiler.open.errors.NotOpenError` where there is none."""

        def lower(trace: Trace) -> Lowered:
            tensors = {v: Tensor(dtypes[v], tuple(map(trace.size, s)), name=v.name) for v, s in shapes.items()}
            stage = lower_stage(self._graph, 0, tensors, {}, {}, self._memory, self._machines.pool.folds)
            results = [stage.env[v] for v in fetch if v in stage.env]
            if stage.blocked is not None:
                raise NeverOpenError("what numbers are decides what is computed")
            if len(set(results)) < len(fetch) or any(t.producer is None for t in results):
                raise NotOpenError("a stage that does not end in its results")
            self._check_room(_least_room(stage.prims, list(tensors.values())))  # before any more is done
            return Lowered(stage, [*tensors.values(), *stage.open_inputs], results)

        def compiled(lowered: Lowered) -> Program:
            inputs, stage = list(lowered.inputs), lowered.stage
            given = inputs[: len(shapes)]
            states = state_numbers(self._states, list(shapes), given, lowered.results, stage, fetch)
            options = replace(self._options, states=states, compared=lowered.compared)
            program = self._machines.compile(stage.prims, inputs, lowered.results, options)
            self._check_room(program.arena_bytes)
            return program

        self._machines.pool.kept_choices.begin_plan()
        return open_program(ranges, lower, compiled)

    def _check_room(self, needed: int) -> None:
        if needed > self._room:
            raise NotOpenError("room for the largest sizes takes too much memory")


def _least_room(prims: Sequence[Prim], inputs: Sequence[Tensor]) -> int:
    """Bytes that a plan takes at least: the largest product where all sizes are at their largest. Batches may be
    computed sample by sample; then it is the inputs."""
    if all(t.rank and not any(type(n) is OpenSize for n in t.shape[1:]) for t in inputs):
        return sum(map(_bytes, inputs))
    return max([_bytes(q.outputs[0]) for q in prims if isinstance(q, (Conv, MatMul))], default=0)


def _bytes(t: Tensor) -> int:
    return math.prod(map(room_of, t.shape)) * t.dtype.size


__all__ = ["RangePlanner"]
