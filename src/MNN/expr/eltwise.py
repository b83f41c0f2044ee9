"""Elementwise functions of two operands with weights, as Caffe has them."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from MNN.errors import ShapeError
from MNN.expr import math
from MNN.expr.var import Var


def _weighted(x: ArrayLike, y: ArrayLike, coeff: Sequence[float]) -> tuple[ArrayLike, ArrayLike]:
    weights = [float(c) for c in coeff]
    if not weights:
        return x, y
    if len(weights) != 2:
        raise ShapeError(f"coeff must hold one number per operand (2), found {len(weights)}")
    return math.multiply(x, weights[0]), math.multiply(y, weights[1])


def eltwise_sum(x: ArrayLike, y: ArrayLike, coeff: Sequence[float] = ()) -> Var:
    """``x * coeff[0] + y * coeff[1]``; ones by default."""
    return math.add(*_weighted(x, y, coeff))


def eltwise_sub(x: ArrayLike, y: ArrayLike, coeff: Sequence[float] = ()) -> Var:
    """``x * coeff[0] - y * coeff[1]``; ones by default."""
    return math.subtract(*_weighted(x, y, coeff))


def eltwise_prod(x: ArrayLike, y: ArrayLike, coeff: Sequence[float] = ()) -> Var:
    """The product of both, each times its weight."""
    return math.multiply(*_weighted(x, y, coeff))


def eltwise_max(x: ArrayLike, y: ArrayLike, coeff: Sequence[float] = ()) -> Var:
    """The larger of both, each times its weight."""
    return math.maximum(*_weighted(x, y, coeff))
