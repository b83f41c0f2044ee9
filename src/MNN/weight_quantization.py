"""Weights of convolutions and matrix products as 2- to 8-bit integers with scales: smaller files, the same network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.errors import MNNError
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.schema.weight_encode import quantize_rows

_CONVOLUTIONS = ("Convolution", "ConvolutionDepthwise")


@dataclass(frozen=True)
class WeightQuantization:
    """``bits``: 2 to 8. ``block``: input channels that share a scale; 0 is one scale an output, and so are weights
    whose channels do not divide into blocks. ``asymmetric``: integers between the smallest and the largest weight and
    not between the largest one and its negative."""

    bits: int
    block: int = 0
    asymmetric: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 8:
            raise MNNError(f"weights of {self.bits} bits; expected 2 to 8")
        if self.block < 0:
            raise MNNError(f"blocks of {self.block} channels; expected 0 (one scale an output) or more")


def quantize_weights(graph: Graph, how: WeightQuantization) -> int:
    """Replaces constant f32 weights; gives how many. Raises :class:`MNNError` for weights that are not finite."""
    return _Quantizer(how).graph(graph)


class _Quantizer:
    def __init__(self, how: WeightQuantization) -> None:
        self.how = how
        self.done: dict[tuple[Value, bool], Value] = {}
        """Weights may have several users."""

    def graph(self, graph: Graph) -> int:
        count = 0
        for node in graph.nodes:
            count += sum(self.graph(inner) for _, inner in node.subgraphs())
            count += int(self._node(node))
        return count

    def _node(self, node: Node) -> bool:
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        data = None if weight is None else weight.data
        if weight is None or not isinstance(data, np.ndarray) or data.dtype != np.float32 or not data.size:
            return False
        if node.op in _CONVOLUTIONS:
            node.inputs[1] = self._made(node, weight, data, turned=False)
            return True
        if node.op == "MatMul" and data.ndim == 2:
            turned = not node.attrs.get("transposeB")
            node.inputs[1] = self._made(node, weight, data.T if turned else data, turned)
            node.attrs["transposeB"] = True
            return True
        return False

    def _made(self, node: Node, weight: Value, data: np.ndarray, turned: bool) -> Value:
        known = self.done.get((weight, turned))
        if known is None:
            try:
                array = self._quantized(np.ascontiguousarray(data))
            except MNNError as error:
                raise MNNError(f"{node.op} '{node.name}': {error}") from error
            known = Value(weight.name, weight.dtype, array.shape, array)
            self.done[weight, turned] = known
        return known

    def _quantized(self, data: np.ndarray) -> QuantizedArray:
        rows, channels = data.shape[0], data.shape[1]
        block = self.how.block
        blocks = channels // block if block and channels % block == 0 else 1
        values, alpha = quantize_rows(data.reshape(rows * blocks, -1), self.how.bits, self.how.asymmetric)
        offset = None
        scale = alpha
        if self.how.asymmetric:
            least, scale = alpha[0::2], alpha[1::2]
            offset = (least + scale * np.float32(1 << (self.how.bits - 1))).reshape(rows, blocks)
        flat = np.ascontiguousarray(values.reshape(rows, -1))
        return QuantizedArray.of(flat, scale.reshape(rows, blocks), offset, self.how.bits, data.shape)
