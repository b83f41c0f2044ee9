"""Rules for elementwise operators, products and reductions."""

from __future__ import annotations

import numpy as np

from MNN.frontends.mnn.official.record import Rule
from MNN.frontends.mnn.official.rules.compressed import compressed_product
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value


def operand(node: Node, index: int) -> Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def scalar(node: Node, number: int | float | bool, dtype: DType, role: str) -> Value:
    data = np.asarray(number).astype(dtype.numpy)
    return Value(f"{node.outputs[0].name}/{role}", dtype, (), data)


def equals_zero(node: Node) -> list[Node] | None:
    """``not x`` is ``x == 0``."""
    x = node.inputs[0] if node.inputs else None
    if x is None or x.dtype is None or x.dtype is DType.STR:
        return None
    zero = scalar(node, 0, x.dtype, "zero")
    return [Node("BinaryOp", node.name, [x, zero], node.outputs, {"opType": "EQUAL"})]


def differs_from_itself(node: Node) -> list[Node] | None:
    """Only NaN differs from itself."""
    x = node.inputs[0] if node.inputs else None
    return None if x is None else [Node("BinaryOp", node.name, [x, x], node.outputs, {"opType": "NOTEQUAL"})]


def log_softmax(node: Node) -> list[Node] | None:
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


def remainder(node: Node) -> list[Node] | None:
    """``x - (x / y) * y`` with the division of integers, which truncates."""
    x, y = operand(node, 0), operand(node, 1)
    if x is None or y is None or x.dtype is None or not x.dtype.is_int or x.dtype is not y.dtype:
        return None
    stem = node.outputs[0].name
    times, whole = Value(f"{stem}/quotient", x.dtype), Value(f"{stem}/whole", x.dtype)
    return [
        Node("BinaryOp", f"{stem}/quotient", [x, y], [times], {"opType": "REALDIV"}),
        Node("BinaryOp", f"{stem}/whole", [times, y], [whole], {"opType": "MUL"}),
        Node("BinaryOp", node.name, [x, whole], node.outputs, {"opType": "SUB"}),
    ]


def reshape_exact(node: Node) -> list[Node] | None:
    """An ordinary Reshape when the shape is known and has no zeros."""
    shape = node.inputs[1] if len(node.inputs) > 1 else None
    if shape is None or shape.data is None or not np.all(shape.array() != 0):
        return None
    return [Node("Reshape", node.name, node.inputs, node.outputs, {})]


def compare(node: Node) -> list[Node] | None:
    """``x < y`` as ``y > x``: the official engine's LESS is wrong for some sizes."""
    turned = {"LESS": "GREATER", "LESS_EQUAL": "GREATER_EQUAL"}.get(str(node.attrs.get("opType")))
    if turned is None or len(node.inputs) != 2 or node.attrs.get("activationType"):
        return None
    return [Node("BinaryOp", node.name, node.inputs[::-1], node.outputs, {**node.attrs, "opType": turned})]


def reduction(node: Node) -> list[Node] | None:
    """All axes are listed; none means none there."""
    x = operand(node, 0)
    dims = node.attrs.get("dim")
    listed = isinstance(dims, (list, tuple, np.ndarray)) and len(dims) > 0
    given = operand(node, 1)
    if x is None or listed or (given is not None and given.shape != (0,)):
        return None
    if x.shape is not None:
        return [Node(node.op, node.name, [x], node.outputs, {**node.attrs, "dim": list(range(len(x.shape)))})]
    rank, axes = Value(f"{node.outputs[0].name}/rank"), Value(f"{node.outputs[0].name}/axes", DType.I32)
    rank.dtype = DType.I32
    zero, one = scalar(node, 0, DType.I32, "zero"), scalar(node, 1, DType.I32, "one")
    return [
        Node("Rank", rank.name, [x], [rank], {}),
        Node("Range", axes.name, [zero, rank, one], [axes], {}),
        Node(node.op, node.name, [x, axes], node.outputs, node.attrs),
    ]


def matmul(node: Node) -> list[Node] | None:
    """Vectors become matrices of one row or column, and a bias that is not one per column is added on its own."""
    compressed = compressed_product(node)
    if compressed is not None:
        return compressed
    x, y, bias, out = operand(node, 0), operand(node, 1), operand(node, 2), node.outputs[0]
    if x is None or y is None or x.shape is None or y.shape is None or not x.shape or not y.shape:
        return None
    plain = len(x.shape) > 1 and len(y.shape) > 1
    columns = y.shape[-2 if node.attrs.get("transposeB") else -1] if len(y.shape) > 1 else None
    fits = bias is None or (isinstance(columns, int) and bias.shape == (columns,))
    if plain and fits:
        return None
    stem = out.name
    nodes: list[Node] = []
    drop: list[int] = []
    if len(x.shape) == 1:
        x = _unsqueezed(nodes, x, 0, f"{stem}/row")
        drop.append(-2)
    if len(y.shape) == 1:
        y = _unsqueezed(nodes, y, 1, f"{stem}/column")
        drop.append(-1)
    kinds = {key: value for key, value in node.attrs.items() if not drop or key == "T"}
    if drop and any(node.attrs.get(key) for key in ("transposeA", "transposeB")):
        return None
    steps: list[tuple[str, list[Value | None], dict[str, object]]] = [("MatMul", [y], kinds)]
    if drop:
        steps.append(("Squeeze", [], {"squeezeDims": drop}))
    if bias is not None:
        steps.append(("BinaryOp", [bias], {"opType": "ADD"}))
    current: Value = x
    for i, (op, more, attrs) in enumerate(steps):
        last = i == len(steps) - 1
        made = out if last else Value(f"{stem}/step{i}", out.dtype)
        nodes.append(Node(op, node.name if last else made.name, [current, *more], [made], attrs))
        current = made
    return nodes


def _unsqueezed(nodes: list[Node], x: Value, axis: int, name: str) -> Value:
    made = Value(name, x.dtype)
    nodes.append(Node("Unsqueeze", name, [x], [made], {"squeezeDims": [axis]}))
    return made


def one_hot(node: Node) -> list[Node] | None:
    """Indices and depth are integers there."""
    operands: list[Value | None] = list(node.inputs)
    nodes = []
    for i, role in ((0, "indices"), (1, "depth")):
        value = operand(node, i)
        if value is not None and value.dtype is not None and value.dtype.is_float:
            made = Value(f"{node.outputs[0].name}/{role}", DType.I64, value.shape)
            nodes.append(Node("Cast", made.name, [value], [made], {"dstT": "DT_INT64"}))
            operands[i] = made
    return [*nodes, Node(node.op, node.name, operands, node.outputs, node.attrs)] if nodes else None


def unary(kind: str) -> Rule:
    """For operators that are an elementwise function there."""
    return lambda node: [Node("UnaryOp", node.name, node.inputs, node.outputs, {"opType": kind})]
