"""Where numbers became infinite or NaN: the step computed again in numpy, operator by operator, in the user's words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.expr.node import Expr
from MNN.ir.graph import Value
from MNN.nn.module import Module
from MNN.optim.capture import Captured
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor

_KINDS = ("opType", "operation")
"""Attributes that say which function an operator is."""


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
    return "Computed in numpy it is finite: it began with rounding"


def _leaf(leaf: Expr, known: Mapping[int, str]) -> str:
    if id(leaf) in known:
        return f"the parameter '{known[id(leaf)]}'"
    kind, shape = leaf.leaf_type
    return f"the input '{leaf.name}'" if leaf.name else f"an input without a name ({kind.value}{list(shape)})"


def _operator(expr: Expr, made: Value) -> str:
    function = next((str(expr.attrs[key]) for key in _KINDS if key in expr.attrs), "")
    name = f"{expr.op} {function}".strip()
    said = f" that gives '{expr.name}'" if expr.name else ""
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


__all__ = ["blame"]
