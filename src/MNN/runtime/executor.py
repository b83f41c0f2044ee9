"""Plans and runs a graph: stages of native calls with decisions taken in between.

Most models are one stage. A plan is kept per set of input shapes (and per answer to the questions that shapes depend
on), the least recently used ones are dropped; kernels and packed weights are shared by all of them.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.compiler.compile import compile_stage
from MNN.compiler.constants import ConstantPool
from MNN.compiler.lower import Blocked, Guard, Stage, input_tensor, live_after, lower_stage
from MNN.compiler.options import Options
from MNN.compiler.program import Program
from MNN.errors import RunError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value, captured
from MNN.ir.prims import Tensor
from MNN.kernels.library import shared_library
from MNN.kernels.packed import PackedStore
from MNN.ops.base import evaluate_node
from MNN.ops.sequence import ListTensor
from MNN.runtime.bind import BoundProgram
from MNN.runtime.config import Config
from MNN.runtime.limits import Clock, check_memory
from MNN.runtime.loop import loop_functions
from MNN.runtime.pool import usable_threads
from MNN.runtime.reference import MeaningProgram
from MNN.runtime.remembered import known_choices
from MNN.runtime.uncollected import uninterrupted

PLANS_KEPT = 32
"""Plans kept per stage."""
PLAN_BYTES = 256 << 20
"""Arena memory that the plans kept per stage may take together; the plan in use is kept in any case."""

Key = tuple[object, ...]
Known = dict[str, tuple[np.ndarray, ...]]


@dataclass(eq=False)
class Plan:
    """A stage ready to run, and the plans that may follow it."""

    stage: Stage
    bound: BoundProgram | MeaningProgram
    inputs: list[Value]
    input_tensors: list[Tensor]
    results: list[Tensor]
    """Tensors that leave the stage, in the order of the program's outputs."""
    guards: list[Guard]
    following: PlanCache = field(default_factory=lambda: PlanCache())

    def holds(self, arrays: Sequence[np.ndarray]) -> bool:
        if not self.guards:
            return True
        numbers = dict(zip(self.input_tensors, arrays, strict=True))
        return all(g.holds(numbers) for g in self.guards)

    def simple_program(self, fetch: Sequence[Value]) -> Program | None:
        """The program when it gives exactly what is fetched, and for all numbers that inputs of these sizes hold."""
        given = [self.stage.env.get(v) for v in fetch]
        simple = self.stage.blocked is None and not self.guards and given == self.results
        return self.bound.program if simple and isinstance(self.bound, BoundProgram) else None


