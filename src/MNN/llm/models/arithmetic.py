"""Single operators as methods, with the shapes that language models have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.quant import QuantizedArray
from MNN.llm.models.activations import activated
from MNN.llm.models.weights import Array, laid_apart


class Arithmetic(GraphBuilder):
    """Computes with values; knows nothing of weights by name, nor of texts."""

    def emit(self, op: str, inputs: Iterable[Value | None], outputs: int = 1, **attrs: object) -> list[Value]:
        made = super().emit(op, inputs, outputs, **attrs)
        self.graph.nodes[-1].name = made[0].name
        return made

    def hold(self, weight: Array) -> Value:
        """A constant, which stays compressed where it is."""
        return self.quantized(laid_apart(weight)) if isinstance(weight, QuantizedArray) else self.const(weight)

    def add(self, x: Value, y: Value) -> Value:
        return self.op("BinaryOp", x, y, opType="ADD")

    def multiply(self, x: Value, y: Value | float) -> Value:
        """``x * y``; by the number 1 nothing is done."""
        if not isinstance(y, Value):
            if y == 1.0:
                return x
            y = self.const(y)
        return self.op("BinaryOp", x, y, opType="MUL")

    def unary(self, kind: str, x: Value) -> Value:
        return self.op("UnaryOp", x, opType=kind)

    def floating(self, x: Value) -> Value:
        """Whole numbers as f32."""
        return self.op("Cast", x, dstT="DT_FLOAT")

    def activation(self, name: str, x: Value) -> Value:
        """One that a configuration names. Raises :class:`FormatError` for unknown names."""
        return activated(self, name, x)

    def softcap(self, x: Value, cap: float) -> Value:
        """``cap * tanh(x / cap)``, or ``x`` where ``cap`` is 0."""
        if not cap:
            return x
        return self.multiply(self.op("TanH", self.multiply(x, 1.0 / cap)), cap)

    def of_size_one(self, x: Value, epsilon: float, gamma: Value | None = None) -> Value:
        """``x`` over the root of the mean square of its last axis, times ``gamma`` where there is one."""
        weights = [] if gamma is None else [gamma]
        return self.op("LayerNorm", x, *weights, axis=[-1], epsilon=epsilon, useRMSNorm=True)

    def centred(self, x: Value, epsilon: float) -> Value:
        """Layer normalisation over the last axis, without weights."""
        return self.op("LayerNorm", x, axis=[-1], epsilon=epsilon)

    def mean(self, x: Value, axis: int) -> Value:
        """The mean along an axis, which stays with the size 1."""
        return self.op("Reduction", x, operation="MEAN", dim=[axis], keepDims=True)

    def matmul(self, x: Value, y: Value) -> Value:
        return self.op("MatMul", x, y)

    def reshape(self, x: Value, *sizes: int) -> Value:
        """0 keeps a size, -1 is computed."""
        return self.op("Reshape", x, dims=list(sizes))

    def permute(self, x: Value, *order: int) -> Value:
        return self.op("Permute", x, dims=list(order))

    def split(self, x: Value, sizes: Sequence[int], axis: int = -1) -> list[Value]:
        """``x`` cut into pieces of these sizes."""
        if len(sizes) == 1:
            return [x]
        return self.emit("Slice", [x], len(sizes), axis=axis, slicePoints=list(sizes), sourceType="TORCH")

    def concat(self, parts: Sequence[Value], axis: int = -1) -> Value:
        return self.op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]

    def repeat(self, x: Value, count: int, axis: int = 2) -> Value:
        """One slice ``count`` times along an axis of the four of ``x``."""
        return self.op("BroadcastTo", x, self.const([count if i == axis else 1 for i in range(4)], DType.I32))

    def gather(self, data: Value, indices: Value, axis: int = 0) -> Value:
        return self.op("Gather", data, indices, axis=axis)


def compressed_rows(net: Arithmetic, table: QuantizedArray, indices: Value) -> Value:
    """Rows of a compressed table ``[rows, cols]``, taken apart after they were gathered."""
    blocks = table.scale.shape[1]
    per, size = 8 // table.width, table.cols // blocks
    codes = net.op("Cast", net.gather(net.const(table.codes), indices), dstT="DT_FLOAT")
    if per > 1:  # the first number of a byte lies in its lowest bits
        parts, base = [], float(1 << table.width)
        for _ in range(per):
            rest = net.unary("FLOOR", net.multiply(codes, 1.0 / base))
            parts.append(net.op("BinaryOp", codes, net.multiply(rest, base), opType="SUB"))
            codes = rest
        codes = net.concat([net.op("Unsqueeze", part, squeezeDims=[3]) for part in parts], 3)
    wide = net.reshape(codes, 0, 0, blocks, size)
    scale = net.op("Unsqueeze", net.gather(net.const(table.scale), indices), squeezeDims=[3])
    out = net.multiply(net.add(wide, net.const(-float(1 << (table.width - 1)))), scale)
    if table.offset is not None:
        out = net.add(out, net.op("Unsqueeze", net.gather(net.const(table.offset), indices), squeezeDims=[3]))
    return net.reshape(out, 0, 0, table.cols)


__all__ = ["Arithmetic", "compressed_rows"]
