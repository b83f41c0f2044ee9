"""Constant weights of a graph are replaced by integers with scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from MNN.errors import MNNError
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.schema.weight_encode import quantize_rows, rounded
from MNN.weight_quantization.half_quadratic import refined_minimum

_CONVOLUTIONS = ("Convolution", "ConvolutionDepthwise")


@dataclass(frozen=True)
class WeightQuantization:
    """``bits``: 2 to 8. ``block``: input channels that share a scale; 0 is one scale an output, and so are weights
    whose channels do not divide into blocks. ``asymmetric``: integers between the smallest and the largest weight and
    not between the largest one and its negative. ``half_quadratic``: where asymmetric integers begin is searched for,
    see :mod:`MNN.weight_quantization.half_quadratic`."""

    bits: int
    block: int = 0
    asymmetric: bool = False
    half_quadratic: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 8:
            raise MNNError(f"weights of {self.bits} bits; expected 2 to 8")
        if self.block < 0:
            raise MNNError(f"blocks of {self.block} channels; expected 0 (one scale an output) or more")
        if self.half_quadratic and not self.asymmetric:
            raise MNNError("half-quadratic quantisation moves where integers begin, which asymmetric ones alone allow")


Layers = Mapping[str, WeightQuantization | None]
"""What is said of single layers, by name; None: their weights stay as they are."""


@dataclass(frozen=True)
class QuantizedLayer:
    """What was done to a layer with weights of ``shape`` (outputs first)."""

    name: str
    how: WeightQuantization
    shape: tuple[int, ...]


def layer_names(graph: Graph) -> dict[str, str]:
    """Node names by the names of what they give: names of layers that passes may take away."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        for _, inner in node.subgraphs():
            found.update(layer_names(inner))
        found.update({v.name: node.name for v in node.outputs})
    return found


def quantize_weights(
    graph: Graph,
    how: WeightQuantization | None,
    layers: Layers | None = None,
    earlier: Mapping[str, str] | None = None,
) -> list[QuantizedLayer]:
    """Replaces constant f32 weights, and tells of which layers; ``how`` is for those that ``layers`` does not name.

    A layer goes by the name of its node or of what it gives, also of what it gave before passes ran (``earlier``, see
    :func:`layer_names`). Raises :class:`MNNError` for weights that are not finite and for names that are no layer's.
    """
    before = {**(earlier or {}), **layer_names(graph)}
    given = dict(layers or {})
    unknown = sorted(given.keys() - before.keys() - set(before.values()))
    if unknown:
        listed = ", ".join(f"'{name}'" for name in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise MNNError(f"the model has no layer {listed}; without such a file there, one with all names is written")
    quantizer = _Quantizer(how, {**{before.get(name, name): what for name, what in given.items()}, **given})
    quantizer.graph(graph)
    return quantizer.found


class _Quantizer:
    def __init__(self, how: WeightQuantization | None, layers: Layers) -> None:
        self.how = how
        self.layers = layers
        self.found: list[QuantizedLayer] = []
        self.done: dict[tuple[Value, bool, WeightQuantization], Value] = {}
        """Weights may have several users."""

    def graph(self, graph: Graph) -> None:
        for node in graph.nodes:
            for _, inner in node.subgraphs():
                self.graph(inner)
            self._node(node, self._wanted(node))

    def _wanted(self, node: Node) -> WeightQuantization | None:
        named = [n for n in (node.name, *(v.name for v in node.outputs)) if n in self.layers]
        return self.layers[named[0]] if named else self.how

    def _node(self, node: Node, how: WeightQuantization | None) -> None:
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        data = None if weight is None else weight.data
        if how is None or weight is None or not isinstance(data, np.ndarray) or data.dtype != np.float32:
            return
        product = node.op == "MatMul" and data.ndim == 2
        if not data.size or not (product or node.op in _CONVOLUTIONS):
            return
        turned = product and not node.attrs.get("transposeB")
        made = self._made(node, weight, data.T if turned else data, turned, how)
        node.inputs[1] = made
        if product:
            node.attrs["transposeB"] = True
        self.found.append(QuantizedLayer(node.name, how, tuple(int(d) for d in made.shape or () if isinstance(d, int))))

    def _made(self, node: Node, weight: Value, data: np.ndarray, turned: bool, how: WeightQuantization) -> Value:
        known = self.done.get((weight, turned, how))
        if known is None:
            try:
                array = _quantized(np.ascontiguousarray(data), how)
            except MNNError as error:
                raise MNNError(f"{node.op} '{node.name}': {error}") from error
            known = Value(weight.name, weight.dtype, array.shape, array)
            self.done[weight, turned, how] = known
        return known


def _quantized(data: np.ndarray, how: WeightQuantization) -> QuantizedArray:
    rows, channels = data.shape[0], data.shape[1]
    blocks = channels // how.block if how.block and channels % how.block == 0 else 1
    lines = data.reshape(rows * blocks, -1)
    values, alpha = quantize_rows(lines, how.bits, how.asymmetric)
    offset = None
    scale = alpha
    if how.asymmetric:
        least, scale = alpha[0::2], alpha[1::2]
        if how.half_quadratic:
            least = refined_minimum(lines, least, scale, how.bits)
            values = rounded(lines, least, scale, how.bits)
        offset = (least + scale * np.float32(1 << (how.bits - 1))).reshape(rows, blocks)
    flat = np.ascontiguousarray(values.reshape(rows, -1))
    return QuantizedArray.of(flat, scale.reshape(rows, blocks), offset, how.bits, data.shape)
