"""Control flow: operators that hold subgraphs.

A branch, and loops of few turns, are lowered in place. Longer loops, and loops whose end depends on data, run their
body through the runner once a turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from MNN.errors import RunError, ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import normalize_axis
from MNN.ops.core.base import EagerOperator, Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.common import GraphBuilder, RunGraph
from MNN.ops.core.operands import operand, optional
from MNN.ops.inference import infer

MAX_UNROLLED = 10_000
"""Turns after which lowering a loop in place is given up: the program would not fit anywhere."""


def _graph(op: Operator, node: Node, key: str) -> Graph:
    graph = op.attr(node, key)
    if not isinstance(graph, Graph):
        raise ShapeError(f"{node.op} '{node.name}': its subgraph {key} is missing")
    return graph


def _check_count(where: str, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise ShapeError(f"{where}: {found} {what}, expected {expected}")


@register("If")
class If(Operator):
    """The outputs of ``then_graph`` or ``else_graph``, as the condition says; both see the values around them."""

    runs_graphs = True
    attributes = {"then_graph": None, "else_graph": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        condition = b.value(operand(b, inputs, 0), "the condition").reshape(-1)
        if condition.size != 1:
            raise ShapeError(f"{b.where}: the condition must be one boolean, found {condition.size}")
        branch = _graph(self, node, "then_graph" if condition[0] else "else_graph")
        _check_count(b.where, f"outputs of branch '{branch.name}'", len(branch.outputs), len(node.outputs))
        return cast(GraphBuilder, b).inline(branch, {})


# -- loops ------------------------------------------------------------------------------------------------------------
# Operands: most turns?, condition?, carried values...; the body takes (turn, condition, carried...) and gives
# (condition, carried..., collected...).


@register("UnrolledLoop")
class UnrolledLoop(Operator):
    """A loop lowered turn after turn. Carried values may change their shapes, or be sequences."""

    runs_graphs = True
    in_mnn = False
    attributes = {"body": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        body, graph_builder = _graph(self, node, "body"), cast(GraphBuilder, b)
        carried = [operand(b, inputs, i) for i in range(2, len(inputs))]
        collected: list[list[Tensor]] = [[] for _ in range(len(node.outputs) - len(carried))]
        _check_count(b.where, "inputs of the body", len(body.inputs), 2 + len(carried))
        _check_count(b.where, "outputs of the body", len(body.outputs), 1 + len(carried) + len(collected))
        limit = optional(inputs, 0)
        turns = None if limit is None else int(b.value(limit, "the number of turns").reshape(-1)[0])
        given = optional(inputs, 1)
        going = b.const(np.asarray(True)) if given is None else given
        b.expect((turns or 0) * len(body.nodes))
        turn = 0
        while (turns is None or turn < turns) and bool(b.value(going, "the condition").reshape(-1)[0]):
            if turn >= MAX_UNROLLED:
                raise RunError(f"{b.where}: the loop did not end after {MAX_UNROLLED} turns")
            number = b.const(np.asarray(turn, np.int64))
            bound = dict(zip(body.inputs, [number, going, *carried], strict=True))
            going, *rest = graph_builder.inline(body, bound)
            carried = rest[: len(carried)]
            for line, value in zip(collected, rest[len(carried) :], strict=True):
                line.append(value)
            turn += 1
        return [*carried, *(_stack(b, body, 1 + len(carried) + k, line) for k, line in enumerate(collected))]


def _stack(b: Builder, body: Graph, output: int, line: Sequence[Tensor]) -> Tensor:
    if line:
        return b.concat([b.unsqueeze(t, [0]) for t in line], 0)
    dtype, shape = _empty(body, output)
    return b.const(np.zeros(shape, dtype.numpy))


def _empty(body: Graph, output: int) -> tuple[DType, tuple[int, ...]]:
    """What a collected output is after no turn: unknown sizes count as 0."""
    value = body.outputs[output]
    return value.dtype or DType.F32, (0, *(d if isinstance(d, int) else 0 for d in value.shape or ()))


class GraphOperator(EagerOperator):
    """An eager operator that runs subgraphs."""

    runs_graphs = True
    needs_runner = True
    in_mnn = False

    def evaluate(  # type: ignore[override]
        self, node: Node, inputs: Sequence[np.ndarray | None], run_graph: RunGraph
    ) -> Sequence[np.ndarray]:
        """The node's outputs; ``run_graph`` runs a subgraph on numbers for its inputs."""
        raise NotImplementedError


