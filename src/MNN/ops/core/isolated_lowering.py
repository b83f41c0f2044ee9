"""Lowering one node by itself, to learn what its outputs look like or what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements, static
from MNN.ops.core.base import EagerOperator, lower_node, operators
from MNN.ops.core.builder import Builder, NeedValue

Numbers = Callable[[Value], "list[int] | None"]
SMALL = 64
"""Constants of more elements are there as shapes only, unless an operator asks for their numbers."""
LARGEST = 1 << 28
"""Elements of operands above which nothing is tried."""
TABLE = 1 << 20
"""Numbers of a table that may be made for a trial."""


class Trial(Builder):
    """A builder that makes nothing large."""

    def require(self, count: int, what: str) -> None:
        if count > TABLE:
            raise NeedValue(Tensor(DType.I64, ()), f"{self.where}: {what} would take {count} numbers")


def lowered(node: Node, numbers: Numbers) -> list[Tensor] | None:
    """The outputs of a node whose operands all have a known element type and sizes; None where too little is known, or
    their shapes depend on numbers that are not.

    ``numbers`` tells those of small integer operands, as far as they follow. Raises :class:`MNNError` for operands that
    do not fit.
    """
    op = operators().get(node.op)
    if op is None or isinstance(op, EagerOperator) or "::" in node.op or any(True for _ in node.subgraphs()):
        return None  # "::": operators of users, whose code is not called without need
    for every in (False, True):
        operands = [None if v is None else _stand_in(v, numbers, every) for v in node.inputs]
        if any(t is None and v is not None for t, v in zip(operands, node.inputs, strict=True)):
            return None
        try:
            return _outputs(node, operands)
        except NeedValue:
            continue
    return None


def _stand_in(value: Value, numbers: Numbers, every: bool) -> Tensor | None:
    if isinstance(value.data, np.ndarray) and (value.data.size <= SMALL or (every and value.data.size <= TABLE)):
        return Tensor(DType.of(value.data), tuple(value.data.shape), const=value.data)
    shape = static(value.shape)
    if value.dtype is None or shape is None or elements(shape) > LARGEST or min(shape, default=0) < 0:
        return None
    found = numbers(value) if not value.is_const and value.dtype.is_int else None
    if found is not None and len(found) == elements(shape):
        return Tensor(value.dtype, shape, const=np.array(found, value.dtype.numpy).reshape(shape))
    return Tensor(value.dtype, shape, name=value.name)


def _outputs(node: Node, operands: Sequence[Tensor | None]) -> list[Tensor]:
    b = Trial()
    b.where = f"{node.op} '{node.name}'"
    return lower_node(b, node, operands)
