"""The graph that a TensorFlow Lite model becomes, as handlers see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from MNN.frontends.common.graph_builder import GraphBuilder, ModelState
from MNN.frontends.common.states import Memory
from MNN.frontends.tensorflow.handles import Handle
from MNN.frontends.tflite.file import Quantization, TfliteFile
from MNN.frontends.tflite.node import TfliteNode
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.quant import FEWEST_ROW_BITS, QuantizedArray
from MNN.ops.core.datatypes import data_type

BOUNDS = {"RELU": (0.0, float("inf")), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
_HALF = np.float32(0.5 + 2**-14)
"""And what a mean of floats may be below half a step that its numbers make exactly."""
CHANNELS_FIRST = {rank: [0, rank - 1, *range(1, rank - 1)] for rank in (3, 4, 5)}
CHANNELS_LAST = {rank: [0, *range(2, rank), 1] for rank in (3, 4, 5)}


@dataclass
class ModelInfo(ModelState):
    """What all (sub)graphs of a model share: the file, and what it keeps from run to run."""

    file: TfliteFile = field(default_factory=lambda: TfliteFile("", [], []))
    memory: Memory = field(default_factory=Memory)
    inline: Callable[[Context, int, Sequence[Value | None]], list[Value]] | None = None


class Context(GraphBuilder):
    """Quantised tensors are integers in the graph, as the file has them. Handlers work on the numbers that these stand
    for (:meth:`real`) or on the integers themselves; what a handler gives is quantised for it where need be."""

    model: ModelInfo

    def inline(self, subgraph: int, inputs: Sequence[Value | None]) -> list[Value]:
        """Converts a subgraph into this graph, with its inputs bound, and gives its outputs."""
        assert self.model.inline is not None
        return self.model.inline(self, subgraph, inputs)

    def bind(self, names: Sequence[str], values: Sequence[Value], where: str) -> None:
        """As in :class:`GraphBuilder`; what is no tensor is known by the name alone."""
        handles = {name: v for name, v in zip(names, values, strict=False) if isinstance(v, Handle)}
        super().bind(["" if name in handles else name for name in names], values, where)
        self.scope.update(handles)

    def remember(self, node: TfliteNode, index: int, value: Value) -> None:
        """Makes ``value`` what an operand, if it is a variable of the model, begins the next run with."""
        name = node.variables[index] if index < len(node.variables) else None
        tensor = node.tensors_in[index] if name is not None else None
        if name is None or tensor is None:
            return
        if self.model.memory.branches:
            raise node.unsupported("a layer's state that changes within a branch or a loop")
        self.model.memory.assign(name, self.stored(value, node.quantization(index), tensor.dtype))

    def nested(self, name: str) -> Context:
        """A context for a graph inside of this one, which sees its values."""
        return Context(self.model, Graph(name=name), self)

    # -- quantised numbers --------------------------------------------------------------------------------------------

    def real(self, node: TfliteNode, index: int) -> Value:
        """An operand as floats (or as what it is, where it is not quantised)."""
        return self.dequantized(node.input(index), node.quantization(index))

    def maybe_real(self, node: TfliteNode, index: int) -> Value | None:
        """As :meth:`real`, None for an operand that is left out."""
        return None if node.optional(index) is None else self.real(node, index)

    def dequantized(self, value: Value, q: Quantization | None, order: Sequence[int] | None = None) -> Value:
        """Floats for integers. ``order``: how the axes have been permuted since the file."""
        if q is None:
            return value
        if q.block:
            return self.low_bits(value, q)
        axis = q.axis if order is None or len(q.scale) == 1 else list(order).index(q.axis)
        scale, zero = self._parameters(q, value.dtype or DType.I8)
        return self.op("DequantizeLinear", value, scale, zero, axis=axis)

    def low_bits(self, value: Value, q: Quantization) -> Value:
        """Constant integers of 8 bits or less in blocks or rows as weights that stay compressed."""
        data = value.data
        assert isinstance(data, np.ndarray)
        shape, shift = tuple(data.shape), 128 if data.dtype == np.uint8 else 0
        rows = (data.reshape(shape[0], -1).astype(np.int16) - shift).astype(np.int8)
        lines = q.scale.shape if q.block else (len(q.scale), 1)
        whole = (shape[0], lines[1])
        scale = np.ascontiguousarray(np.broadcast_to(q.scale.reshape(lines), whole), np.float32)
        zero = np.broadcast_to(q.zero.reshape(lines) - shift, whole)
        offset = (-scale * zero).astype(np.float32) if zero.any() else None
        return self.quantized(replace(QuantizedArray.of(rows, scale, offset, 8, shape), row_bits=FEWEST_ROW_BITS))

    def stored(self, value: Value, q: Quantization | None, dtype: DType | None) -> Value:
        """Integers for floats, as a result is to be stored; those that are it already stay."""
        if q is None or dtype is None or value.dtype is dtype:
            return value
        scale, zero = self._parameters(q, dtype)
        return self.op("QuantizeLinear", value, scale, zero, axis=q.axis)

    def mean_of_steps(self, node: TfliteNode, x: Value, order: Sequence[int], mean: Callable[[Value], Value]) -> Value:
        """The floats that ``mean`` gives of an operand ``x``, permuted to ``order``: a mean with any weights.

        Between integers of one scale and zero point it is of the integers as they are stored; half a step is rounded
        away from zero (:data:`_HALF`), as kernels of LiteRT do.
        """
        given, made, x = node.quantization(0), node.result_quantization(), self.permuted(x, order)
        if given is None or made is None or not given.same(made) or x.dtype is None:
            return mean(self.dequantized(x, given, order))
        found = mean(self.cast(x, DType.F32))
        size = self.unary("FLOOR", self.binary("ADD", self.unary("ABS", found), self.const(_HALF)))
        whole = self.binary("MUL", self.unary("SIGN", found), size)
        return self.dequantized(self.cast(whole, x.dtype), given)

    def _parameters(self, q: Quantization, dtype: DType) -> tuple[Value, Value]:
        single = len(q.scale) == 1
        scale, zero = q.scale.reshape(-1), q.zero.reshape(-1)
        scale, zero = (scale[0], zero[0]) if single else (scale, zero)
        return self.const(np.asarray(scale, np.float32)), self.const(np.asarray(zero), dtype)

    # -- what many handlers do ----------------------------------------------------------------------------------------

    def permuted(self, value: Value, order: Sequence[int]) -> Value:
        """Axes in another order; a constant is reordered at once."""
        if list(order) == list(range(len(order))):
            return value
        if isinstance(value.data, np.ndarray):
            return self.const(np.ascontiguousarray(value.data.transpose(order)))
        return self.op("Permute", value, dims=list(order))

    def image(self, node: TfliteNode, index: int) -> Value:
        """An operand ``[N, spatial..., C]`` as the floats of ``[N, C, spatial...]``."""
        order = self.channels_first(node, index)
        return self.dequantized(self.permuted(node.input(index), order), node.quantization(index), order)

    def channels_first(self, node: TfliteNode, index: int) -> list[int]:
        """The order that makes ``[N, C, spatial...]`` of an operand ``[N, spatial..., C]``."""
        rank = node.rank(index)
        if rank not in CHANNELS_FIRST:
            raise node.malformed(f"its input has {rank} dimensions")
        return CHANNELS_FIRST[rank]

    def channels_last(self, value: Value, rank: int = 4) -> Value:
        """``[N, C, spatial...]`` to ``[N, spatial..., C]``."""
        return self.permuted(value, CHANNELS_LAST[rank])

    def activated(self, node: TfliteNode, value: Value) -> Value:
        """The activation that an operator's options name, applied."""
        name = node.option("fused_activation_function", "NONE")
        if name == "NONE":
            return value
        if name == "TANH":
            return self.op("TanH", value)
        bounds = BOUNDS.get(str(name))
        if bounds is None:
            raise node.unsupported(f"the activation {name}")
        if bounds[1] == float("inf"):
            return self.op("ReLU", value)
        return self.op("ReLU6", value, minValue=bounds[0], maxValue=bounds[1])

    def binary(self, kind: str, x: Value, y: Value) -> Value:
        return self.op("BinaryOp", x, y, opType=kind)

    def unary(self, kind: str, x: Value) -> Value:
        return self.op("UnaryOp", x, opType=kind)

    def cast(self, value: Value, dtype: DType) -> Value:
        """The numbers of a value in another type."""
        return value if value.dtype is dtype else self.op("Cast", value, dstT=data_type(dtype))

    def known_ints(self, node: TfliteNode, index: int, what: str) -> list[int]:
        """A constant operand as a list of ints. Raises :class:`UnsupportedError` when it is computed."""
        found = self.constant_ints(node.optional(index))
        if found is None:
            raise node.unsupported(f"{what} that are not constant")
        return found
