"""Where numbers became infinite or NaN: the step computed again in numpy, operator by operator, in the user's words.

A loss that is finite may have gradients that are not: the way back is then walked operator by operator too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.expr import build
from MNN.expr.node import Expr, Ref
from MNN.expr.types import NCHW
from MNN.expr.var import Var
from MNN.ir.graph import Node, Value
from MNN.nn.module import Module
from MNN.optim import update_graph
from MNN.optim.capture import Captured
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor

_KINDS = ("opType", "operation")
"""Attributes that say which function an operator is."""


def failure(step: int, loss: float, module: Module | None = None) -> str:
    """What is said of a step that was not made. With ``module`` also how to find out why."""
    said = f"the loss is {loss}" if not math.isfinite(loss) else f"gradients of the loss {loss:.6g} are not finite"
    text = f"step {step}: {said}; the parameters are left as they were"
    if module is None:
        return text
    for path, var in module.named_parameters().items():
        if not np.isfinite(var.read()).all():
            text = f"{text}, but '{path}' was not finite before the step"
            break
    return f"{text}. An optimizer with debug=True names the operator where it began"


def blame(captured: Captured, module: Module | None, arrays: Mapping[int, np.ndarray]) -> str:
    """A sentence about the first operand or operator of an expression that has infinite numbers or NaN. ``arrays``: the
    numbers of its leaves, by identity."""
    graph, values = captured.graph()
    known = {} if module is None else {id(v._expr): name for name, v in module.named_parameters().items()}
    given = {values[key]: array for key, array in arrays.items() if key in values}
    for leaf in captured.leaves:
        if not _finite(arrays.get(id(leaf))):
            return f"It began with {_leaf(leaf, known)}, which holds {_kinds_of(arrays[id(leaf)])}"
    outputs = [v for node in graph.nodes for v in node.outputs]
    made_there = Executor(graph, Config(reference=True)).run(given, outputs)
    results = given | {v: np.asarray(array) for v, array in zip(outputs, made_there, strict=True)}
    for expr, node in zip(captured.nodes, graph.nodes, strict=True):
        for made in node.outputs:
            if not _finite(results[made]):
                operands = [results[v] for v in node.inputs if v is not None and v in results]
                return f"It began with {_operator(expr, made)}{_range(operands)}"
    numbers = {(key, 0): array for key, array in arrays.items()}
    numbers |= {(key, i): array for key, found in captured.embedded.items() for i, array in enumerate(found)}
    for expr, node in zip(captured.nodes, graph.nodes, strict=True):
        numbers |= {(id(expr), i): results[v] for i, v in enumerate(node.outputs)}
    for expr, node in _back(captured, graph.nodes, numbers):
        operands = [results[v] for v in node.inputs if v is not None and v in results]
        said = _operator(expr, node.outputs[0])
        return f"It began on the way back, with the gradient of {said}{_range(operands)}"
    return "Computed in numpy it is finite: it began with rounding"


def _back(
    captured: Captured, nodes: Sequence[Node], numbers: Mapping[tuple[int, int], np.ndarray]
) -> Iterator[tuple[Expr, Node]]:
    """Operators, last ones first, of which gradients are infinite or NaN while those of their results are not."""
    loss = captured.outputs[0]
    end = (id(loss._expr), loss._index)
    found = {end: np.ones_like(numbers[end])}
    for expr, node in zip(reversed(captured.nodes), reversed(nodes), strict=True):
        given = {i: found[id(expr), i] for i in range(expr.outputs) if (id(expr), i) in found}
        if not given:
            continue
        refs = [r for r in dict.fromkeys(expr.inputs) if r is not None and numbers[id(r[0]), r[1]].dtype.kind == "f"]
        leaves = {r: build.leaf(numbers[id(r[0]), r[1]], op="Trainable") for r in refs}
        alone = Expr(expr.op, [r if r is None else _alone(r, leaves, numbers) for r in expr.inputs], expr.attrs)
        alone.outputs = expr.outputs
        outputs = [Var(alone, i, NCHW) for i in given]
        try:
            _, slopes = update_graph.gradients(outputs, [build.leaf(g) for g in given.values()], list(leaves.values()))
            made = [v.read() for v in slopes]
        except MNNError:  # nothing there has a gradient
            continue
        if not all(_finite(g) for g in made):
            yield expr, node
        for (source, index), g in zip(leaves, made, strict=True):
            place = (id(source), index)
            found[place] = found[place] + g if place in found else g


def _alone(ref: Ref, leaves: Mapping[Ref, Var], numbers: Mapping[tuple[int, int], np.ndarray]) -> Ref:
    """An operand as a leaf with its numbers."""
    return (leaves[ref] if ref in leaves else build.leaf(numbers[id(ref[0]), ref[1]]))._expr, 0


def _leaf(leaf: Expr, known: Mapping[int, str]) -> str:
    if id(leaf) in known:
        return f"the parameter '{known[id(leaf)]}'"
    kind, shape = leaf.leaf_type
    return f"the input '{leaf.name}'" if leaf.name else f"an input without a name ({kind.value}{list(shape)})"


def _operator(expr: Expr, made: Value) -> str:
    function = next((str(expr.attrs[key]) for key in _KINDS if key in expr.attrs), "")
    name = f"{expr.op} {function}".strip()
    said = f" that gives '{expr.name}'" if expr.name else f" in the layer '{expr.layer}'" if expr.layer else ""
    sizes = "" if made.shape is None or made.dtype is None else f" of {made.dtype.value}{list(made.shape)}"
    return f"{name}{said}{sizes}"


def _range(operands: list[np.ndarray]) -> str:
    floats = [a for a in operands if a.dtype.kind == "f" and a.size]
    if not floats:
        return ""
    low, high = min(float(a.min()) for a in floats), max(float(a.max()) for a in floats)
    return f", whose operands lie between {low:.4g} and {high:.4g}"


def _kinds_of(array: np.ndarray) -> str:
    return "NaN" if np.isnan(array).any() else "infinite numbers"


def _finite(array: np.ndarray | None) -> bool:
    return array is None or array.dtype.kind != "f" or bool(np.isfinite(array).all())


__all__ = ["blame", "failure"]
