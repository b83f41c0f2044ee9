"""What handlers work with: ncnn's rules for axes and sizes upon a graph's builder.

ncnn's tensors have no batch: 1 to 4 dimensions, ``[w]``, ``[h, w]``, ``[c, h, w]`` or ``[c, d, h, w]``. In the graph
each has an axis of size 1 in front, as the engine's operators on images want it; inputs and outputs are as ncnn has
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, clamp, unary
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.frontends.ncnn.node import NcnnNode
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.quant import QuantizedArray

SHAPES = (
    "give the shapes of the inputs: --input-shape NAME=3x224x224, or MNN.frontends.ncnn.load(path, inputs={NAME: "
    "'3x224x224'})"
)
Size = int | Value
"""A size: a number, or a scalar (i64) of the graph where it is known only when the model runs."""
PLACES = {1: {"w": 1}, 2: {"h": 1, "w": 2}, 3: {"c": 1, "h": 2, "w": 3}, 4: {"c": 1, "d": 2, "h": 3, "w": 4}}
"""For each number of dimensions the axes of the graph's tensors."""


class Context(GraphBuilder):
    """See above."""

    # -- shapes -------------------------------------------------------------------------------------------------------

    def dims(self, node: NcnnNode, x: Value) -> int:
        """ncnn's number of dimensions, 1 to 4. Raises :class:`UnsupportedError` where it is not known."""
        rank = self.rank(x)
        if rank is None:
            raise node.unsupported(f"an operand ('{x.name}') of unknown rank", SHAPES)
        if not 2 <= rank <= 5:
            raise node.malformed(f"an operand has {rank - 1} dimensions, expected 1 to 4")
        return rank - 1

    def expect(self, node: NcnnNode, x: Value, dims: int) -> Value:
        """``x``, which must have so many dimensions."""
        found = self.dims(node, x)
        if found != dims:
            raise FormatError(f"{node.where}: its input has {found} dimensions, expected {dims}")
        return x

    def axis(self, node: NcnnNode, x: Value, axis: int) -> int:
        """ncnn's axis (negative ones count from the end) as one of the graph's tensor; that of a line is ignored."""
        dims = self.dims(node, x)
        if dims == 1:
            return 1
        if not -dims <= axis < dims:
            raise node.malformed(f"axis {axis} of {dims} dimensions")
        return axis % dims + 1

    def axes(self, node: NcnnNode, x: Value, axes: Sequence[int]) -> list[int]:
        return [self.axis(node, x, a) for a in axes]

    def extent(self, x: Value, axis: int) -> int | None:
        """The size of an axis where it is a number."""
        found = None if x.shape is None else x.shape[axis]
        return found if isinstance(found, int) else None

    def known_extent(self, node: NcnnNode, x: Value, axis: int, what: str) -> int:
        """The size of an axis. Raises :class:`UnsupportedError` when it is open."""
        found = self.extent(x, axis)
        if found is None:
            raise node.unsupported(f"{what} that is known only when the model runs", SHAPES)
        return found

    def size(self, x: Value, name: str) -> Size:
        """What ncnn calls ``w``, ``h``, ``d`` or ``c`` of a tensor; 1 where it has no such axis."""
        place = PLACES[(self.rank(x) or 2) - 1].get(name)
        if place is None:
            return 1
        found = self.extent(x, place)
        if found is not None:
            return found
        shape = self.op("Shape", x, outputDataType="DT_INT64")
        picked = self.op("GatherV2", shape, self.const(np.asarray(place, np.int32)), self.const(np.int32(0)))
        picked.dtype, picked.shape = DType.I64, ()
        return picked

    def sizes(self, sizes: Sequence[Size]) -> Value:
        """Sizes as a tensor of rank 1 (i64)."""
        if all(isinstance(n, int) for n in sizes):
            return self.const(np.asarray(sizes, np.int64))
        parts = [n if isinstance(n, Value) else self.const(np.asarray(n, np.int64)) for n in sizes]
        packed = self.op("Pack", *parts, axis=0)
        packed.dtype, packed.shape = DType.I64, (len(sizes),)
        return packed

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        """``x`` in other sizes, behind the axis in front; -1 is what is left."""
        return self.op("Reshape", x, self.sizes([1, *sizes]))

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def unary(self, kind: str, x: Value) -> Value:
        return unary(self, kind, x)

    def binary(self, kind: str, x: Value, y: Value | float) -> Value:
        """``kind`` is a name of BinaryOpOperation; a number takes the element type of ``x``."""
        return binary(self, kind, x, y)

    def affine(self, x: Value, scale: float, shift: float) -> Value:
        """``x * scale + shift``, as few operators as that takes."""
        x = x if scale == 1 else self.binary("MUL", x, scale)
        return x if shift == 0 else self.binary("ADD", x, shift)

    def floats(self, x: Value) -> Value:
        """Integers as f32."""
        if x.dtype is None or x.dtype.is_float:
            return x
        return self.op("Cast", x, dstT="DT_FLOAT")

    def along(self, x: Value, numbers: np.ndarray, axis: int = 1) -> Value:
        """Constant numbers that broadcast along an axis of ``x``."""
        line = [1] * (self.rank(x) or 2)
        line[axis] = numbers.size
        return self.const(np.ascontiguousarray(numbers.reshape(line)))

    def activated(self, node: NcnnNode, x: Value) -> Value:
        """The activation that parameters 9 and 10 name, applied."""
        return self.activation(node, x, node.params.integer(9), node.params.floats(10))

    def activation(self, node: NcnnNode, x: Value, kind: int, numbers: list[float]) -> Value:
        """``kind``: 0 none, 1 ReLU, 2 leaky ReLU, 3 clip, 4 sigmoid, 5 Mish, 6 hard swish (ncnn's numbers)."""
        wanted = {2: 1, 3: 2, 6: 2}.get(kind, 0)
        if not 0 <= kind <= 6:
            raise node.unsupported(f"activation {kind}")
        if len(numbers) < wanted:
            raise node.malformed(f"activation {kind} takes {wanted} numbers, found {len(numbers)}")
        if kind == 1:
            return self.op("ReLU", x)
        if kind == 2:
            return self.op("ReLU", x, slope=numbers[0])
        if kind == 3:
            return clamp(self, x, numbers[0], numbers[1])
        if kind == 4:
            return self.op("Sigmoid", x)
        if kind == 5:
            return self.mish(x)
        return self.hard_swish(node, x, numbers[0], numbers[1]) if kind == 6 else x

    def mish(self, x: Value) -> Value:
        """``x * tanh(log(1 + exp(x)))``."""
        return self.binary("MUL", x, self.op("TanH", self.unary("BNLL", x)))

    def hard_sigmoid(self, node: NcnnNode, x: Value, alpha: float, beta: float) -> Value:
        """``alpha * x + beta`` within 0 and 1."""
        if not alpha > 0:
            raise node.unsupported(f"a slope of {alpha}")
        return clamp(self, self.affine(x, alpha, beta), 0.0, 1.0)

    def hard_swish(self, node: NcnnNode, x: Value, alpha: float, beta: float) -> Value:
        """``x * hard_sigmoid(x)``."""
        if abs(alpha - 1 / 6) < 1e-6 and abs(beta - 0.5) < 1e-6:
            return self.unary("HARDSWISH", x)
        return self.binary("MUL", x, self.hard_sigmoid(node, x, alpha, beta))

    # -- weights ------------------------------------------------------------------------------------------------------

    def dequantized(self, weight: np.ndarray, scales: np.ndarray, axis: int = 0) -> Value:
        """Integers ``[O, ...]`` with ncnn's scales (``float * scale`` is the integer), one a row or one for all."""
        inverse = inverted(scales)
        if inverse.size == 1:
            return self.op("DequantizeLinear", self.const(weight), self.const(inverse.reshape(())), axis=axis)
        return self.op("DequantizeLinear", self.const(weight), self.const(inverse), axis=axis)

    def compressed(self, rows: np.ndarray, scales: np.ndarray) -> Value:
        """Integers ``[O, K]`` with ncnn's scales (``[O]``, ``[O, blocks]`` or one), that stay in 8 bits."""
        count, cols = rows.shape
        inverse = inverted(scales)
        columns = inverse if inverse.ndim == 2 else inverse.reshape(-1, 1)
        scale = np.broadcast_to(columns, (count, columns.shape[1]))
        blocks = scale.shape[1]
        if cols % blocks:
            return self.const(rows.astype(np.float32) * np.repeat(scale, -(-cols // blocks), 1)[:, :cols])
        return self.quantized(QuantizedArray.of(rows, np.ascontiguousarray(scale), None, 8, (count, cols)))


def inverted(scales: np.ndarray) -> np.ndarray:
    """What integers are multiplied with; 0 for a scale of 0, whose integers are all 0."""
    with np.errstate(divide="ignore", over="ignore"):  # a file may hold any scale
        inverse: np.ndarray = np.where(scales == 0, np.float32(0), np.float32(1) / scales).astype(np.float32)
    return inverse


__all__ = ["PLACES", "SHAPES", "Context", "Size", "inverted"]
