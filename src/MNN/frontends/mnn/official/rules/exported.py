"""Rules for operators that come from exporters in other forms than the official engine has them."""

from __future__ import annotations

import numpy as np

from MNN.frontends.mnn.official.compose import Steps
from MNN.frontends.mnn.official.rules.arithmetic import operand
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ops.arranging.layout import order_of

_INT_TYPES = (DType.I32, DType.I64)


def _rank(x: Value | None) -> int:
    return 0 if x is None or x.shape is None else len(x.shape)


def trilu(node: Node) -> list[Node] | None:
    """A comparison of rows with columns chooses between the matrix and zeros."""
    x, k = operand(node, 0), operand(node, 1)
    if x is None or _rank(x) < 2 or x.dtype not in (DType.F32, *_INT_TYPES) or (k is not None and k.data is None):
        return None
    numbers = [0] if k is None else [int(n) for n in k.array().reshape(-1)]
    s = Steps(node)
    rows, columns = s.range(s.size(x, -2)), s.range(s.size(x, -1))
    lines = s.binary("ADD", s.unsqueeze(rows, 1), numbers[0] if numbers else 0)
    upper = bool(node.attrs.get("upper", True))
    first, second = (s.unsqueeze(columns, 0), lines) if upper else (lines, s.unsqueeze(columns, 0))
    kept = s.op("BinaryOp", [first, second], DType.BOOL, opType="GREATER_EQUAL")
    whole = s.op("BroadcastTo", [kept, s.shape(x)], DType.BOOL) if _rank(x) > 2 else kept
    return s.finish([s.op("Select", [whole, x, s.op("ZerosLike", [x], x.dtype)], x.dtype)])


def convert_tensor(node: Node) -> list[Node] | None:
    """Nothing where channels stay at their place, else a Permute where the rank is known: formats of tensors are put in
    when all operators are there."""
    x, source, dest = operand(node, 0), *(str(node.attrs.get(key, "NCHW")) for key in ("source", "dest"))
    rank = _rank(x)
    if order_of(source, dest, rank or 4) == list(range(rank or 4)):
        return [Node("Identity", node.name, [x], node.outputs, {})]
    return [Node("Permute", node.name, [x], node.outputs, {"dims": order_of(source, dest, rank)})] if rank else None


def size_conditions(node: Node) -> list[Node]:
    """The official engine takes sizes as they come."""
    return [Node("Identity", node.name, [operand(node, 0)], node.outputs, {})]


def pad_axes(node: Node) -> list[Node] | None:
    """Pads of the axes that are not named are 0."""
    x, pads, value, axes = (operand(node, i) for i in range(4))
    if x is None or not _rank(x) or axes is None or axes.data is None or pads is None:
        return None
    rank, count = _rank(x), int(axes.array().size)
    order = [int(a) % rank for a in axes.array().reshape(-1)]
    s = Steps(node)
    if pads.data is not None:
        numbers = pads.array().reshape(-1)
        full = np.zeros((rank, 2), np.int64)
        for i, axis in enumerate(order):
            full[axis] = numbers[i], numbers[i + count]
        table = s.const(full, DType.I64)
    else:  # a row of begins and one of ends for every axis, and a row of zeros for those that are not named
        named = s.permute(s.op("Reshape", [pads, s.ints(2, count)], pads.dtype, (2, count)), 1, 0)
        zero = s.const(np.zeros((1, 2)), pads.dtype or DType.I64)
        rows = s.op("Concat", [named, zero], pads.dtype, axis=0)
        table = s.pick(rows, s.ints(*(order.index(a) if a in order else count for a in range(rank))))
    flat = s.reshape(table, -1)
    filler: list[Value | None] = [] if value is None else [value]
    return s.finish([s.op("Padding", [x, flat, *filler], x.dtype, mode=node.attrs.get("mode", "CONSTANT"))])


def lp_normalization(node: Node) -> list[Node] | None:
    """Divided by the root of a sum; where that is 0, so is the quotient with the least number there is."""
    x, p, axis = operand(node, 0), node.attrs.get("p", 2), node.attrs.get("axis", -1)
    if x is None or x.dtype is not DType.F32 or p not in (1, 2) or not isinstance(axis, int):
        return None
    s = Steps(node)
    total = s.reduce("SUM", s.unary("ABS", x) if p == 1 else s.binary("MUL", x, x), [axis])
    root = s.unary("SQRT", total) if p == 2 else total
    return s.finish([s.binary("REALDIV", x, s.binary("MAXIMUM", root, float(np.finfo(np.float32).tiny)))])


def hardmax(node: Node) -> list[Node] | None:
    """Ones where the place along the axis is that of the first maximum."""
    x, axis = operand(node, 0), node.attrs.get("axis", -1)
    if x is None or x.dtype is not DType.F32 or not _rank(x) or not isinstance(axis, int):
        return None
    at, s = axis % _rank(x), Steps(node)
    top = s.unsqueeze(s.cast(s.op("ArgMax", [x], DType.I32, axis=at), DType.I64), at)
    line = s.range(s.size(x, at))
    if _rank(x) > 1:
        line = s.reshape(line, *(-1 if a == at else 1 for a in range(_rank(x))))
    return s.finish([s.cast(s.op("BinaryOp", [top, line], DType.BOOL, opType="EQUAL"), DType.F32)])


def is_inf(node: Node) -> list[Node] | None:
    """What is beyond the largest number on a side that counts."""
    x = operand(node, 0)
    low, high = bool(node.attrs.get("detectNegative", True)), bool(node.attrs.get("detectPositive", True))
    if x is None or x.dtype is not DType.F32 or not (low or high):
        return None
    s, most = Steps(node), float(np.finfo(np.float32).max)
    size = s.unary("ABS", x) if low and high else x if high else s.unary("NEG", x)
    return s.finish([s.binary("GREATER", size, most, DType.BOOL)])


def bitwise_not(node: Node) -> list[Node] | None:
    """``-1 - x`` of signed integers."""
    x = operand(node, 0)
    if x is None or x.dtype not in _INT_TYPES:
        return None
    s = Steps(node)
    return s.finish([s.binary("SUB", s.const(-1, x.dtype), x)])


def with_statistics(node: Node) -> list[Node] | None:
    """A layer normalisation that also gives the mean and the inverse of the deviation, step by step."""
    x, axes, out = operand(node, 0), node.attrs.get("axis"), node.outputs
    if x is None or x.dtype is not DType.F32 or not isinstance(axes, (list, tuple)) or not axes or len(out) > 3:
        return None
    if node.attrs.get("group", 1) != 1 or node.attrs.get("useRMSNorm"):
        return None
    s, last = Steps(node), list(range(-len(axes), 0))
    mean = s.reduce("MEAN", x, last)
    centred = s.binary("SUB", x, mean)
    variance = s.reduce("MEAN", s.binary("MUL", centred, centred), last)
    inverse = s.unary("RSQRT", s.binary("ADD", variance, float(str(node.attrs.get("epsilon", 0.0)))))
    y = s.binary("MUL", centred, inverse)
    for kind, value in zip(("MUL", "ADD"), node.inputs[1:3], strict=False):
        if value is not None:
            y = s.binary(kind, y, value)
    return s.finish([y, mean, inverse][: len(out)])
