"""Operators that compute element by element, as bodies of loops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from MNN.errors import MNNError
from MNN.expr.types import storable
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.prims import Map, Tensor
from MNN.ir.scalar import Body, BodyBuilder

if TYPE_CHECKING:
    from MNN.ops.core.base import Operator


class Function:
    """An operator with its attributes on operands of certain element types. Equal ones are one object."""

    __slots__ = ("alone", "body", "eager", "kind")

    def __init__(self, body: Body) -> None:
        self.body = body
        self.kind = body.result_dtypes[0]
        self.alone: Callable[..., Any] | None = None
        """What numpy has for it and computes as fast as a loop does, without its warnings."""
        self.eager: Callable[..., Any] | None = None
        """What numpy has for it, without its warnings."""


@functools.cache
def _operators() -> dict[str, Operator]:
    from MNN.ops.core.base import operators  # not needed where Vars are only given to a model

    return operators()


@functools.cache
def is_function(op: str) -> bool:
    """Whether an operator's result at a place depends on its operands there and nothing else."""
    found = _operators().get(op)
    return found is not None and (found.elementwise or found.broadcasts)


def function_of(op: str, attrs: dict[str, object], kinds: tuple[DType, ...]) -> Function | None:
    """The function that an operator is (:func:`is_function`), if a Var can hold its results; None for operands or
    attributes that do not fit."""
    try:
        return _lowered(op, tuple(attrs.items()), kinds)
    except TypeError:  # an attribute that is a list
        return None


@functools.lru_cache(maxsize=4096)
def _lowered(op: str, attrs: tuple[tuple[str, object], ...], kinds: tuple[DType, ...]) -> Function | None:
    from MNN.ops.core.builder import Builder, NeedValue

    operator = _operators()[op]
    node = Node(operator.name, "", [Value(f"in{i}") for i in range(len(kinds))], [Value("out")], dict(attrs))
    operands = [Tensor(kind, ()) for kind in kinds]
    builder = Builder()
    builder.where = operator.name
    try:
        result = next(iter(operator.lower(builder, node, operands)))
    except (MNNError, NeedValue):
        return None  # whoever computes it says what is wrong
    maps = [prim for prim in builder.prims if isinstance(prim, Map)]
    return _function(maps, operands, result) if len(maps) == len(builder.prims) else None


def _function(prims: Sequence[Map], operands: Sequence[Tensor], result: Tensor) -> Function | None:
    from MNN.compiler.bodies import fused_body

    if result.const is not None or result.shape:
        return None
    body = fused_body(prims, operands, [result])
    b = BodyBuilder()
    (value,) = b.inline(body, [b.arg(kind) for kind in body.args])
    return Function(b.build(b.cast(value, storable(result.dtype))))


__all__ = ["Function", "function_of", "is_function"]