class PlanCache:
    """Plans by key, several per key where guards differ."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Key, list[Plan]] = OrderedDict()
        self._bytes = 0

    def find(self, key: Key, arrays: Sequence[np.ndarray]) -> Plan | None:
        plans = self._plans.get(key)
        if plans is None:
            return None
        self._plans.move_to_end(key)
        return next((p for p in plans if p.holds(arrays)), None)

    def add(self, key: Key, plan: Plan) -> None:
        plans = self._plans.setdefault(key, [])
        self._plans.move_to_end(key)
        plans.append(plan)
        self._bytes += plan.bound.program.arena_bytes
        self._forget(plans, len(plans) - PLANS_KEPT)
        while len(self._plans) > 1 and (len(self._plans) > PLANS_KEPT or self._bytes > PLAN_BYTES):
            _, oldest = self._plans.popitem(last=False)
            self._forget(oldest, len(oldest))
        while self._bytes > PLAN_BYTES and len(plans) > 1:
            self._forget(plans, 1)

    def _forget(self, plans: list[Plan], count: int) -> None:
        """Drops the first plans of a list."""
        for plan in plans[: max(count, 0)]:
            self._bytes -= plan.bound.program.arena_bytes
        del plans[: max(count, 0)]


class Executor:
    """Runs one graph. Thread safe: one run at a time."""

    def __init__(
        self,
        graph: Graph,
        config: Config,
        pool: ConstantPool | None = None,
        clock: Clock | None = None,
        made: Callable[[Plan, Sequence[Value]], None] | None = None,
        tuned: Mapping[str, str] | None = None,
        tuning: bool = False,
    ) -> None:
        """``made`` is called with every new plan that begins a run, and what is fetched from it. ``tuned``: algorithms
        by signature, by default those that are remembered. ``tuning``: with candidates that only tuning looks at."""
        self.graph, self.config = graph, config
        self._made = made
        self._clock = clock or Clock(config.time_limit)
        self.library = shared_library(config.cache)
        self._pool = pool or ConstantPool(PackedStore.shared() if config.cache else None, self.library.target)
        choices = known_choices(config) if tuned is None else tuned
        self._threads = usable_threads(config.threads)
        self._options = Options(self._threads, config.precision, choices, tuning)
        self._plans = PlanCache()
        self._bodies: dict[Graph, Executor] = {}
        self._lock = threading.RLock()
        self.last_plans: list[Plan] = []
        _EXECUTORS.add(self)

    @property
    def pool(self) -> ConstantPool:
        """Its packed weights and tables, to share with other executors of the same graph."""
        return self._pool

    def run(self, feeds: Mapping[Value, np.ndarray], fetch: Sequence[Value]) -> list[np.ndarray]:
        """The numbers of ``fetch`` (any values of the graph) for these inputs (and captured values)."""
        with self._lock, self._clock:
            return self._run(dict(feeds), tuple(fetch))

    def plan(self, feeds: Mapping[Value, np.ndarray], fetch: Sequence[Value]) -> Plan:
        """The first stage's plan for these inputs, made when there is none yet."""
        with self._lock:
            return self._plan(self._plans, 0, dict(feeds), {}, {}, tuple(fetch))

    def _run(self, values: dict[Value, np.ndarray], fetch: tuple[Value, ...]) -> list[np.ndarray]:
        plans, start = self._plans, 0
        known: Known = {}
        constants: dict[Value, Tensor] = {}
        found: dict[Value, np.ndarray] = {}
        self.last_plans = []
        while True:
            self._clock.check(f"graph '{self.graph.name}'")
            plan = self._plan(plans, start, values, constants, known, fetch)
            self.last_plans.append(plan)
            arrays = plan.bound.run([values[v] for v in plan.inputs], self._threads)
            at = dict(zip(plan.results, arrays, strict=True))
            at.update({t: values[v] for v, t in zip(plan.inputs, plan.input_tensors, strict=True)})
            env, blocked = plan.stage.env, plan.stage.blocked
            for v in fetch:
                if v in env and v not in found:
                    array = _numbers(env[v], at)
                    own = env[v] in plan.results  # else it is the model's constant or the caller's input
                    found[v] = array if own else array.copy()
            if blocked is None:
                return [found[v] for v in fetch]
            live = live_after(self.graph, plan.stage)
            constants = {v: env[v] for v in live if env[v].const is not None}
            values = {v: at[env[v]] for v in live if env[v].const is None}
            plans, start, known = plan.following, plan.stage.next_node, dict(known)
            self._answer(blocked, at, values, constants, known, env)
            if blocked.eager is not None and blocked.top_level:
                start += 1

    def _answer(
        self,
        blocked: Blocked,
        at: Mapping[Tensor, np.ndarray],
        values: dict[Value, np.ndarray],
        constants: Mapping[Value, Tensor],
        known: Known,
        env: Mapping[Value, Tensor],
    ) -> None:
        """Finds what blocked a stage: the numbers asked for, or the result of an eager operator."""
        arrays = [None if t is None else _numbers(t, at) for t in blocked.tensors]
        if blocked.eager is None:
            assert arrays[0] is not None
            known[blocked.key] = (arrays[0],)
            return
        op, node = blocked.eager
        if getattr(op, "needs_runner", False):
            outer = {v: _numbers(env[v], at) for v in captured(node) if v in env}

            def run_graph(graph: Graph, feeds: Mapping[Value, np.ndarray]) -> list[np.ndarray]:
                if graph not in self._bodies:
                    choices, tuning = self._options.tuned, self._options.tuning
                    own = Executor(graph, self.config, self._pool, self._clock, tuned=choices, tuning=tuning)
                    self._bodies[graph] = own
                body = self._bodies[graph]
                return body.run({**outer, **feeds}, graph.outputs)

            results = evaluate_node(node, arrays, run_graph)
        else:
            results = evaluate_node(node, arrays)
        if blocked.top_level:
            values.update({v: np.asarray(r) for v, r in zip(node.outputs, results, strict=False)})
        else:
            known[blocked.key] = tuple(np.asarray(r) for r in results)

    def _plan(
        self,
        plans: PlanCache,
        start: int,
        values: dict[Value, np.ndarray],
        constants: Mapping[Value, Tensor],
        known: Known,
        fetch: tuple[Value, ...],
    ) -> Plan:
        inputs = list(values)
        arrays = [values[v] for v in inputs]
        shapes = tuple((v, a.dtype, a.shape) for v, a in values.items())
        answers = tuple((k, tuple(a.tobytes() for a in v)) for k, v in known.items())
        key = (start, shapes, answers, fetch)
        plan = plans.find(key, arrays)
        if plan is None:
            with uninterrupted():
                plan = self._make(start, values, constants, known, fetch)
            plans.add(key, plan)
            if self._made is not None and plans is self._plans:
                self._made(plan, fetch)
        return plan

    def _make(
        self,
        start: int,
        values: Mapping[Value, np.ndarray],
        constants: Mapping[Value, Tensor],
        known: Known,
        fetch: tuple[Value, ...],
    ) -> Plan:
        tensors = {v: input_tensor(v.name, a) for v, a in values.items()}
        numbers = {tensors[v]: a for v, a in values.items()}
        stage = lower_stage(
            self.graph, start, {**tensors, **constants}, numbers, known, self.config.memory, self._pool.folds
        )
        wanted = [stage.env[v] for v in fetch if v in stage.env]
        if any(isinstance(t, ListTensor) for t in wanted):
            names = ", ".join(v.name for v in fetch if isinstance(stage.env.get(v), ListTensor))
            raise UnsupportedError(
                f"{names}: a sequence of tensors cannot be fetched; take its elements (SequenceAt) or join them "
                "(ConcatFromSequence) in the model"
            )
        if stage.blocked is not None:
            wanted += [t for t in stage.blocked.tensors if t is not None]
            wanted += [stage.env[v] for v in live_after(self.graph, stage)]
            if stage.blocked.eager is not None:
                wanted += [stage.env[v] for v in captured(stage.blocked.eager[1]) if v in stage.env]
        own = set(tensors.values())
        results = [t for t in dict.fromkeys(wanted) if t.const is None and t not in own]
        used = list(tensors.values())
        bound: BoundProgram | MeaningProgram
        tensors_used = [*used, *results, *(t for q in stage.prims for t in (*q.inputs, *q.outputs))]
        if self.config.reference or any(t.dtype is DType.STR for t in tensors_used):  # strings have no place in memory
            bound = MeaningProgram(stage.prims, used, results, self.config.memory)
        else:
            program = compile_stage(stage.prims, used, results, self.library.target, self._options, self._pool)
            check_memory(program.arena_bytes, self.config.memory, _largest(program))
            loop_functions(self.library.cache)
            bound = BoundProgram(program, self.library, self._threads, self._pool.filled)
        return Plan(stage, bound, list(values), used, results, stage.guards)


_EXECUTORS: weakref.WeakSet[Executor] = weakref.WeakSet()


def _after_fork() -> None:
    """A thread that is gone in the child may have held a lock. A child forked within a run keeps its own."""
    for executor in list(_EXECUTORS):
        if executor._lock.acquire(blocking=False):
            executor._lock.release()
        else:
            executor._lock = threading.RLock()
            executor._clock.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _largest(program: Program) -> str:
    """The node whose result takes most of the arena."""
    sizes = ((b.nbytes, c.origin) for c in program.commands for b in c.buffers())
    return max(sizes, default=(0, "the inputs"), key=lambda item: item[0])[1]


def _numbers(tensor: Tensor, at: Mapping[Tensor, np.ndarray]) -> np.ndarray:
    if tensor.const is not None:
        return tensor.const
    if tensor not in at:
        raise RunError(f"value '{tensor.name}' was not computed")
    return at[tensor]
