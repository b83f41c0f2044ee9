"""Small helpers that operator families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.prims import Tensor
from MNN.ir.shape import broadcast
from MNN.ops.builder import Builder

RunGraph = Callable[[Graph, Mapping[Value, np.ndarray]], list[np.ndarray]]
"""Runs a subgraph on numbers for its inputs; handed to eager operators that declare ``needs_runner``."""


class GraphBuilder(Protocol):
    """What a builder that knows the graph offers on top of :class:`Builder`."""

    def inline(self, graph: Graph, bindings: Mapping[Value, Tensor]) -> list[Tensor]:
        """Lowers a subgraph in place, with its inputs bound, and gives its outputs."""
        ...

    def lookup(self, value: Value) -> Tensor:
        """The tensor of a value of the graph."""
        ...


def need(b: Builder, inputs: Sequence[Tensor | None], index: int, what: str = "") -> Tensor:
    """A required operand. Raises :class:`ShapeError` naming the node when it is left out."""
    tensor = inputs[index] if index < len(inputs) else None
    if tensor is None:
        raise ShapeError(f"{b.where}: {what or f'input {index}'} is missing")
    return tensor


def optional(inputs: Sequence[Tensor | None], index: int) -> Tensor | None:
    """An operand, or None when it is left out."""
    return inputs[index] if index < len(inputs) else None


def common_shape(b: Builder, *tensors: Tensor) -> tuple[int, ...]:
    """The shape that the operands broadcast to."""
    return broadcast(*(t.shape for t in tensors), where=b.where)


def same_dtype(b: Builder, *tensors: Tensor) -> DType:
    """The operands' common dtype. Raises :class:`ShapeError` when they differ."""
    if any(t.dtype is not tensors[0].dtype for t in tensors):
        raise ShapeError(f"{b.where}: its operands have dtypes {[t.dtype.value for t in tensors]}, expected one dtype")
    return tensors[0].dtype


def in_f32(b: Builder, x: Tensor) -> Tensor:
    """``x`` in f32 when it is f16 or bf16: sums and transcendental functions are computed wide."""
    return b.cast(x, DType.F32) if x.dtype in (DType.F16, DType.BF16) else x
