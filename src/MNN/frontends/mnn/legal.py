"""Rewrites operators that only this engine has into ones that the official engine has too, where nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value


def legalized(graph: Graph) -> Graph:
    """A graph with the same values whose operators are official ones wherever a rule below applies.

    The graph given is not changed; values are shared with it.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        rule = _RULES.get(node.op)
        made = rule(node) if rule is not None else None
        nodes += made if made is not None else [_inside(node)]
    return Graph(graph.name, list(graph.inputs), list(graph.outputs), nodes, graph.meta)


def _inside(node: Node) -> Node:
    subgraphs = dict(node.subgraphs())
    if not subgraphs:
        return node
    attrs = {**node.attrs, **{key: legalized(sub) for key, sub in subgraphs.items()}}
    return Node(node.op, node.name, node.inputs, node.outputs, attrs)


def _scalar(node: Node, number: int | float | bool, dtype: DType, role: str) -> Value:
    data = np.asarray(number).astype(dtype.numpy)
    return Value(f"{node.outputs[0].name}/{role}", dtype, (), data)


def _not(node: Node) -> list[Node] | None:
    """``not x`` is ``x == 0``."""
    x = node.inputs[0] if node.inputs else None
    if x is None or x.dtype is None or x.dtype is DType.STR:
        return None
    zero = _scalar(node, 0, x.dtype, "zero")
    return [Node("BinaryOp", node.name, [x, zero], node.outputs, {"opType": "EQUAL"})]


def _is_nan(node: Node) -> list[Node] | None:
    """Only NaN differs from itself."""
    x = node.inputs[0] if node.inputs else None
    return None if x is None else [Node("BinaryOp", node.name, [x, x], node.outputs, {"opType": "NOTEQUAL"})]


def _log_softmax(node: Node) -> list[Node] | None:
    """``x - max - log(sum(exp(x - max)))``."""
    x, out, axis = node.inputs[0] if node.inputs else None, node.outputs[0], node.attrs.get("axis", 0)
    if x is None or x.dtype is not DType.F32:
        return None
    keep: dict[str, object] = {"dim": [axis], "keepDims": True}
    stem = out.name
    top, shifted, powers, total, log = (Value(f"{stem}/{n}", x.dtype) for n in ("max", "shifted", "exp", "sum", "log"))
    return [
        Node("Reduction", f"{stem}/max", [x], [top], {"operation": "MAXIMUM", **keep}),
        Node("BinaryOp", f"{stem}/shifted", [x, top], [shifted], {"opType": "SUB"}),
        Node("UnaryOp", f"{stem}/exp", [shifted], [powers], {"opType": "EXP"}),
        Node("Reduction", f"{stem}/sum", [powers], [total], {"operation": "SUM", **keep}),
        Node("UnaryOp", f"{stem}/log", [total], [log], {"opType": "LOG"}),
        Node("BinaryOp", node.name, [shifted, log], [out], {"opType": "SUB"}),
    ]


def _remainder(node: Node) -> list[Node] | None:
    """``x - (x / y) * y`` with the division of integers, which truncates."""
    x, y = (node.inputs + [None, None])[:2]
    if x is None or y is None or x.dtype is None or not x.dtype.is_int or x.dtype is not y.dtype:
        return None
    stem = node.outputs[0].name
    times, whole = Value(f"{stem}/quotient", x.dtype), Value(f"{stem}/whole", x.dtype)
    return [
        Node("BinaryOp", f"{stem}/quotient", [x, y], [times], {"opType": "DIV"}),
        Node("BinaryOp", f"{stem}/whole", [times, y], [whole], {"opType": "MUL"}),
        Node("BinaryOp", node.name, [x, whole], node.outputs, {"opType": "SUB"}),
    ]


