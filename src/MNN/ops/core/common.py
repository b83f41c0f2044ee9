"""What operator families share: dtype and shape agreement, and what a builder that knows the graph offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.core.open_numbers import is_open

RunGraph = Callable[[Graph, Mapping[Value, np.ndarray]], list[np.ndarray]]
"""Runs a subgraph on numbers for its inputs; handed to eager operators that declare ``needs_runner``."""


class GraphBuilder(Protocol):
    """What a builder that knows the graph offers on top of :class:`Builder`."""

    def inline(self, graph: Graph, bindings: Mapping[Value, Tensor]) -> list[Tensor]:
        """Lowers a subgraph in place, with its inputs bound, and gives its outputs."""
        ...

    def exceeds(self, tensor: Tensor, bound: int, why: str = "an operand") -> bool:
        """Whether a number exceeds a bound; other numbers of which the same is true have the same plan."""
        ...

    def lookup(self, value: Value) -> Tensor:
        """The tensor of a value of the graph."""
        ...


def exceeds(b: Builder, tensor: Tensor, bound: int, why: str) -> bool:
    """Whether a number exceeds a bound: see :meth:`GraphBuilder.exceeds`; other builders ask for the number."""
    if hasattr(b, "exceeds"):
        return cast("GraphBuilder", b).exceeds(tensor, bound, why)
    return b.ints(tensor, why)[0] > bound


def numbers(b: Builder, sizes: int | Sequence[int], dtype: DType) -> Tensor:
    """A constant of integers, which may be open sizes: one number, or a list of them."""
    listed = [sizes] if isinstance(sizes, int) else list(sizes)
    data = np.array(sizes, np.int64)
    return b.open_numbers.tensor(listed, data.shape, dtype) if is_open(listed) else b.const(data, dtype)


def agree(b: Builder, *tensors: Tensor) -> list[Tensor]:
    """The operands cast to one dtype.

    Operands of an ONNX model agree already. Files of the official engine mix: booleans count as numbers there, and
    32-bit indices meet 64-bit ones.
    """
    dtypes = list(dict.fromkeys(t.dtype for t in tensors))
    if len(dtypes) == 1:
        return list(tensors)
    if DType.STR in dtypes:
        raise ShapeError(
            f"{b.where}: strings cannot be combined with {[d.value for d in dtypes if d is not DType.STR]}"
        )
    floats = [d for d in dtypes if d.is_float]
    if len(floats) == 1:
        common = floats[0]
    elif floats:
        common = DType.F64 if DType.F64 in floats else DType.F32
    else:
        common = DType.of(np.result_type(*[d.numpy for d in dtypes]))
    return [b.cast(t, common) for t in tensors]
