"""From operators to primitives, as far as the known numbers allow.

:func:`lower_stage` lowers the nodes of a graph from a starting point until all are done, or until one needs the numbers
of a tensor that only running can tell (:class:`Blocked`). The runtime then runs what was lowered, and lowers the rest
with the numbers known. Small computations on the inputs alone (shapes passed as tensors, flags) are evaluated at once
and become *guards*: the plan holds as long as they give the same numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.errors import MNNError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value, captured
from MNN.ir.prims import Host, Prim, Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ops.core import nested
from MNN.ops.core.base import EagerOperator, evaluate_node, lower_node, operator, traits
from MNN.ops.core.builder import Builder, NeedValue
from MNN.ops.core.folding import FoldCache
from MNN.ops.core.nested import Nested
from MNN.ops.core.recipes import Recipe, Tape, operands
from MNN.ops.core.sketches import READ, Sketches, place
from MNN.ops.linear.compressed import compressed_weight, lower_compressed
from MNN.reference.primitives import evaluate

GUARD_PRIMS = 200
GUARD_ELEMENTS = 1 << 14
"""Largest computation (in primitives, and elements of any tensor in it) that is evaluated while planning."""


@dataclass
class Guard:
    """``tensor``, computed by ``prims`` from stage inputs, must equal ``value`` for the plan to hold; with a ``bound``,
    whether it exceeds that must."""

    tensor: Tensor
    prims: list[Prim]
    value: np.ndarray
    bound: int | None = None

    def holds(self, numbers: Mapping[Tensor, np.ndarray]) -> bool:
        """Whether the inputs' numbers give the guarded value."""
        found = evaluate_cone(self.tensor, self.prims, numbers)
        if self.bound is not None:
            found = found > self.bound
        return found.shape == self.value.shape and found.tobytes() == self.value.tobytes()


@dataclass
class Blocked:
    """Why lowering stopped before ``node``: it needs ``tensors``' numbers under the name ``key``.

    ``eager`` is the operator to evaluate on them; None when only the numbers themselves are asked for.
    """

    node: Node
    key: str
    tensors: list[Tensor | None]
    eager: tuple[EagerOperator, Node] | None
    top_level: bool


@dataclass
class Stage:
    """A lowered stretch of the graph: primitives in order, and what goes in and out of it."""

    prims: list[Prim]
    inputs: dict[Value, Tensor]
    env: dict[Value, Tensor]
    """Every value known after this stage."""
    next_node: int
    blocked: Blocked | None
    guards: list[Guard] = field(default_factory=list)
    open_inputs: dict[Tensor, np.ndarray] = field(default_factory=dict)
    """Inputs besides the caller's, with their numbers, which follow from open sizes."""


class _NeedEager(Exception):  # noqa: N818 - a request to the planner, not an error
    def __init__(self, op: EagerOperator, node: Node, inputs: Sequence[Tensor | None], key: str) -> None:
        super().__init__(node.name)
        self.op, self.node, self.inputs, self.key = op, node, list(inputs), key


class _NeedKeyedValue(NeedValue):
    def __init__(self, tensor: Tensor, why: str, key: str) -> None:
        super().__init__(tensor, why)
        self.key = key


