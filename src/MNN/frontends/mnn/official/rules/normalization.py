"""Rules for normalisations and recurrent layers."""

from __future__ import annotations

import numpy as np

from MNN.frontends.mnn.official.compose import Steps
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ops.core.base import operators


def _numbers(value: Value | None) -> np.ndarray | None:
    return None if value is None or value.data is None else value.array().astype(np.float64).reshape(-1)


def batch_norm(node: Node) -> list[Node] | None:
    """A scale and a shift per channel, with constants computed here."""
    found = [_numbers(v) for v in node.inputs[1:5]]
    epsilon = node.attrs.get("epsilon", 0.001)
    if len(found) != 4 or not isinstance(epsilon, (int, float)):
        return None
    if any(v is None for v in found):
        return _computed_batch_norm(node, float(epsilon))
    slope, bias, mean, var = (v for v in found if v is not None)
    with np.errstate(all="ignore"):  # a negative variance gives NaN, in a file as in a run
        scale = slope / np.sqrt(var + epsilon)
        shift = bias - mean * scale
    stem = node.outputs[0].name
    operands: list[Value | None] = [node.inputs[0]]
    for role, numbers in (("scale", scale), ("shift", shift)):
        data = numbers.astype(np.float32)
        operands.append(Value(f"{stem}/{role}", DType.F32, tuple(data.shape), data))
    return [Node("Scale", node.name, operands, node.outputs, {})]


def _computed_batch_norm(node: Node, epsilon: float) -> list[Node] | None:
    given = [v for v in node.inputs if v is not None]
    x, rank = given[0], 0 if given[0].shape is None else len(given[0].shape)
    if len(given) != 5 or rank < 2 or any(v.dtype is not DType.F32 for v in given):
        return None
    s = Steps(node)
    slope, bias, mean, var = (s.unsqueeze(v, *range(1, rank - 1)) if rank > 2 else v for v in given[1:])
    scale = s.binary("MUL", slope, s.unary("RSQRT", s.binary("ADD", var, epsilon)))
    return s.finish([s.binary("ADD", s.binary("MUL", s.binary("SUB", x, mean), scale), bias)])


def layer_norm(node: Node) -> list[Node] | None:
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


def _grouped(node: Node, group: int) -> list[Node] | None:
    """A LayerNorm of ``group`` groups of channels, then scale and shift per channel, constant or computed."""
    x, out = node.inputs[0], node.outputs[0]
    if x is None or x.shape is None or len(x.shape) < 3 or x.dtype is not DType.F32:
        return None
    if any(v is not None and v.data is None and v.dtype is not DType.F32 for v in node.inputs[1:3]):
        return None
    rank, s = len(x.shape), Steps(node)
    axes = [-1] if group > 1 else list(range(1 - rank, 0))
    epsilon = node.attrs.get("epsilon", operators()[node.op].attributes["epsilon"])
    current = s.op("LayerNorm", [x], DType.F32, x.shape, axis=axes, group=group, epsilon=epsilon)
    for kind, value in zip(("MUL", "ADD"), node.inputs[1:3], strict=False):
        numbers = _numbers(value)
        if numbers is not None:
            value = s.const(numbers.reshape(-1, *(1,) * (rank - 2)), DType.F32)
        elif value is not None:
            value = s.unsqueeze(value, *range(1, rank - 1))
        if value is not None:
            current = s.binary(kind, current, value)
    if node.attrs.get("bSwish"):
        current = s.unary("SILU", current)
    current.shape = out.shape
    return s.finish([current])


def group_norm(node: Node) -> list[Node] | None:
    group = node.attrs.get("group", 1)
    return _grouped(node, group) if isinstance(group, int) else None


def instance_norm(node: Node) -> list[Node] | None:
    """Every channel is a group: the official engine has an operator of that name, and no code for it."""
    x = node.inputs[0]
    channels = x.shape[1] if x is not None and x.shape is not None and len(x.shape) > 2 else None
    return _grouped(node, channels) if isinstance(channels, int) else None
