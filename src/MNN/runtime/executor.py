"""Plans and runs a graph: stages of native calls with decisions taken in between.

Most models are one stage. A plan is kept per set of input shapes (and per answer to the questions that shapes depend
on), the least recently used ones are dropped; kernels and packed weights are shared by all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from MNN.backends.base.backend import Backend, Bound
from MNN.backends.base.open_words import OpenSizes, Shape
from MNN.backends.base.options import Options
from MNN.backends.base.program import Program
from MNN.backends.base.run_lock import RunLock
from MNN.compiler.integers.unsigned_bytes import PlannedGraph
from MNN.compiler.lower import Blocked, Guard, Stage, input_tensor, live_after, lower_stage
from MNN.compiler.open.plan import SizeRange
from MNN.compiler.usage import has_text
from MNN.errors import RunError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value, captured
from MNN.ir.prims import Tensor
from MNN.ops.core import nested
from MNN.ops.core.base import evaluate_node
from MNN.ops.core.nested import Nested
from MNN.runtime.config import Config
from MNN.runtime.fast_path import LastOpenRun, LastRun
from MNN.runtime.gc_pause import uninterrupted
from MNN.runtime.limits import Clock, check_memory
from MNN.runtime.machines import Machines, Rooms
from MNN.runtime.open_plans import Given, OpenPlans
from MNN.runtime.range_planner import RangePlanner
from MNN.runtime.reference import MeaningProgram
from MNN.runtime.state_numbers import state_numbers
from MNN.runtime.storage.background import run_in_background
from MNN.runtime.storage.tuned_choices import known_choices

PLANS_KEPT = 32
"""Plans kept per stage."""
PLAN_BYTES = 256 << 20
"""Arena memory that the plans kept per stage may take together; the plan in use is kept in any case."""

Key = tuple[object, ...]
_Numbers = Mapping[Tensor, np.ndarray]
Known = dict[str, tuple[Nested, ...]]


@dataclass(eq=False)
class Plan:
    """A stage ready to run, and the plans that may follow it."""

    stage: Stage
    bound: Bound
    inputs: list[Value]
    input_tensors: list[Tensor]
    """Those of the inputs' arrays: one for each input that is a plain tensor."""
    results: list[Tensor]
    """Tensors that leave the stage, in the order of the program's outputs."""
    guards: list[Guard]
    following: PlanCache

    @property
    def open_sizes(self) -> OpenSizes:
        """The sizes that it leaves open; asked of plans that leave some."""
        assert self.bound.program.open_sizes is not None
        return self.bound.program.open_sizes

    def resize(self, sizes: tuple[int, ...]) -> None:
        """From the next run on, open sizes are these."""
        self.bound.resize(sizes)

    def holds(self, arrays: Sequence[np.ndarray]) -> bool:
        if not self.guards:
            return True
        numbers = dict(zip(self.input_tensors, arrays, strict=True))
        return all(g.holds(numbers) for g in self.guards)

    def simple_program(self, fetch: Sequence[Value]) -> Program | None:
        """The program when it gives exactly what is fetched, for all numbers of such sizes, and is not a makeshift."""
        program, env = self.bound.program, self.stage.env
        plain = [env[v] for v in self.inputs] == self.input_tensors and [env.get(v) for v in fetch] == self.results
        simple = plain and self.stage.blocked is None and not self.guards and not program.alone_is_faster
        return program if simple and self.bound.parts() == [self.bound] else None


class PlanCache:
    """Plans by key, several per key where guards differ."""

    def __init__(self, rooms: Rooms) -> None:
        """``rooms``: memory that its plans share."""
        self._plans: OrderedDict[Key, list[Plan]] = OrderedDict()
        self.rooms = rooms

    def nbytes(self) -> int:
        """Memory that the plans work in."""
        taken: dict[Hashable, int] = {}
        for plans in self._plans.values():
            for plan in plans:
                taken |= plan.bound.memory()
        return sum(taken.values())

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
        del plans[:-PLANS_KEPT]
        while len(self._plans) > 1 and (len(self._plans) > PLANS_KEPT or self.nbytes() > PLAN_BYTES):
            self._plans.popitem(last=False)
        while len(plans) > 1 and self.nbytes() > PLAN_BYTES:
            del plans[0]