@register("Loop")
class Loop(GraphOperator):
    """A loop whose body is run once a turn."""

    attributes = {"body": None}

    def evaluate(  # type: ignore[override]
        self, node: Node, inputs: Sequence[np.ndarray | None], run_graph: RunGraph
    ) -> Sequence[np.ndarray]:
        where, body = f"{node.op} '{node.name}'", _graph(self, node, "body")
        carried: list[np.ndarray] = []
        for i, value in enumerate(inputs[2:]):
            if value is None:
                raise ShapeError(f"{where}: carried value {i} is missing")
            carried.append(value)
        collected: list[list[np.ndarray]] = [[] for _ in range(len(node.outputs) - len(carried))]
        _check_count(where, "inputs of the body", len(body.inputs), 2 + len(carried))
        _check_count(where, "outputs of the body", len(body.outputs), 1 + len(carried) + len(collected))
        turns = None if inputs[0] is None else int(inputs[0].reshape(-1)[0])
        going = np.asarray(True) if len(inputs) < 2 or inputs[1] is None else inputs[1]
        turn = 0
        while (turns is None or turn < turns) and bool(going.reshape(-1)[0]):
            feeds = [np.asarray(turn, np.int64), going, *carried]
            going, *rest = run_graph(body, dict(zip(body.inputs, feeds, strict=True)))
            carried = rest[: len(carried)]
            for line, value in zip(collected, rest[len(carried) :], strict=True):
                line.append(value)
            turn += 1
        outputs = list(carried)
        for k, line in enumerate(collected):
            dtype, shape = _empty(body, 1 + len(carried) + k)
            outputs.append(np.stack(line) if line else np.zeros(shape, dtype.numpy))
        return outputs


# -- scans ------------------------------------------------------------------------------------------------------------
# Operands: states..., sequences...; the body takes (states..., elements...) and gives (states..., elements...).

_SCAN: dict[str, object] = {
    "body": None,
    "numScanInputs": 1,
    "inputAxes": None,
    "outputAxes": None,
    "inputReverse": None,
    "outputReverse": None,
}


class _Layout:
    """How a Scan's operands and results are cut, from its attributes and the ranks of its operands."""

    def __init__(self, op: Operator, node: Node, shapes: Sequence[Sequence[int]]) -> None:
        self.where = f"{node.op} '{node.name}'"
        self.body = _graph(op, node, "body")
        sequences = op.int_attr(node, "numScanInputs")
        self.states = len(shapes) - sequences
        self.outputs = len(node.outputs) - self.states
        if self.states < 0 or sequences < 1 or self.outputs < 0:
            raise ShapeError(f"{self.where}: {len(shapes)} operands do not fit {sequences} scan inputs")
        _check_count(self.where, "inputs of the body", len(self.body.inputs), len(shapes))
        _check_count(self.where, "outputs of the body", len(self.body.outputs), len(node.outputs))

        def per(key: str, count: int) -> list[int]:
            found = list(op.ints_attr(node, key)) or [0] * count
            _check_count(self.where, key, len(found), count)
            return found

        axes = zip(per("inputAxes", sequences), shapes[self.states :], strict=True)
        self.axes = [normalize_axis(a, len(s), self.where) for a, s in axes]
        self.out_axes = per("outputAxes", self.outputs)
        self.reverse = per("inputReverse", sequences)
        self.out_reverse = per("outputReverse", self.outputs)
        lengths = {s[a] for a, s in zip(self.axes, shapes[self.states :], strict=True)}
        if len(lengths) != 1:
            raise ShapeError(f"{self.where}: its sequences have lengths {sorted(lengths)}, expected one length")
        self.length = lengths.pop()

    def element(self, k: int, turn: int) -> int:
        """The position in sequence ``k`` at a turn."""
        return self.length - 1 - turn if self.reverse[k] else turn


