"""Rules for operators that take tensors apart and pick elements."""

from __future__ import annotations

import numpy as np

from MNN.frontends.mnn.official.rules.arithmetic import operand
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value


def gather(node: Node) -> list[Node] | None:
    """Negative indices count from the end; the official engine wants them from the start."""
    x, index = operand(node, 0), operand(node, 1)
    axis_value = node.inputs[2] if len(node.inputs) > 2 else None
    if x is None or index is None or (axis_value is not None and axis_value.data is None):
        return None
    axis = int(axis_value.array().reshape(-1)[0]) if axis_value is not None else int(str(node.attrs.get("axis", 0)))
    numbers = None if index.data is None else index.array()
    if numbers is not None and (not numbers.size or int(numbers.min()) >= 0):
        return None
    rank = len(x.shape) if x.shape is not None else None
    at = axis + rank if axis < 0 and rank is not None else axis
    size = x.shape[at] if x.shape is not None and rank is not None and 0 <= at < rank else None
    stem = f"{node.outputs[0].name}/index"
    if isinstance(size, int) and numbers is not None:
        data = np.where(numbers < 0, numbers + size, numbers).astype(numbers.dtype)
        moved = Value(stem, index.dtype, data.shape, data)
        return [Node(node.op, node.name, [x, moved, *node.inputs[2:]], node.outputs, node.attrs)]
    if at < 0 or index.dtype not in (DType.I64, DType.I32):
        return None
    sizes, along, moved, fixed = (Value(f"{stem}/{n}", index.dtype) for n in ("shape", "size", "moved", "wrapped"))
    first = Value(f"{stem}/axis", DType.I64, (), np.array(at, np.int64))
    zero = Value(f"{stem}/zero", DType.I64, (), np.array(0, np.int64))
    kind = "DT_INT64" if index.dtype is DType.I64 else "DT_INT32"
    return [
        Node("Shape", sizes.name, [x], [sizes], {"outputDataType": kind}),
        Node("GatherV2", along.name, [sizes, first, zero], [along], {}),
        Node("BinaryOp", moved.name, [index, along], [moved], {"opType": "ADD"}),
        Node("BinaryOp", fixed.name, [moved, along], [fixed], {"opType": "FLOORMOD"}),
        Node(node.op, node.name, [x, fixed, *node.inputs[2:]], node.outputs, node.attrs),
    ]


def split(node: Node) -> list[Node] | None:
    """Pieces of unequal sizes are listed: without a list they are equal there."""
    x, axis, points = operand(node, 0), node.attrs.get("axis", 0), node.attrs.get("slicePoints")
    if x is None or x.shape is None or points is not None or operand(node, 1) is not None or not isinstance(axis, int):
        return None
    size, count = x.shape[axis] if -len(x.shape) <= axis < len(x.shape) else None, len(node.outputs)
    if not isinstance(size, int) or size % count == 0:
        return None
    piece = -(-size // count)
    sizes = [max(min(piece, size - i * piece), 0) for i in range(count)]
    attrs: dict[str, object] = {"axis": axis, "slicePoints": sizes, "sourceType": "TENSORFLOW"}
    return [Node("Slice", node.name, [x], node.outputs, attrs)]
