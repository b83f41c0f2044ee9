"""Rules for normalisations and recurrent layers."""

from __future__ import annotations

import numpy as np

from MNN.frontends.mnn.legal_math import Rule
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value


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


def _layer_norm(node: Node) -> list[Node] | None:
    """Scales and shifts that are computed are applied after it."""
    operands = list(node.inputs[1:3])
    axes = node.attrs.get("axis")
    count = max(len(axes), 1) if isinstance(axes, (list, tuple)) else 1
    computed = any(v is not None and v.data is None for v in operands)
    small = all(v is None or (v.shape is not None and len(v.shape) <= count) for v in operands)
    x = node.inputs[0]
    if not computed or not small or x is None or x.dtype is not DType.F32 or node.attrs.get("group", 1) != 1:
        return None
    steps: list[tuple[str, list[Value], dict[str, object]]] = [("LayerNorm", [], node.attrs)]
    for kind, value in zip(("MUL", "ADD"), operands, strict=False):
        if value is not None:
            steps.append(("BinaryOp", [value], {"opType": kind}))
    return _chain(node, x, steps)


def _chain(node: Node, x: Value, steps: list[tuple[str, list[Value], dict[str, object]]]) -> list[Node]:
    """Operators one after the other: each takes the result before it and operands of its own."""
    nodes, current = [], x
    for i, (op, operands, attributes) in enumerate(steps):
        last = i == len(steps) - 1
        made = node.outputs[0] if last else Value(f"{node.outputs[0].name}/step{i}", x.dtype, x.shape)
        nodes.append(Node(op, node.name if last else made.name, [current, *operands], [made], attributes))
        current = made
    return nodes


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
    return _chain(node, x, steps)


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


RULES: dict[str, Rule] = {
    "BatchNorm": _batch_norm,
    "GroupNorm": _group_norm,
    "LayerNorm": _layer_norm,
    "OnnxLSTM": _recurrent,
    "OnnxRNN": _recurrent,
}