class Executor:
    """Runs one graph. Thread safe: one run at a time."""

    def __init__(
        self,
        graph: Graph,
        config: Config,
        machines: Machines | None = None,
        clock: Clock | None = None,
        made: Callable[[Plan, Sequence[Value]], None] | None = None,
        tuned: Mapping[str, str] | None = None,
        tuning: bool = False,
        states: Sequence[tuple[Value, Value]] = (),
    ) -> None:
        """``made`` is called with every new plan that begins a run, and what is fetched from it. ``tuned``: algorithms
        by signature, by default those that are remembered. ``tuning``: with candidates that only tuning looks at.
        ``states``: inputs and outputs that are one memory, which outlives a run where there is one for it."""
        self._states = tuple(states)
        self.graph, self.config = graph, config
        self._made = made
        self._clock = clock or Clock(config.time_limit)
        self.machines = machines or Machines(config)
        """What it runs on, with packed weights and tables: to share with other executors of the same graph."""
        self._planned = PlannedGraph(graph, None if config.reference else self.backend)
        choices = known_choices(config) if tuned is None else tuned
        self._threads = self.backend.usable_threads(config.threads)
        self._options = Options(self._threads, config.precision, choices, tuning)
        self._run_lock = RunLock(self._clock.reset)
        self._plans = PlanCache(self.machines.rooms(self._run_lock))
        self._bodies: dict[Graph, Executor] = {}
        self._open_plans = OpenPlans()
        self.last_plans: list[Plan] = []

    @property
    def backend(self) -> Backend:
        """The back end that was asked for."""
        return self.machines.main

    def run(self, feeds: Mapping[Value, Nested], fetch: Sequence[Value]) -> list[Nested]:
        """The numbers of ``fetch`` (any values of the graph) for these inputs (and captured values), which may be lists
        (sequences), dicts (maps) and None (empty optionals) of arrays."""
        with self._run_lock.lock, self._clock:
            return self._run(dict(feeds), tuple(fetch))

    def plan(self, feeds: Mapping[Value, Nested], fetch: Sequence[Value]) -> Plan:
        """The first stage's plan for inputs of exactly these sizes, made when there is none yet."""
        with self._run_lock.lock:
            return self._plan(self._plans, 0, dict(feeds), {}, {}, tuple(fetch), alone=True)

    def saw(self, dtypes: Sequence[np.dtype], shapes: Sequence[tuple[int, ...]], fetch: Sequence[Value]) -> None:
        """Says that inputs of these types and sizes were run without this."""
        inputs = tuple([v for v in self.graph.inputs if not v.is_const])
        self._open_plans.saw(Given(inputs, tuple(dtypes), tuple(fetch)), shapes)

    def whole_plan(self, feeds: Mapping[Value, Nested], fetch: Sequence[Value]) -> Plan | None:
        """The plan for such inputs, ready for their sizes, where one program gives all of ``fetch``."""
        with self._run_lock.lock:
            plan = self._plan(self._plans, 0, dict(feeds), {}, {}, tuple(fetch))
            self.last_plans = [plan]
            whole = plan.stage.blocked is None and len(plan.bound.program.inputs) >= len(plan.inputs)
            return plan if whole and len(plan.inputs) == len(plan.input_tensors) else None

    def result_types(
        self, feeds: Mapping[Value, Nested], fetch: Sequence[Value]
    ) -> list[tuple[DType, tuple[int, ...]]] | None:
        """Element types and sizes of values for these inputs; None when they depend on more than sizes."""
        with self._run_lock.lock:
            plan = self._plan(self._plans, 0, dict(feeds), {}, {}, tuple(fetch))
            if plan.stage.blocked is not None:
                return None
            if plan.bound.program.open_sizes is not None:
                return plan.bound.result_types()
            return [(plan.stage.env[v].dtype, plan.stage.env[v].shape) for v in fetch]

    def last_run(self, values: Mapping[Value, np.ndarray], fetch: Sequence[Value]) -> LastRun | LastOpenRun | None:
        """How to run again on inputs like these, when one program gave all that was fetched in the last run."""
        with self._run_lock.lock:
            plan = self.last_plans[0] if len(self.last_plans) == 1 else None
            if plan is None or plan.simple_program(fetch) is None:
                return None
            arrays = [values[v] for v in plan.inputs]
            given = [(v.name, a) for v, a in zip(plan.inputs, arrays, strict=True)]
            if plan.bound.program.open_sizes is not None:
                return LastOpenRun(given, [v.name for v in fetch], plan.bound, self._threads)
            if any(a.shape != t.shape for a, t in zip(arrays, plan.input_tensors, strict=True)):
                return None  # another thread has run since
            return LastRun(given, [v.name for v in fetch], plan.bound, self._threads)

    def _run(self, values: dict[Value, Nested], fetch: tuple[Value, ...]) -> list[Nested]:
        plans, start = self._plans, 0
        known: Known = {}
        constants: dict[Value, Tensor] = {}
        found: dict[Value, Nested] = {}
        self.last_plans = []
        while True:
            self._clock.check(f"graph '{self.graph.name}'")
            plan = self._plan(plans, start, values, constants, known, fetch)
            self.last_plans.append(plan)
            given = [a for v in plan.inputs for a in nested.arrays(values[v])]
            arrays = plan.bound.run(given, self._threads)
            at = dict(zip([*plan.results, *plan.input_tensors], [*arrays, *given], strict=True))
            env, blocked, new = plan.stage.env, plan.stage.blocked, set(plan.results)

            def result(t: Tensor, new: set[Tensor] = new, at: _Numbers = at) -> np.ndarray:
                own = t in new  # not the model's constant, the caller's input or what is another output already
                new.discard(t)
                return _numbers(t, at) if own else _numbers(t, at).copy()

            found.update({v: nested.assemble(env[v], result) for v in fetch if v in env and v not in found})
            if blocked is None:
                return [found[v] for v in fetch]
            live = live_after(self._planned.graph(fetch), plan.stage)
            constants = {v: env[v] for v in live if nested.is_constant(env[v])}
            values = {v: _value(env[v], at) for v in live if v not in constants}
            plans, start, known = plan.following, plan.stage.next_node, dict(known)
            self._answer(blocked, at, values, constants, known, env)
            if blocked.eager is not None and blocked.top_level:
                start += 1

    def _answer(
        self,
        blocked: Blocked,
        at: _Numbers,
        values: dict[Value, Nested],
        constants: Mapping[Value, Tensor],
        known: Known,
        env: Mapping[Value, Tensor],
    ) -> None:
        """Finds what blocked a stage: the numbers asked for, or the result of an eager operator."""
        arrays = [None if t is None else _value(t, at) for t in blocked.tensors]
        if blocked.eager is None:
            known[blocked.key] = (arrays[0],)
            return
        op, node = blocked.eager
        if getattr(op, "needs_runner", False):
            outer = {v: _value(env[v], at) for v in captured(node) if v in env}

            def run_graph(graph: Graph, feeds: Mapping[Value, Nested]) -> list[Nested]:
                if graph not in self._bodies:
                    choices, tuning = self._options.tuned, self._options.tuning
                    own = Executor(graph, self.config, self.machines, self._clock, tuned=choices, tuning=tuning)
                    self._bodies[graph] = own
                body = self._bodies[graph]
                return body.run({**outer, **feeds}, graph.outputs)

            results = evaluate_node(node, arrays, run_graph)
        else:
            results = evaluate_node(node, arrays)
        if blocked.top_level:
            values.update(zip(node.outputs, results, strict=False))
        else:
            known[blocked.key] = tuple(results)

    def _plan(
        self,
        plans: PlanCache,
        start: int,
        values: dict[Value, Nested],
        constants: Mapping[Value, Tensor],
        known: Known,
        fetch: tuple[Value, ...],
        alone: bool = False,
    ) -> Plan:
        """The plan for a stage; ``alone``: for these sizes and no others."""
        inputs = list(values)
        arrays = [a for v in inputs for a in nested.arrays(values[v])]
        shapes = tuple((v, nested.signature(a)) for v, a in values.items())
        answers = tuple((k, tuple(nested.signature(a, True) for a in v)) for k, v in known.items())
        key = (start, shapes, answers, fetch)
        plan = plans.find(key, arrays)
        first = plans is self._plans and not self._options.tuning and self.machines.opens_sizes
        if plan is None and first and not alone:
            plan = self._range_plan(values, arrays, fetch)
        if plan is None:
            with uninterrupted(leave=run_in_background):
                plan = self._make(start, values, constants, known, fetch, plans.rooms)
            plans.add(key, plan)
            if self._made is not None and plans is self._plans:
                self._made(plan, fetch)
        return plan

    def _range_plan(
        self, values: dict[Value, Nested], arrays: Sequence[np.ndarray], fetch: tuple[Value, ...]
    ) -> Plan | None:
        """A plan for a range of sizes with these, found or made; None where they are to be planned alone."""
        if self.config.reference or len(arrays) != len(values):
            return None
        given = Given(tuple(values), tuple([a.dtype for a in arrays]), fetch)
        found = self._open_plans.find(given, [a.shape for a in arrays])
        if found is not None:
            assert isinstance(found, Plan)
            return found

        def make(shapes: dict[Value, Shape], ranges: dict[str, SizeRange]) -> Plan:
            dtypes = dict(zip(values, map(DType.of, arrays), strict=True))
            return self._open_plan(shapes, dtypes, ranges, fetch)

        with uninterrupted(leave=run_in_background):
            made = self._open_plans.make(given, arrays, make)
        if made is not None and self._made is not None:
            self._made(made, fetch)
        return made

    def _open_plan(
        self,
        shapes: Mapping[Value, Shape],
        dtypes: Mapping[Value, DType],
        ranges: Mapping[str, SizeRange],
        fetch: tuple[Value, ...],
    ) -> Plan:
        options = replace(self._options, open_sizes=True)
        graph, memory = self._planned.graph(fetch), self.config.memory
        planner = RangePlanner(graph, self.machines, options, memory, self._states, PLAN_BYTES)
        program, last = planner.plan(shapes, dtypes, ranges, fetch)
        rooms = self._plans.rooms  # the memory of all other plans of this graph, too
        bound = self.machines.bind(program, options, rooms, self._check)
        own = list(last.inputs)[: len(shapes)]
        return Plan(last.stage, bound, list(shapes), own, list(last.results), [], PlanCache(rooms))

    def _make(
        self,
        start: int,
        values: Mapping[Value, Nested],
        constants: Mapping[Value, Tensor],
        known: Known,
        fetch: tuple[Value, ...],
        rooms: Rooms,
    ) -> Plan:
        tensors = {v: nested.tensor_of(v.name, a, input_tensor) for v, a in values.items()}
        used = [t for tensor in tensors.values() for t in nested.leaves(tensor)]
        numbers = dict(zip(used, (a for value in values.values() for a in nested.arrays(value)), strict=True))
        graph = self._planned.graph(fetch)
        stage = lower_stage(
            graph, start, {**tensors, **constants}, numbers, known, self.config.memory, self.machines.pool.folds
        )
        wanted = [stage.env[v] for v in fetch if v in stage.env]
        if stage.blocked is not None:
            wanted += [t for t in stage.blocked.tensors if t is not None]
            wanted += [stage.env[v] for v in live_after(graph, stage)]
            if stage.blocked.eager is not None:
                wanted += [stage.env[v] for v in captured(stage.blocked.eager[1]) if v in stage.env]
        own, plain = set(used), dict.fromkeys(t for tensor in wanted for t in nested.leaves(tensor))
        results = [t for t in plain if t.const is None and t not in own]
        bound: Bound
        text = has_text(stage.prims) or any(t.dtype is DType.STR for t in (*used, *results))
        if self.config.reference or text:  # strings have no place in memory
            bound = MeaningProgram(stage.prims, used, results, self.config.memory)
        else:
            options = replace(
                self._options, states=state_numbers(self._states, list(values), used, results, stage, fetch)
            )
            bound = self.machines.prepare(stage.prims, used, results, options, rooms, self._check)
        following = PlanCache(self.machines.rooms(self._run_lock))
        return Plan(stage, bound, list(values), used, results, stage.guards, following)

    def _check(self, program: Program) -> None:
        if program.arena_bytes > self.config.memory:
            check_memory(program.arena_bytes, self.config.memory, _largest(program))


def _largest(program: Program) -> str:
    """The node whose result takes most of the arena."""
    sizes = ((b.nbytes, c.origin) for c in program.commands for b in c.buffers())
    return max(sizes, default=(0, "the inputs"), key=lambda item: item[0])[1]


def _value(tensor: Tensor, at: _Numbers) -> Nested:
    return nested.assemble(tensor, lambda t: _numbers(t, at))


def _numbers(tensor: Tensor, at: _Numbers) -> np.ndarray:
    if tensor.const is not None:
        return tensor.const
    if tensor not in at:
        raise RunError(f"value '{tensor.name}' was not computed")
    return at[tensor]