def _reshape_exact(node: Node) -> list[Node] | None:
    """An ordinary Reshape when the shape is known and has no zeros."""
    shape = node.inputs[1] if len(node.inputs) > 1 else None
    if shape is None or shape.data is None or not np.all(shape.array() != 0):
        return None
    return [Node("Reshape", node.name, node.inputs, node.outputs, {})]


def _numbers(value: Value | None) -> np.ndarray | None:
    return None if value is None or value.data is None else value.array().astype(np.float64).reshape(-1)


def _batch_norm(node: Node) -> list[Node] | None:
    """With constants, a scale and a shift per channel."""
    found = [_numbers(v) for v in node.inputs[1:5]]
    epsilon = node.attrs.get("epsilon", 0.001)
    if len(found) != 4 or any(v is None for v in found) or not isinstance(epsilon, (int, float)):
        return None
    slope, bias, mean, var = (v for v in found if v is not None)
    scale = slope / np.sqrt(var + epsilon)
    shift = bias - mean * scale
    stem = node.outputs[0].name
    operands: list[Value | None] = [node.inputs[0]]
    for role, numbers in (("scale", scale), ("shift", shift)):
        data = numbers.astype(np.float32)
        operands.append(Value(f"{stem}/{role}", DType.F32, tuple(data.shape), data))
    return [Node("Scale", node.name, operands, node.outputs, {})]


def _group_norm(node: Node) -> list[Node] | None:
    """A LayerNorm of groups, then scale and shift per channel."""
    x, group, out = node.inputs[0], node.attrs.get("group", 1), node.outputs[0]
    if x is None or x.shape is None or len(x.shape) < 3 or not isinstance(group, int) or x.dtype is not DType.F32:
        return None
    rank, stem = len(x.shape), out.name
    axes = [-1] if group > 1 else list(range(1 - rank, 0))
    attrs: dict[str, object] = {"axis": axes, "group": group, "epsilon": node.attrs.get("epsilon", 0.0)}
    steps: list[tuple[str, list[Value], dict[str, object]]] = [("LayerNorm", [], attrs)]
    for role, kind, value in zip(("scaled", "shifted"), ("MUL", "ADD"), node.inputs[1:3], strict=False):
        numbers = _numbers(value)
        if value is not None and numbers is None:
            return None
        if numbers is not None:
            data = numbers.astype(np.float32).reshape(-1, *(1,) * (rank - 2))
            operand = Value(f"{stem}/{role}/operand", DType.F32, tuple(data.shape), data)
            steps.append(("BinaryOp", [operand], {"opType": kind}))
    if node.attrs.get("bSwish"):
        steps.append(("UnaryOp", [], {"opType": "SILU"}))
    nodes, current = [], x
    for i, (op, operands, attributes) in enumerate(steps):
        last = i == len(steps) - 1
        made = out if last else Value(f"{stem}/step{i}", x.dtype, x.shape)
        name = node.name if last else made.name
        nodes.append(Node(op, name, [current, *operands], [made], attributes))
        current = made
    return nodes


_USUAL = {"OnnxLSTM": ["sigmoid", "tanh", "tanh"], "OnnxRNN": ["tanh"]}


def _recurrent(node: Node) -> list[Node] | None:
    """ONNX's LSTM and RNN in their usual forms; the two biases are added."""
    kind, attrs = node.op.removeprefix("Onnx"), node.attrs
    directions = {"forward": 1, "bidirectional": 2}.get(str(attrs.get("direction") or "forward"), 0)
    activations = attrs.get("activations")
    names = [str(a).lower() for a in activations] if isinstance(activations, (list, tuple)) else None
    special = any(attrs.get(key) for key in ("clip", "layout", "input_forget"))
    inputs = [*node.inputs, *[None] * 8][:8]
    hidden = attrs.get("hidden_size")
    if not directions or special or inputs[4] is not None or inputs[7] is not None or not isinstance(hidden, int):
        return None
    if names is not None and names != _USUAL[node.op] * directions:
        return None
    stem, nodes = node.outputs[0].name, []
    rows = hidden * (4 if kind == "LSTM" else 1)
    bias = inputs[3]
    if bias is None:
        data = np.zeros((directions, rows), np.float32)
        both = Value(f"{stem}/bias", DType.F32, data.shape, data)
    else:
        halves = [Value(f"{stem}/bias{i}", bias.dtype) for i in (0, 1)]
        both = Value(f"{stem}/bias", bias.dtype)
        pieces: dict[str, object] = {"axis": 1, "slicePoints": [2], "sourceType": "TENSORFLOW"}
        nodes.append(Node("Slice", f"{stem}/bias0", [bias], halves, pieces))
        nodes.append(Node("BinaryOp", f"{stem}/bias", list(halves), [both], {"opType": "ADD"}))
    operands = [*inputs[:3], both, *inputs[5:7]]
    return [*nodes, Node(kind, node.name, operands, node.outputs, {"outputCount": hidden})]


