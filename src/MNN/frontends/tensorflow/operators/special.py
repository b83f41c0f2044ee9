"""Gamma, zeta, Bessel and normal functions, which are computed in f64."""

from __future__ import annotations

import math
from collections.abc import Callable

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, cast, compare, select, unary
from MNN.frontends.common.functions import bessel, gamma, incomplete, normal, zeta
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_OF_ONE: dict[str, Callable[[Context, Value], Value]] = {
    "Lgamma": gamma.lgamma,
    "Digamma": gamma.digamma,
    "Ndtri": normal.quantile,
    "BesselI0": lambda ctx, x: bessel.modified(ctx, x, 0),
    "BesselI0e": lambda ctx, x: bessel.modified(ctx, x, 0, scaled=True),
    "BesselI1": lambda ctx, x: bessel.modified(ctx, x, 1),
    "BesselI1e": lambda ctx, x: bessel.modified(ctx, x, 1, scaled=True),
    "BesselJ0": lambda ctx, x: bessel.first_kind(ctx, x, 0),
    "BesselJ1": lambda ctx, x: bessel.first_kind(ctx, x, 1),
    "BesselY0": lambda ctx, x: bessel.second_kind(ctx, x, 0),
    "BesselY1": lambda ctx, x: bessel.second_kind(ctx, x, 1),
    "BesselK0": lambda ctx, x: bessel.modified_second_kind(ctx, x, 0),
    "BesselK0e": lambda ctx, x: bessel.modified_second_kind(ctx, x, 0, scaled=True),
    "BesselK1": lambda ctx, x: bessel.modified_second_kind(ctx, x, 1),
    "BesselK1e": lambda ctx, x: bessel.modified_second_kind(ctx, x, 1, scaled=True),
}


def _wide(ctx: Context, node: TfNode, x: Value) -> tuple[Value, DType]:
    """In f64, and the type of the result."""
    if x.dtype is None or not x.dtype.is_float:
        raise FormatError(f"{node.where}: an operand of type {x.dtype}, expected floats")
    return cast(ctx, x, DType.F64), x.dtype


@tf_op(*_OF_ONE)
def of_one(ctx: Context, node: TfNode) -> Value:
    wide, kind = _wide(ctx, node, node.input(0))
    return cast(ctx, _OF_ONE[node.op](ctx, wide), kind)


@tf_op("Igamma", "Igammac")
def incomplete_gamma(ctx: Context, node: TfNode) -> Value:
    (a, kind), (x, _) = (_wide(ctx, node, v) for v in node.tensors(0, 2))
    return cast(ctx, incomplete.gamma(ctx, a, x, node.op == "Igammac"), kind)


@tf_op("Zeta")
def hurwitz(ctx: Context, node: TfNode) -> Value:
    (s, kind), (base, _) = (_wide(ctx, node, x) for x in node.tensors(0, 2))
    return cast(ctx, zeta.zeta(ctx, s, base), kind)


@tf_op("Polygamma")
def polygamma(ctx: Context, node: TfNode) -> Value:
    """Of orders that are a tensor: digamma where they are 0, ``(-1)^(n+1) n! zeta(n + 1, x)`` above, else NaN."""
    (order, kind), (x, _) = (_wide(ctx, node, v) for v in node.tensors(0, 2))
    size = unary(ctx, "EXP", gamma.lgamma(ctx, binary(ctx, "ADD", order, 1.0)))
    found = binary(ctx, "MUL", size, zeta.zeta(ctx, binary(ctx, "ADD", order, 1.0), x))
    even = compare(ctx, "EQUAL", binary(ctx, "FLOORMOD", order, 2.0), 0.0)
    found = select(ctx, even, unary(ctx, "NEG", found), found)
    known = binary(ctx, "MUL", gamma.whole(ctx, order), compare(ctx, "GREATER_EQUAL", order, 0.0))
    found = select(ctx, known, found, math.nan)
    return cast(ctx, select(ctx, compare(ctx, "EQUAL", order, 0.0), gamma.digamma(ctx, x), found), kind)
