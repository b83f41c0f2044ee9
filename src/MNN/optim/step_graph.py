"""From the graph of a loss to that of a training step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits


@dataclass(frozen=True)
class Special:
    """Attributes of a step that are others for some parameters, which are given by their numbers."""

    parameters: tuple[int, ...]
    attributes: tuple[tuple[str, object], ...]


AVERAGE = "average"
"""The state that is a running mean of a parameter; it begins as the parameter."""


@dataclass(frozen=True)
class Method:
    """An optimiser's operator with its attributes, and names for the states that a parameter has."""

    operator: str
    attributes: tuple[tuple[str, object], ...]
    states: tuple[str, ...]
    specials: tuple[Special, ...] = ()

    def averaging(self, share: float) -> Method:
        """The same with a running mean of parameters, which keeps this share of what it was."""
        return replace(self, attributes=(*self.attributes, ("average", share)), states=(*self.states, AVERAGE))

    def parts(self, numbers: Sequence[int]) -> list[tuple[dict[str, object], list[int]]]:
        """The attributes of each step that there has to be, and the places of its parameters among those that have
        these ``numbers``."""
        special = {n: s for s in self.specials for n in s.parameters}
        found: dict[Special | None, list[int]] = {}
        for place, number in enumerate(numbers):
            found.setdefault(special.get(number), []).append(place)
        return [
            ({**dict(self.attributes), **dict(s.attributes if s is not None else ())}, places)
            for s, places in found.items()
        ]


