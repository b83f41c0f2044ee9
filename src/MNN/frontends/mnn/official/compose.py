"""Builds the official operators that stand for one operator of ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import Shape
from MNN.ops.elementwise.identity import copied


class Steps:
    """Nodes one after the other, named after the node that they stand for."""

    def __init__(self, node: Node, role: str = "") -> None:
        self.node = node
        self.stem = f"{node.outputs[0].name}/{role}" if role else node.outputs[0].name
        self.nodes: list[Node] = []
        self._count = 0

    def name(self, role: str) -> str:
        self._count += 1
        return f"{self.stem}/{role}{self._count}"

    def const(self, data: Any, dtype: DType) -> Value:
        array = np.asarray(data).astype(dtype.numpy)
        return Value(self.name("const"), dtype, tuple(array.shape), array)

    def ints(self, *numbers: int) -> Value:
        """A vector of 64-bit integers."""
        return self.const(np.array(numbers, np.int64), DType.I64)

    def op(
        self, kind: str, inputs: list[Value | None], dtype: DType | None, shape: Shape | None = None, **attrs: object
    ) -> Value:
        return self.many(kind, inputs, dtype, 1, shape, **attrs)[0]

    def many(
        self, kind: str, inputs: list[Value | None], dtype: DType | None, count: int, shape: Shape | None = None,
        **attrs: object,
    ) -> list[Value]:  # fmt: skip
        stem = self.name(kind)
        made = [Value(stem if count == 1 else f"{stem}.{i}", dtype, shape) for i in range(count)]
        self.nodes.append(Node(kind, stem, inputs, list(made), attrs))
        return made

    # -- what is needed often --------------------------------------------------------------------------------------

    def binary(self, kind: str, x: Value, y: Value | float, dtype: DType | None = None) -> Value:
        """An elementwise operation; a number takes the other operand's type."""
        other = y if isinstance(y, Value) else self.const(y, x.dtype or DType.F32)
        return self.op("BinaryOp", [x, other], dtype or x.dtype, opType=kind)

    def unary(self, kind: str, x: Value) -> Value:
        return self.op("UnaryOp", [x], x.dtype, x.shape, opType=kind)

    def permute(self, x: Value, *order: int) -> Value:
        shape = None if x.shape is None else tuple(x.shape[a] for a in order)
        return self.op("Permute", [x], x.dtype, shape, dims=list(order))

    def unsqueeze(self, x: Value, *axes: int) -> Value:
        if x.shape is None or min(axes) < 0:
            return self.op("Unsqueeze", [x], x.dtype, squeezeDims=list(axes))
        shape = list(x.shape)
        for axis in sorted(axes):
            shape.insert(axis, 1)
        return self.op("Unsqueeze", [x], x.dtype, tuple(shape), squeezeDims=list(axes))

    def squeeze(self, x: Value, *axes: int) -> Value:
        return self.op("Squeeze", [x], x.dtype, squeezeDims=list(axes))

    def reshape(self, x: Value, *sizes: int) -> Value:
        """Sizes may hold -1 for what is left and 0 for the size as it was."""
        return self.op("Reshape", [x, self.ints(*sizes)], x.dtype)

    def reshape_like(self, x: Value, model: Value) -> Value:
        """``x`` in the shape of another tensor."""
        if model.shape is not None and all(isinstance(d, int) for d in model.shape):
            return self.reshape(x, *(int(d) for d in model.shape))
        return self.op("Reshape", [x, self.shape(model)], x.dtype)

    def matmul(self, x: Value, y: Value, transposed: bool = False) -> Value:
        return self.op("MatMul", [x, y], x.dtype, transposeB=transposed)

    def cast(self, x: Value, dtype: DType) -> Value:
        kinds = {DType.F32: "DT_FLOAT", DType.I32: "DT_INT32", DType.I64: "DT_INT64", DType.U8: "DT_UINT8",
                 DType.I8: "DT_INT8", DType.I16: "DT_INT16", DType.U16: "DT_UINT16"}  # fmt: skip
        return self.op("Cast", [x], dtype, x.shape, dstT=kinds[dtype])

    def shape(self, x: Value) -> Value:
        return self.op("Shape", [x], DType.I64, outputDataType="DT_INT64")

    def size(self, x: Value, axis: int) -> Value:
        """One size as a scalar."""
        known = x.shape[axis] if x.shape is not None and -len(x.shape) <= axis < len(x.shape) else None
        if isinstance(known, int):
            return self.const(known, DType.I64)
        return self.op("GatherV2", [self.shape(x), self.const(axis, DType.I64), self.const(0, DType.I64)], DType.I64)

    def range(self, count: Value) -> Value:
        """0, 1, 2, ... below a scalar."""
        return self.op("Range", [self.const(0, DType.I64), count, self.const(1, DType.I64)], DType.I64)

    def pick(self, x: Value, index: Value, axis: int = 0) -> Value:
        """Elements of ``x`` along an axis; indices from 0 on."""
        return self.op("GatherV2", [x, index, self.const(axis, DType.I64)], x.dtype)

    def pieces(self, x: Value, axis: int, count: int) -> list[Value]:
        """Equal pieces along an axis."""
        if count == 1:
            return [x]
        return self.many("Slice", [x], x.dtype, count, axis=axis, slicePoints=[count], sourceType="TENSORFLOW")

    def reduce(self, kind: str, x: Value, axes: list[int], keep: bool = True) -> Value:
        return self.op("Reduction", [x], x.dtype, operation=kind, dim=axes, keepDims=keep)

    def finish(self, values: list[Value], outputs: list[Value] | None = None) -> list[Node]:
        """The nodes, which give ``values`` under the names of the outputs of the node they stand for."""
        graph = Graph("", [], list(values), self.nodes)
        made = {v for n in self.nodes for v in n.outputs}
        for value, out in zip(values, outputs or self.node.outputs, strict=False):
            if value in made:
                made.discard(value)
                for node in self.nodes:
                    node.outputs = [out if v is value else v for v in node.outputs]
                graph.replace(value, out)
            else:
                self.nodes.append(copied(value, out))
        self.nodes[-1].name = self.node.name or self.nodes[-1].name
        return self.nodes
