"""Softmax and its relatives along one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.ir import prims as p
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import normalize_axis
from MNN.ir.traced import room_of
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, wide


def shift(b: Builder, x: Tensor, axis: int) -> Tensor:
    """The largest along ``axis``, to be taken off before an exponential and to fall out of the result again: it has no
    gradient, which would be rounding alone."""
    axis = normalize_axis(axis, x.rank, b.where)
    if room_of(x.shape[axis]) == 1:
        return x
    shape = tuple(1 if i == axis else d for i, d in enumerate(x.shape))
    return b.emit(p.Reduce([x], op="max", axes=(axis,), shift=True), (x.dtype, shape))[0]


def softmax(b: Builder, x: Tensor, axis: int) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` in f32 at least; the result is as wide as that."""
    x = wide(b, x)
    top = shift(b, x, axis)
    powers = b.map(lambda s, a, m: s("exp", s("sub", a, m)), x, top)
    return b.op("div", powers, b.reduce("sum", powers, [axis]))


@register("Softmax")
class Softmax(Operator):
    """Softmax along ``axis``."""

    keeps_shape = True
    repeats = True
    attributes = {"axis": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        axis = normalize_axis(self.int_attr(node, "axis"), x.rank, b.where)
        return [b.cast(softmax(b, x, axis), x.dtype) if x.rank else b.like(1, x)]


@register("LogSoftmax")
class LogSoftmax(Operator):
    """``x - max - log(sum(exp(x - max)))`` along ``axis``."""

    keeps_shape = True
    in_mnn = False
    attributes = {"axis": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        axis = normalize_axis(self.int_attr(node, "axis"), x.rank, b.where)
        return [b.cast(log_softmax(b, x, axis), x.dtype)]


def log_softmax(b: Builder, x: Tensor, axis: int) -> Tensor:
    """Logarithm of the softmax, without its underflow."""
    x = wide(b, x)
    shifted = b.op("sub", x, shift(b, x, axis))
    return b.map(lambda s, a, t: s("sub", a, s("log", t)), shifted, b.reduce("sum", b.op("exp", shifted), [axis]))


@register("Hardmax")
class Hardmax(Operator):
    """1 at the first maximum along ``axis``, 0 elsewhere."""

    keeps_shape = True
    in_mnn = False
    attributes = {"axis": -1}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        axis = normalize_axis(self.int_attr(node, "axis"), x.rank, b.where)
        line = [1] * x.rank
        line[axis] = x.shape[axis]
        places = b.const(np.arange(x.shape[axis]).reshape(line))
        return [b.map(lambda s, a, p: s.cast(s("eq", a, p), x.dtype), b.argreduce("argmax", x, axis), places)]
