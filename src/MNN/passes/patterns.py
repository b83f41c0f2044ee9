"""What passes ask about nodes: constants among operands, ranks, attributes."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.base import Operator, operators

FLOATS = (DType.F32, DType.F64, DType.F16, DType.BF16)


def attribute(node: Node, key: str) -> Any:
    """The node's attribute or its operator's default."""
    found = node.attrs.get(key)
    return operators()[node.op].attributes.get(key) if found is None else found


def of_this_package(op: Operator) -> bool:
    """Whether an operator is one of the engine's own: a user's may have effects, or fail in ways of its own."""
    module = type(op).__module__
    return module.startswith("MNN.ops.") and module != "MNN.ops.custom"


def plain(value: Value | None) -> np.ndarray | None:
    """The numbers of an uncompressed constant."""
    return None if value is None or value.data is None or isinstance(value.data, QuantizedArray) else value.data


def floats(value: Value | None) -> np.ndarray | None:
    """The numbers of an uncompressed floating-point constant."""
    data = plain(value)
    return data if data is not None and DType.of(data) in FLOATS else None


def ints(value: Value | None) -> list[int] | None:
    """A constant as a flat list of ints."""
    data = plain(value)
    return None if data is None or data.dtype.kind not in "iub" else [int(v) for v in data.reshape(-1)]


def rank(value: Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def constants_type(x: Value) -> np.dtype[np.generic]:
    """The type of constants that are worked out for an operator on ``x``: wide enough for its numbers."""
    return np.dtype(np.float64 if x.dtype is DType.F64 else np.float32)


def scalar(value: Value | None) -> float | None:
    """A constant of one element."""
    data = plain(value)
    if data is None or data.size != 1 or DType.of(data) is DType.STR:
        return None
    return float(data.reshape(-1)[0])


def keeps_rank(constant: Value, other: Value) -> bool:
    """Whether combining the two elementwise leaves the rank of ``other`` as it is."""
    data = plain(constant)
    if data is None:
        return False
    if data.ndim == 0:
        return True
    found = rank(other)
    return found is not None and data.ndim <= found


def binary(node: Node | None, *kinds: str) -> bool:
    """Whether a node is one of these binary operations, without an activation on top."""
    if node is None or node.op != "BinaryOp" or len(node.inputs) != 2 or any(v is None for v in node.inputs):
        return False
    return node.attrs.get("opType", "ADD") in kinds and not node.attrs.get("activationType")


def sides(node: Node) -> tuple[Value, Value]:
    """Both operands of a binary operation."""
    x, y = node.inputs[0], node.inputs[1]
    assert x is not None
    assert y is not None
    return x, y


def with_constant(node: Node) -> tuple[Value, Value, bool] | None:
    """The variable and the constant operand of a binary operation, and whether the constant comes first."""
    x, y = sides(node)
    if y.is_const and not x.is_const:
        return x, y, False
    if x.is_const and not y.is_const:
        return y, x, True
    return None


def unary(node: Node | None, *kinds: str) -> TypeGuard[Node]:
    return node is not None and node.op == "UnaryOp" and node.attrs.get("opType", "ABS") in kinds


def sigmoid(node: Node | None) -> TypeGuard[Node]:
    """Whether a node gives the logistic function: files have two spellings of it."""
    return node is not None and (node.op == "Sigmoid" or unary(node, "SIGMOID"))


def tanh(node: Node | None) -> TypeGuard[Node]:
    """Whether a node gives the hyperbolic tangent, in one of two spellings."""
    return node is not None and (node.op == "TanH" or unary(node, "TANH"))


def own_padding(node: Node, key: str, spatial: int) -> list[int] | None:
    """The padding that the operator has, begins then ends; None when it depends on the input's size."""
    mode = attribute(node, key)
    if mode == "VALID":
        return [0] * (2 * spatial)
    if mode != "CAFFE":
        return None
    given = node.attrs.get("pads")
    pads = [int(p) for p in given] if isinstance(given, list | tuple) else []
    if not pads:
        pads = [int(attribute(node, key) or 0) for key in ("padY", "padX")] if spatial == 2 else [0] * spatial
    return pads if len(pads) == 2 * spatial else [*pads, *pads] if len(pads) == spatial else None