class Lowering(Builder):
    """A builder that knows the graph: it lowers nodes, inlines subgraphs and answers for numbers."""

    def __init__(
        self,
        numbers: Mapping[Tensor, np.ndarray],
        known: Mapping[str, Sequence[Nested]],
        room: int,
        folds: FoldCache | None,
    ) -> None:
        super().__init__(room=room, folds=folds)
        self.env: dict[Value, Tensor] = {}
        self.guards: list[Guard] = []
        self._numbers = numbers
        self._known = known
        self._path: list[str] = []
        self._asked = 0
        self._tape: Tape | None = None
        """Where the primitives of a node are noted; None as soon as they depend on more than those of nodes like it."""
        self._alike: Sketches | None = None
        self._recipes: dict[Hashable, tuple[Node, Recipe | None]] = {}
        """Recipes of this plan, and of which node each is."""

    def repeat(self, graph: Graph) -> None:
        """Has nodes of ``graph`` that are alike lowered once."""
        found = self.folds.sketches.get(graph)
        if found is None:
            found = self.folds.sketches[graph] = Sketches(graph, lambda node: traits(node).repeats)
        self._alike = found

    def emit(self, prim: Prim, *types: tuple[DType, tuple[int, ...]]) -> list[Tensor]:
        """As builders do, noted where another node may need it."""
        outputs = super().emit(prim, *types)
        if self._tape is not None:
            self._tape.append((prim, types, outputs))
        return outputs

    def lookup(self, value: Value) -> Tensor:
        """The tensor of a graph value: computed before, captured from outside, or constant."""
        found = self.env.get(value)
        if found is not None:
            return found
        if value.data is None:
            raise MNNError(f"{self.where}: value '{value.name}' is used before it is computed")
        if isinstance(value.data, QuantizedArray):
            self.env[value] = tensor = self.folds.expanded(value.data)
        else:
            self.env[value] = tensor = self.const(value.data)
        tensor.name = value.name
        return tensor

    def lower_node(self, node: Node) -> None:
        """Lowers one node and binds its outputs."""
        sketch = None if self._alike is None else self._alike.get(node)
        if sketch is not None and self._alike is not None:
            self._repeat(self._alike, node, *sketch)
            return
        outer = self.where
        self.where = place(node)
        op = operator(node)
        weight = compressed_weight(node)
        late = None if weight is None else node.inputs[1]
        inputs = [None if v is None or v is late else self.lookup(v) for v in node.inputs]
        found = None if weight is None else lower_compressed(self, node, inputs, weight)
        if late is not None and found is None:
            inputs[1] = self.lookup(late)
        if isinstance(op, EagerOperator):
            outputs = self._lower_eager(op, node, inputs)
        else:
            outputs = lower_node(self, node, inputs) if found is None else found
        self._bind(node, outputs)
        self.where = outer

    def _repeat(self, alike: Sketches, node: Node, sketch: int, where: str) -> None:
        """Lowers one of several nodes that may be alike."""
        outer, self.where = self.where, where
        inputs = [None if v is None else self.lookup(v) for v in node.inputs]
        if any(t is not None and t.sizes is not None for t in inputs):
            self._bind(node, lower_node(self, node, inputs))
            self.where = outer
            return
        about, given = operands(inputs, [v is not None and v.data is not None for v in node.inputs])
        key = sketch, about
        first, recipe = self._recipes.get(key, (node, None))
        if recipe is not None:
            outputs = recipe.follow(self, given)
            alike.follow(first)
        else:
            self._tape = [] if key not in self._recipes and alike.worth_writing(node) else None
            try:
                outputs = lower_node(self, node, inputs)
                self._recipes[key] = first, None if self._tape is None else Recipe.of(self._tape, given, outputs)
            finally:
                self._tape = None
        self._bind(node, outputs)
        self.where = outer

    def _bind(self, node: Node, outputs: Sequence[Tensor]) -> None:
        for value, tensor in zip(node.outputs, outputs, strict=False):
            self.env[value] = tensor
            tensor.name = tensor.name or value.name

    def _lower_eager(self, op: EagerOperator, node: Node, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        key = self._next_key(node.name)
        if key in self._known:
            return [nested.tensor_of(node.name, a, lambda _, array: self.const(array)) for a in self._known[key]]
        outside = [self.lookup(v) for v in captured(node)]
        ready = all(t is None or t.const is not None for t in (*inputs, *outside))
        if ready and not getattr(op, "needs_runner", False):
            return [self.const(a) for a in evaluate_node(node, [None if t is None else t.const for t in inputs])]
        raise _NeedEager(op, node, inputs, key)

    def inline(self, graph: Graph, bindings: Mapping[Value, Tensor]) -> list[Tensor]:
        """Lowers a subgraph in place; its inputs are bound, captured values come from outside."""
        self._path.append(f"{self.where}/{graph.name}")
        self.env.update(bindings)
        for node in graph.nodes:
            self.lower_node(node)
        self._path.pop()
        return [self.lookup(v) for v in graph.outputs]

    def value(self, tensor: Tensor | None, why: str = "an operand") -> np.ndarray:
        """The numbers of a tensor: constant, given, or computed from the inputs when that is small."""
        if tensor is None or tensor.const is None or tensor.const.size > READ:
            self._tape = None
        if tensor is None or tensor.const is not None:
            return super().value(tensor, why)
        self.read.append(tensor)
        key = self._next_key(why)
        if key in self._known:
            return np.asarray(self._known[key][0])
        cone = _cone(tensor, self._numbers)
        if cone is None:
            raise _NeedKeyedValue(tensor, why, key)
        result = evaluate_cone(tensor, cone, self._numbers)
        self.guards.append(Guard(tensor, cone, result.copy()))
        return result

    def exceeds(self, tensor: Tensor, bound: int, why: str = "an operand") -> bool:
        """Whether a number exceeds a bound. The plan holds for all numbers of which the same is true."""
        self._tape = None
        cone = None if tensor.const is not None else _cone(tensor, self._numbers)
        if cone is None:
            return int(self.value(tensor, why).reshape(-1)[0]) > bound
        found = evaluate_cone(tensor, cone, self._numbers) > bound
        self.guards.append(Guard(tensor, cone, found, bound))
        return bool(found.reshape(-1)[0])

    def begin_node(self, index: int) -> None:
        """Starts the numbering of questions anew, so that the same question always has the same key."""
        self._path = [str(index)]
        self._asked = 0

    def _next_key(self, what: str) -> str:
        self._asked += 1
        return f"{'/'.join(self._path)}#{self._asked}:{what}"

    @property
    def nested(self) -> bool:
        return len(self._path) > 1


def lower_stage(
    graph: Graph,
    start: int,
    bound: Mapping[Value, Tensor],
    numbers: Mapping[Tensor, np.ndarray],
    known: Mapping[str, Sequence[Nested]],
    room: int = 1 << 62,
    folds: FoldCache | None = None,
) -> Stage:
    """Lowers ``graph.nodes[start:]`` as far as possible.

    ``bound`` gives the tensors of values that exist already (stage inputs and constants), ``numbers`` what those hold
    in this run, ``known`` answers to questions that blocked an earlier attempt, ``room`` the bytes that any one tensor
    may take, ``folds`` what earlier plans computed from constants.
    """
    low = Lowering(numbers, known, room, folds)
    low.env.update(bound)
    low.repeat(graph)
    inputs = {v: t for v, t in bound.items() if t.const is None}
    index = start
    try:
        for index in range(start, len(graph.nodes)):
            low.begin_node(index)
            low.lower_node(graph.nodes[index])
    except _NeedEager as need:
        _check_gradients(graph, index)
        blocked = Blocked(graph.nodes[index], need.key, need.inputs, (need.op, need.node), not low.nested)
        return Stage(low.prims, inputs, low.env, index, blocked, low.guards)
    except _NeedKeyedValue as need:
        _check_gradients(graph, index)
        blocked = Blocked(graph.nodes[index], need.key, [need.tensor], None, not low.nested)
        return Stage(low.prims, inputs, low.env, index, blocked, low.guards)
    for value in graph.outputs:
        low.lookup(value)
    return Stage(low.prims, inputs, low.env, len(graph.nodes), None, low.guards, low.open_numbers.inputs)


def _check_gradients(graph: Graph, index: int) -> None:
    """Refuses a graph that takes gradients behind a node at which it is cut in two programs."""
    node = graph.nodes[index]
    if any(traits(n).differentiates for n in graph.nodes[index:]):
        raise UnsupportedError(
            f"{place(node)}: what it computes decides sizes that are only known when the model runs, and gradients do "
            "not reach across that; give these sizes as constants"
        )


def _cone(tensor: Tensor, numbers: Mapping[Tensor, np.ndarray]) -> list[Prim] | None:
    """The primitives that compute a tensor from given numbers, in order; None when that is too much or impossible."""
    order: list[Prim] = []
    seen: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(tensor, False)]
    while stack:
        current, done = stack.pop()
        producer = current.producer
        if current.const is not None or current in numbers:
            if current.const is None and numbers[current].size > GUARD_ELEMENTS:
                return None
            continue
        if producer is None or (isinstance(producer, Host) and not producer.pure):
            return None
        if done:
            if id(producer) not in seen:
                seen.add(id(producer))
                order.append(producer)
            continue
        if id(producer) in seen:
            continue
        if len(order) > GUARD_PRIMS or any(int(np.prod(t.shape)) > GUARD_ELEMENTS for t in producer.outputs):
            return None
        stack.append((current, True))
        stack.extend((t, False) for t in producer.inputs)
    return order


def evaluate_cone(tensor: Tensor, prims: Sequence[Prim], numbers: Mapping[Tensor, np.ndarray]) -> np.ndarray:
    """Computes a tensor by the reference implementation of the primitives it depends on."""
    found: dict[Tensor, np.ndarray] = dict(numbers)
    for prim in prims:
        arrays = [t.const if t.const is not None else found[t] for t in prim.inputs]
        types = [(t.dtype, t.shape) for t in prim.outputs]
        found.update(zip(prim.outputs, evaluate(prim, arrays, types), strict=True))
    return np.asarray(found[tensor])


def live_after(graph: Graph, stage: Stage) -> list[Value]:
    """Values made so far that the rest of the graph still uses."""
    used: dict[Value, None] = dict.fromkeys(graph.outputs)
    for node in graph.nodes[stage.next_node :]:
        used.update(dict.fromkeys(v for v in (*node.inputs, *captured(node)) if v is not None))
    return [v for v in used if v in stage.env]


def input_tensor(name: str, array: np.ndarray) -> Tensor:
    """The stage input that an array given by the user becomes."""
    return Tensor(DType.of(array), tuple(array.shape), name=name)
