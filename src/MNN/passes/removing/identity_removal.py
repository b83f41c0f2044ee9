"""Removes nodes that give their input back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, binary, ints, plain, rank, scalar, sides
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import WHOLE, Dims, Symbols, axes_of, dims_of


def run(graph: Graph) -> int:
    """Identity, and reshapes, permutations, slices, pads and arithmetic that change nothing.

    An Identity that gives a graph input, a constant or a captured value out under another name stays.
    """
    rw, symbols = Rewriter(graph), Symbols(graph.producers())
    for node in list(rw.nodes()):
        rule = _RULES.get(node.op)
        x = node.inputs[0] if node.inputs else None
        if rule is None or x is None or len(node.outputs) != 1:
            continue
        same = rule(node, symbols)
        if same is not None:
            rw.bypass(node, same)
    return rw.finish()


def _first(node: Node) -> Value | None:
    return node.inputs[0]


def _identity(node: Node, symbols: Symbols) -> Value | None:
    return _first(node)


def equal_sizes(x: Dims | None, y: Dims | None) -> bool:
    """Whether all sizes are known to be the same."""
    return x is not None and y is not None and x == y and None not in x


def _reshape(node: Node, symbols: Symbols) -> Value | None:
    """Every size is copied or the same; one may be worked out, unless there is nothing to count."""
    x = dims_of(node.inputs[0])
    target = symbols.elements(node.inputs[1]) if len(node.inputs) > 1 else node.attrs.get("dims")
    if not isinstance(target, list) or (x is not None and len(target) != len(x)):
        return None
    copies = node.op == "Reshape"
    left = [d for i, d in enumerate(target) if not (copies and d == 0) and (x is None or d is None or d != x[i])]
    if not left and x is not None:
        return _first(node)
    return _first(node) if left == [-1] and x is not None and 0 not in x else None


def _same_sizes(node: Node, symbols: Symbols) -> Value | None:
    """Operators that only give another shape."""
    return _first(node) if equal_sizes(dims_of(node.inputs[0]), dims_of(node.outputs[0])) else None


def _squeeze(node: Node, symbols: Symbols) -> Value | None:
    return _first(node) if axes_of(node) == [] and node.op == "Unsqueeze" else None


def _permute(node: Node, symbols: Symbols) -> Value | None:
    dims = node.attrs.get("dims")
    return _first(node) if isinstance(dims, list) and [int(d) for d in dims] == list(range(len(dims))) else None


def _convert(node: Node, symbols: Symbols) -> Value | None:
    """Between formats whose channels stand at the same place."""
    source, dest = (node.attrs.get(key, "NCHW") == "NHWC" for key in ("source", "dest"))
    return _first(node) if source == dest else None


def _slice(node: Node, symbols: Symbols) -> Value | None:
    """From the beginning to the end in steps of one, along every axis named."""
    x = dims_of(node.inputs[0])
    if attribute(node, "fromType") != 1:
        return None
    starts, ends = ints(node.inputs[1]), symbols.elements(node.inputs[2])
    steps = ints(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else None
    axes = ints(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else None
    if len(node.inputs) > 4 and node.inputs[4] is not None and (steps is None or any(s != 1 for s in steps)):
        return None
    if starts is None or ends is None or any(starts):
        return None
    if axes is None and len(node.inputs) > 3 and node.inputs[3] is not None:
        return None
    for i, end in enumerate(ends):
        if isinstance(end, int) and end >= WHOLE:
            continue
        at = axes[i] if axes is not None else i
        size = x[at] if x is not None and -len(x) <= at < len(x) else None
        if end is None or size is None or not (end == size or (_int(end) and _int(size) and int(end) >= int(size))):
            return None
    return _first(node)


def _int(value: object) -> bool:
    return isinstance(value, int)


def _padding(node: Node, symbols: Symbols) -> Value | None:
    pads = ints(node.inputs[1])
    return _first(node) if pads is not None and not any(pads) else None


def _broadcast(node: Node, symbols: Symbols) -> Value | None:
    x, target = dims_of(node.inputs[0]), symbols.elements(node.inputs[1])
    if x is None or target is None or len(target) > len(x):
        return None
    tail = x[len(x) - len(target) :]
    same = all(t == 1 or (t is not None and t == d) for t, d in zip(target, tail, strict=True))
    return _first(node) if same else None


def _tile(node: Node, symbols: Symbols) -> Value | None:
    repeats = ints(node.inputs[1])
    return _first(node) if repeats is not None and all(r == 1 for r in repeats) else None


def _concat(node: Node, symbols: Symbols) -> Value | None:
    return _first(node) if len(node.inputs) == 1 else None


def _arithmetic(node: Node, symbols: Symbols) -> Value | None:
    """``x * 1``, ``x / 1``, ``x + 0``, ``x - 0``, with a constant that neither widens nor changes the type."""
    for kinds, neutral, both in ((("MUL",), 1.0, True), (("DIV", "REALDIV"), 1.0, False), (("SUB",), 0.0, False)):
        if binary(node, *kinds):
            return _neutral(node, neutral, both)
    return _neutral(node, 0.0, True) if binary(node, "ADD") else None


def _neutral(node: Node, number: float, both: bool) -> Value | None:
    x, y = sides(node)
    pairs = [(x, y), (y, x)] if both else [(x, y)]
    for value, constant in pairs:
        data = plain(constant)
        if data is None or value.dtype is None or data.size == 0 or DType.of(data) is not value.dtype:
            continue
        if DType.of(data) is DType.STR or not bool(np.all(data == number)):
            continue
        if _fits_in(data, value):
            return value
    return None


def _fits_in(data: np.ndarray, value: Value) -> bool:
    if data.size == 1:
        found = rank(value)
        return data.ndim == 0 or (found is not None and data.ndim <= found)
    sizes = dims_of(value)
    if sizes is None or data.ndim > len(sizes):
        return False
    tail = sizes[len(sizes) - data.ndim :]
    return all(n in (1, d) for n, d in zip(data.shape, tail, strict=True))


def _power(node: Node, symbols: Symbols) -> Value | None:
    if binary(node, "POW"):
        x, y = sides(node)
        if scalar(y) == 1.0 and plain(y) is not None and _fits_in(y.array(), x):
            return x
        return None
    return _arithmetic(node, symbols)


_RULES: dict[str, Callable[[Node, Symbols], Value | None]] = {
    "Identity": _identity,
    "Dropout": _identity,
    "Reshape": _reshape,
    "ReshapeExact": _reshape,
    "Flatten": _same_sizes,
    "Squeeze": _same_sizes,
    "Unsqueeze": _squeeze,
    "Permute": _permute,
    "ConvertTensor": _convert,
    "StridedSlice": _slice,
    "Padding": _padding,
    "BroadcastTo": _broadcast,
    "Tile": _tile,
    "Concat": _concat,
    "BinaryOp": _power,
}
PASS = Pass("identity-removal", run, rank=22)
