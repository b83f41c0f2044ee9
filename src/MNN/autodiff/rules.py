"""The registry that files of this room fill: a rule for each kind of primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from MNN.discovery import import_modules
from MNN.ir.prims import Expand, Prim, Tensor
from MNN.ops.core.builder import Builder

Cotangents = Sequence[Tensor | None]
"""For each output, the gradient of what is differentiated with regard to it; None where that is zero."""


class Asked(IntEnum):
    """Whether the gradient of a tensor is asked for."""

    NOT = 0
    ON_THE_WAY = 1
    """For the sake of what the tensor is computed from alone."""
    ITSELF = 2


Wanted = Sequence[Asked]
"""For each input, whether its gradient is asked for."""
Rule = Callable[[Builder, Any, Cotangents, Wanted], Sequence["Tensor | None"]]
"""Gives for each input its gradient, in its shape and element type; None where that is zero or not wanted."""

_RULES: dict[type[Prim], Rule] = {}
R = TypeVar("R", bound=Rule)


def rule(*kinds: type[Prim]) -> Callable[[R], R]:
    """Decorator: the function is the rule of these primitives."""

    def add(fn: R) -> R:
        for kind in kinds:
            _RULES[kind] = fn
        return fn

    return add


def rule_of(kind: type[Prim]) -> Rule:
    """The rule of a kind of primitive; the files that hold them are imported when the first one is asked for."""
    if not _RULES:
        for _ in import_modules("MNN.autodiff.primitives"):
            pass
    return _RULES[kind]


def sum_to(b: Builder, x: Tensor, shape: Sequence[int]) -> Tensor:
    """The adjoint of broadcasting ``shape`` to that of ``x``: sums over what was repeated."""
    added = x.rank - len(shape)
    axes = [i for i, n in enumerate(x.shape) if i < added or (shape[i - added] == 1 and n != 1)]
    return b.reshape(b.reduce("sum", x, axes) if axes else x, shape)


def narrow(x: Tensor) -> Tensor:
    """What a tensor was expanded from. Maps broadcast by themselves, and may be fused with what made it then, such as
    the sum of a row."""
    return x.producer.inputs[0] if isinstance(x.producer, Expand) else x


def zeros(b: Builder, like: Tensor) -> Tensor:
    """Zeros in the shape and element type of a tensor."""
    return b.expand(b.like(0, like), like.shape)


__all__ = ["Asked", "Cotangents", "Rule", "Wanted", "narrow", "rule", "rule_of", "sum_to", "zeros"]
