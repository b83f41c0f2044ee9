"""Steps as expressions, and as files that go on by themselves: PyMNN's way of training on a device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from MNN.errors import MNNError, ShapeError
from MNN.expr import build
from MNN.expr.fused.settings import lazily
from MNN.expr.math import pow, sign, sqrt, square
from MNN.expr.models import graph_and_values
from MNN.expr.node import Slopes, in_order
from MNN.expr.reducing import reduce_sum
from MNN.expr.types import NCHW
from MNN.expr.var import Var
from MNN.formatting import plural
from MNN.frontends.mnn.write import write_mnn
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.optim.regularization import Regularization_Method as Pull
from MNN.own_states import KEY

Updates = tuple[list[Var], list[Var]]
"""Vars, and what they become by a step."""
STARTED = "update_graph_started"
"""The state that says whether states hold numbers yet."""


def gradients(outputs: Sequence[Var], diffs: Sequence[Var], parameters: Sequence[Var]) -> Updates:
    """See :meth:`MNN.optim.optimizer.Optimizer.grad`."""
    _check_lists("grad", outputs=outputs, output_diffs=diffs, parameters=parameters)
    if len(outputs) != len(diffs) or not outputs or not parameters:
        raise MNNError(f"{len(outputs)} outputs with {len(diffs)} differences, of {len(parameters)} parameters")
    for number, v in enumerate(outputs):
        if not v._kind.is_float:
            raise MNNError(f"the output {_told(v, number)} has no gradient: it holds {v._kind.value}, not floats")
    with lazily():
        total = sum((reduce_sum(y * d) for y, d in _pairs(outputs, diffs)), start=build.leaf(np.zeros((), np.float32)))
    found = {id(e) for e in in_order([total._expr])}
    for number, v in enumerate(parameters):
        name = _told(v, number)
        if not v._kind.is_float:
            raise MNNError(f"the parameter {name} has no gradient: it holds {v._kind.value}, not floats")
        if id(v._expr) not in found:
            raise MNNError(
                f"the outputs do not depend on the parameter {name}, or it was a constant when they were computed from "
                "it: fix_as_trainable() makes it one that has a gradient"
            )
    slopes = Slopes((total._expr, total._index), [(v._expr, v._index) for v in parameters])
    return list(parameters), [Var(slopes, i, v.data_format) for i, v in enumerate(parameters)]


def _check_lists(what: str, **lists: object) -> None:
    for name, given in lists.items():
        if not isinstance(given, (list, tuple)) or not all(isinstance(v, Var) for v in given):
            raise MNNError(f"{what}() takes lists of Vars, found {name} of {type(given).__name__}")


def _told(v: Var, number: int) -> str:
    """A Var in a sentence: by its name, or by its place where it has none."""
    return f"'{v.name}'" if v.name else f"number {number} ({v._kind.value}{list(v.shape)})"


def _pairs(outputs: Sequence[Var], diffs: Sequence[Var]) -> Iterator[tuple[Var, Var]]:
    for y, d in zip(outputs, diffs, strict=True):
        if list(y.shape) != list(d.shape):
            raise ShapeError(f"an output of shape {y.shape} with a difference of shape {d.shape}")
        yield y, d


def _kept(value: np.ndarray, name: str, like: Var | None = None) -> Var:
    made = build.leaf(value, NCHW if like is None else like.data_format, "Trainable")
    made.name = name
    return made


def _pulled(x: Var, slope: Var, decay: float, pull: Pull) -> Var:
    """A gradient with that of the weight decay."""
    if not decay:
        return slope
    parts = {Pull.L1: sign(x), Pull.L2: x, Pull.L1L2: sign(x) + x}
    return slope + decay * parts[pull]


Rule = Callable[[Var, Var, Var], list[tuple[Var, Var]]]
"""Of a parameter, its gradient and the rate: the parameter, and what else a step changes, with what they become."""


def descent(momentum: float, decay: float, pull: Pull) -> Rule:
    """Gradient descent. As in PyMNN, a step goes along the momentum that the steps before it have left."""

    def rule(x: Var, slope: Var, rate: Var) -> list[tuple[Var, Var]]:
        history = _kept(np.zeros(tuple(x.shape), np.float32), f"{x.name}_momentum", x)
        return [(x, x - rate * history), (history, _pulled(x, slope, decay, pull) + momentum * history)]

    return rule


def adam(first: float, second: float, epsilon: float, decay: float, pull: Pull) -> tuple[tuple[Var, Var], Rule]:
    """Adam, in the same order: the number of the step with the one that follows, and the rule."""
    with lazily():
        step = _kept(np.asarray(1, np.float32), "optimize_step")
        correction = sqrt(1.0 - pow(second, step)) / (1.0 - pow(first, step))
        following = step + 1.0

    def rule(x: Var, slope: Var, rate: Var) -> list[tuple[Var, Var]]:
        zeros = np.zeros(tuple(x.shape), np.float32)
        mean, spread = (_kept(zeros, f"{x.name}_{kind}", x) for kind in ("momentum1", "momentum2"))
        moved = _pulled(x, slope, decay, pull)
        return [
            (x, x - rate * correction * (mean / (sqrt(spread + 1e-8) + epsilon))),
            (mean, first * mean + (1 - first) * moved),
            (spread, second * spread + (1 - second) * square(moved)),
        ]

    return (step, following), rule


def updates(
    rule: Rule,
    parameters: Sequence[Var],
    slopes: Sequence[Var],
    rates: Sequence[Var],
    shared: Sequence[tuple[Var, Var]],
) -> Updates:
    """What parameters, and what else a step keeps, become; ``shared`` is there once for all parameters."""
    _check_lists("get_update_graph", parameter=parameters, parameter_grad=slopes, learning_rate=rates)
    given = [list(vs) for vs in (parameters, slopes, rates)]
    if not given[0] or len({len(vs) for vs in given}) > 1:
        counts = ", ".join(
            plural(len(vs), what) for vs, what in zip(given, ("parameter", "gradient", "rate"), strict=True)
        )
        raise MNNError(f"get_update_graph() takes as many gradients and rates (Vars) as parameters, found {counts}")
    found = list(shared)
    for number, (x, slope, rate) in enumerate(zip(*given, strict=True)):
        if list(x.shape) != list(slope.shape):
            raise ShapeError(f"the parameter '{x.name}' of shape {x.shape} with a gradient of shape {slope.shape}")
        x.name = x.name or f"parameter{number}"
        with lazily():
            found += rule(x, slope, rate)
    for before, after in found:
        after.name = f"update_{before.name}"
    return [b for b, _ in found], [a for _, a in found]


def save(path: str | os.PathLike[str], outputs: Sequence[Var], before: Sequence[Var], after: Sequence[Var]) -> None:
    """See :meth:`MNN.optim.optimizer.Optimizer.save_graph`."""
    _check_lists("save_graph", outputs=outputs, parameter=before, parameter_update=after)
    kept, ends = list(before), list(after)
    if len(kept) != len(ends):
        raise MNNError(f"{plural(len(kept), 'parameter')} with {plural(len(ends), 'update')}")
    for number, (b, a) in enumerate(zip(kept, ends, strict=True)):
        if not b._expr.is_leaf or b.op_type == "Input" or list(b.shape) != list(a.shape):
            raise MNNError(
                f"{_told(b, number)} of the shape {b.shape} is no constant or parameter that can become "
                f"{_told(a, number)} of the shape {a.shape}"
            )
    graph, values = graph_and_values([*outputs, *ends])
    results = graph.outputs[len(graph.outputs) - len(ends) :]
    pairs = {values[id(b._expr), 0]: w for b, w in zip(kept, results, strict=True) if (id(b._expr), 0) in values}
    if pairs:
        _remember(graph, pairs)
    write_mnn(graph, path)


def _remember(graph: Graph, pairs: Mapping[Value, Value]) -> None:
    """Makes states of constants, by the results that they become: before the first run they are the constants."""
    from MNN.ops.elementwise.identity import copied

    started, running = Value(STARTED, DType.I32, ()), Value(f"{STARTED}.next", DType.I32, ())
    now = {v: Value(f"{v.name}:now", v.dtype, v.shape) for v in pairs}
    for node in graph.nodes:
        node.inputs = [None if v is None else now.get(v, v) for v in node.inputs]
    one = Value(f"{STARTED}.one", DType.I32, (), np.asarray(1, np.int32))
    begin = [copied(one, running)]
    states = {started.name: running.name}
    for value, after in pairs.items():
        before = Value(value.name, value.dtype, value.shape)
        value.name = f"{value.name}:first"
        graph.inputs.append(before)
        begin.append(Node("Select", now[value].name, [started, before, value], [now[value]]))
        states[before.name] = after.name
    graph.nodes[:0] = begin
    graph.inputs.append(started)
    graph.outputs.append(running)
    graph.meta[KEY] = states


__all__ = ["Rule", "adam", "descent", "gradients", "save", "updates"]