@dataclass
class StepGraph:
    """The graph of a step. Its inputs are those of the loss, among them ``draw`` where it draws random numbers,
    ``rate``, ``time``, ``apply``, ``scale`` where the loss is scaled, ``some`` where losses may be left out, and the
    states."""

    graph: Graph
    states: list[tuple[Value, Value]] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of states that begin as zeros, by name."""


RATE, TIME, APPLY, SCALE = "rate", "time", "apply", "scale"
DRAW = "draw"
"""The number of the loss: of several losses for one step, each draws its own random numbers."""
SOME = "some"
"""Whether an earlier loss for the same step had gradients that count."""
NORM, FINITE = "norm", "finite"
"""Outputs where gradients are limited, and looked at."""


def step_graph(
    graph: Graph,
    parameters: Mapping[str, Value],
    method: Method,
    every: int = 1,
    max_norm: float = 0.0,
    max_value: float = 0.0,
    draw: Value | None = None,
    activation_memory: int | None = None,
    scaled: bool = False,
    watched: bool = False,
    kept: Collection[Value] = (),
    skipping: bool = False,
) -> StepGraph:
    """``graph`` gives the loss first, and what else is asked for. ``parameters`` are inputs by the names that they and
    their states have; ``every``: steps of which the gradients are averaged; ``draw``: the input that is the number of
    the loss, where it depends on it; ``activation_memory``: bytes of activations that may be kept for gradients,
    None: those that are not cheaply computed again; ``scaled``: the loss is multiplied by an input ``scale`` on the way
    back; ``watched``: a step whose gradients are infinite or NaN does not count, and the last output but the states
    says whether they are finite; ``kept``: inputs that may be states; ``skipping``: of several losses, those whose
    gradients are infinite or NaN are left out of a step, which is left out itself where all are, or otherwise."""
    loss = graph.outputs[0]
    values = list(parameters.values())
    rate, apply = Value(RATE, DType.F32, ()), Value(APPLY, DType.BOOL, ())
    number = Value(TIME, DType.I64, ())
    if draw is not None:
        draw.name = DRAW
    found = StepGraph(graph)
    graph.inputs += [rate, apply, number]
    nodes = graph.nodes
    for node in list(nodes):
        _add_updates(found, node, kept)
    slopes = [Value(f"{name}.gradient", v.dtype, v.shape) for name, v in parameters.items()]
    settings: dict[str, object] = {"activationMemory": -1 if activation_memory is None else activation_memory}
    scale = Value(SCALE, DType.F32, ())
    if scaled:
        settings["scaled"] = True
        graph.inputs.append(scale)
    nodes.append(Node("Gradient", "gradient", [loss, *[scale] * scaled, *values], slopes, settings))
    checked: list[Value] = [loss]
    finite = Value(FINITE, DType.BOOL, ())
    if every > 1 or watched:
        nodes.append(Node("AllFinite", "finite", [loss, *(slopes if watched else [])], [finite]))
        checked = [finite]
    if every > 1:
        sums = [_state(found, f"{name}.sum", v) for name, v in parameters.items()]
        totals = [Value(f"{name}.total", v.dtype, v.shape) for name, v in parameters.items()]
        rest = [Value(f"{name}.sum.next", v.dtype, v.shape) for name, v in parameters.items()]
        nodes.append(
            Node("AccumulateGradients", "sums", [apply, finite, *slopes, *sums], [*totals, *rest], {"every": every})
        )
        found.states += zip(sums, rest, strict=True)
        slopes, checked = totals, [finite]
        if skipping:
            graph.inputs.append(some := Value(SOME, DType.BOOL, ()))
            checked = [loss, counts := Value("counts", DType.BOOL, ())]
            nodes.append(Node("AllFinite", "counting", [finite, some], [counts], {"either": True}))
    if max_norm or max_value:
        clipped = [Value(f"{name}.clipped", v.dtype, v.shape) for name, v in parameters.items()]
        norm = Value(NORM, DType.F32, ())
        nodes.append(
            Node(
                "ClipGradients",
                "clipping",
                list(slopes),
                [*clipped, norm],
                {"maxNorm": max_norm, "maxValue": max_value},
            )
        )
        slopes = clipped
        graph.outputs.append(norm)
        checked.append(norm)
    if watched:
        graph.outputs.append(finite)
    good = Value("good", DType.BOOL, ())
    nodes.append(Node("AllFinite", "good", [*checked, apply], [good]))
    kinds = [[_state(found, f"{name}.{kind}", v) for name, v in parameters.items()] for kind in method.states]
    new = [[Value(f"{v.name}.next", v.dtype, v.shape) for v in line] for line in (values, *kinds)]
    lines = [values, slopes, *kinds]
    for part, (attributes, places) in enumerate(method.parts([_number(name) for name in parameters])):
        operands: list[Value | None] = [rate, number, good, *[line[i] for line in lines for i in places]]
        results = [line[i] for line in new for i in places]
        nodes.append(Node(method.operator, f"step{part or ''}", operands, results, attributes))
    for line, after in zip((values, *kinds), new, strict=True):
        found.states += zip(line, after, strict=True)
    graph.outputs += [after for _, after in found.states]
    return found


def moved(graph: Graph, parameters: Sequence[Value]) -> bool:
    """Whether a parameter is reached from the loss, the first output, by floats alone: whole numbers, such as those of
    an argmax, have no gradient."""
    reached = {graph.outputs[0]}
    for node in reversed(graph.nodes):
        if any(v in reached for v in node.outputs):
            reached.update(v for v in node.inputs if v is not None and v.dtype is not None and v.dtype.is_float)
    return any(v in reached for v in parameters)


def _number(name: str) -> int:
    """``7`` of ``parameter7``; -1 where a name has no number."""
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if digits else -1


def _state(found: StepGraph, name: str, like: Value) -> Value:
    """An input for a state that begins as zeros."""
    assert like.shape is not None
    value = Value(name, like.dtype, like.shape)
    found.graph.inputs.append(value)
    found.shapes[name] = tuple(n for n in like.shape if isinstance(n, int))
    return value


def _add_updates(found: StepGraph, node: Node, kept: Collection[Value]) -> None:
    """Statistics that an operator keeps: its results are the next operands."""
    for operand, result in traits(node).updates.items():
        value = node.inputs[operand]
        if value is not None and value in kept and result < len(node.outputs):
            found.states = [(v, w) for v, w in found.states if v is not value]
            found.states.append((value, node.outputs[result]))


def nodes_before(graph: Graph, values: Sequence[Value]) -> list[Node]:
    """The nodes that compute some values, in order."""
    wanted = set(values)
    kept = []
    for node in reversed(graph.nodes):
        if any(v in wanted for v in node.outputs):
            kept.append(node)
            wanted.update(v for v in node.inputs if v is not None)
    return kept[::-1]


__all__ = [
    "APPLY",
    "AVERAGE",
    "DRAW",
    "FINITE",
    "NORM",
    "RATE",
    "SCALE",
    "SOME",
    "TIME",
    "Method",
    "Special",
    "StepGraph",
    "moved",
    "nodes_before",
    "step_graph",
]