@register("UnrolledScan")
class UnrolledScan(Operator):
    """A scan lowered turn after turn."""

    runs_graphs = True
    in_mnn = False
    attributes = _SCAN

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        operands = [operand(b, inputs, i) for i in range(len(inputs))]
        plan = _Layout(self, node, [t.shape for t in operands])
        states: list[Tensor] = operands[: plan.states]
        collected: list[list[Tensor]] = [[] for _ in range(plan.outputs)]
        b.expect(plan.length * len(plan.body.nodes))
        for turn in range(plan.length):
            elements = []
            for k, sequence in enumerate(operands[plan.states :]):
                axis, at = plan.axes[k], plan.element(k, turn)
                starts, counts = [0] * sequence.rank, list(sequence.shape)
                starts[axis], counts[axis] = at, 1
                elements.append(b.squeeze(b.slice(sequence, starts, counts), [axis]))
            results = cast(GraphBuilder, b).inline(
                plan.body, dict(zip(plan.body.inputs, [*states, *elements], strict=True))
            )
            states = results[: plan.states]
            for line, value in zip(collected, results[plan.states :], strict=True):
                line.append(value)
        outputs = list(states)
        for k, line in enumerate(collected):
            if not line:
                outputs.append(_stack(b, plan.body, plan.states + k, line))
                continue
            axis = normalize_axis(plan.out_axes[k], line[0].rank + 1, b.where)
            ordered = line[::-1] if plan.out_reverse[k] else line
            outputs.append(b.concat([b.unsqueeze(t, [axis]) for t in ordered], axis))
        return outputs


@register("Scan")
class Scan(GraphOperator):
    """A scan whose body is run once a turn."""

    attributes = _SCAN

    def evaluate(  # type: ignore[override]
        self, node: Node, inputs: Sequence[np.ndarray | None], run_graph: RunGraph
    ) -> Sequence[np.ndarray]:
        operands = [value for value in inputs if value is not None]
        plan = _Layout(self, node, [a.shape for a in operands])
        states: list[np.ndarray] = operands[: plan.states]
        collected: list[list[np.ndarray]] = [[] for _ in range(plan.outputs)]
        for turn in range(plan.length):
            elements = [
                np.take(sequence, plan.element(k, turn), axis=plan.axes[k])
                for k, sequence in enumerate(operands[plan.states :])
            ]
            results = run_graph(plan.body, dict(zip(plan.body.inputs, [*states, *elements], strict=True)))
            states = results[: plan.states]
            for line, value in zip(collected, results[plan.states :], strict=True):
                line.append(value)
        outputs = list(states)
        for k, line in enumerate(collected):
            dtype, shape = _empty(plan.body, plan.states + k)
            if not line:
                outputs.append(np.zeros(shape, dtype.numpy))
                continue
            axis = normalize_axis(plan.out_axes[k], line[0].ndim + 1, plan.where)
            outputs.append(np.stack(line[::-1] if plan.out_reverse[k] else line, axis=axis))
        return outputs


@infer.rule(If)
def _infer_branch(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    """What both branches agree on."""
    graphs = [g for g in (node.attrs.get("then_graph"), node.attrs.get("else_graph")) if isinstance(g, Graph)]
    out: list[infer.InferredShape] = []
    for values in zip(*(g.outputs for g in graphs), strict=True):
        dtypes = {v.dtype for v in values if v.dtype is not None}
        shapes = [infer.sizes(v) for v in values]
        first = shapes[0]
        same_rank = first is not None and all(s is not None and len(s) == len(first) for s in shapes)
        shape = None
        if first is not None and same_rank:
            shape = tuple(d if all(s is not None and s[i] == d for s in shapes) else None for i, d in enumerate(first))
        out.append((dtypes.pop() if len(dtypes) == 1 else None, shape))
    return out


@infer.rule(Loop, UnrolledLoop)
def _infer_loop(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    """Carried values keep their dtype; collected ones get an axis in front."""
    body = node.attrs.get("body")
    carried = [infer.operand(node, i) for i in range(2, len(node.inputs))]
    out: list[infer.InferredShape] = [(v.dtype, None) for v in carried]
    for value in body.outputs[1 + len(carried) :] if isinstance(body, Graph) else ():
        shape = infer.sizes(value)
        out.append((value.dtype, None if shape is None else (None,) * (1 + len(shape))))
    return out


@infer.rule(Scan, UnrolledScan)
def _infer_scan(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    """States keep their type; collected ones get an axis."""
    body = node.attrs.get("body")
    states = [infer.operand(node, i) for i in range(len(node.inputs) - infer.number(node, "numScanInputs", 1))]
    out: list[infer.InferredShape] = [(v.dtype, None) for v in states]
    for value in body.outputs[len(states) :] if isinstance(body, Graph) else ():
        shape = infer.sizes(value)
        out.append((value.dtype, None if shape is None else (None,) * (1 + len(shape))))
    return out