def _gather(node: Node) -> list[Node] | None:
    """Negative constant indices count from the end; the official engine wants them from the start."""
    x, index = (node.inputs + [None, None])[:2]
    axis_value = node.inputs[2] if len(node.inputs) > 2 else None
    if x is None or index is None or index.data is None or (axis_value is not None and axis_value.data is None):
        return None
    numbers = index.array()
    axis = int(axis_value.array().reshape(-1)[0]) if axis_value is not None else int(str(node.attrs.get("axis", 0)))
    if not numbers.size or int(numbers.min()) >= 0:
        return None
    rank = len(x.shape) if x.shape is not None else None
    at = axis + rank if axis < 0 and rank is not None else axis
    size = x.shape[at] if x.shape is not None and rank is not None and 0 <= at < rank else None
    stem = f"{node.outputs[0].name}/index"
    if isinstance(size, int):
        data = np.where(numbers < 0, numbers + size, numbers).astype(numbers.dtype)
        fixed = Value(stem, index.dtype, data.shape, data)
        return [Node(node.op, node.name, [x, fixed, *node.inputs[2:]], node.outputs, node.attrs)]
    if at < 0 or index.dtype is not DType.I64:
        return None
    fixed = Value(stem, DType.I64)
    sizes, along, moved, wrapped = (Value(f"{stem}/{n}", DType.I64) for n in ("shape", "size", "moved", "wrapped"))
    first = Value(f"{stem}/axis", DType.I64, (1,), np.array([at], np.int64))
    zero = Value(f"{stem}/zero", DType.I64, (), np.array(0, np.int64))
    return [
        Node("Shape", sizes.name, [x], [sizes], {"outputDataType": "DT_INT64"}),
        Node("GatherV2", along.name, [sizes, first, zero], [along], {}),
        Node("BinaryOp", moved.name, [index, along], [moved], {"opType": "ADD"}),
        Node("BinaryOp", wrapped.name, [moved, along], [wrapped], {"opType": "FLOORMOD"}),
        Node("Squeeze" if numbers.ndim == 0 else "Identity", stem, [wrapped], [fixed], {}),
        Node(node.op, node.name, [x, fixed, *node.inputs[2:]], node.outputs, node.attrs),
    ]


def _unary(kind: str) -> Callable[[Node], list[Node] | None]:
    return lambda node: [Node("UnaryOp", node.name, node.inputs, node.outputs, {"opType": kind})]


_RULES: dict[str, Callable[[Node], list[Node] | None]] = {
    "Not": _not,
    "IsNaN": _is_nan,
    "LogSoftmax": _log_softmax,
    "Remainder": _remainder,
    "ReshapeExact": _reshape_exact,
    "BatchNorm": _batch_norm,
    "GroupNorm": _group_norm,
    "AbsVal": _unary("ABS"),
    "Bnll": _unary("BNLL"),
    "Gather": _gather,
    "GatherV2": _gather,
    "OnnxLSTM": _recurrent,
    "OnnxRNN": _recurrent,
}
