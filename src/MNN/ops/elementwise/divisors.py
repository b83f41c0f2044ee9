"""Divisors of integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import broadcast
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand


@register("GreatestCommonDivisor")
class GreatestCommonDivisor(Operator):
    """Of two integers, whose shapes broadcast; ``|x|`` of ``x`` and 0. Euclid's steps are as many as the numbers ask
    for, so numpy takes them."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, y = operand(b, inputs, 0), operand(b, inputs, 1)
        if x.dtype is not y.dtype or x.dtype.is_float or x.dtype.numpy.kind not in "iu":
            raise ShapeError(f"{b.where}: needs integers of one type, found {x} and {y}")
        shape = broadcast(x.shape, y.shape, where=b.where)
        return b.host("gcd", lambda a: [np.asarray(np.gcd(*a))], [x, y], (x.dtype, shape))
