"""Sorting, and looking for places among sorted numbers."""

from __future__ import annotations

import numpy as np

from MNN.frontends.torch.aten.slicing import END, slice_
from MNN.frontends.torch.builder import Operand, TorchBuilder
from MNN.frontends.torch.numbers import Int
from MNN.frontends.torch.registry import aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def _axis(ctx: TorchBuilder, axis: int) -> Value:
    return ctx.const(np.int32(axis))


@aten("isin")
def isin(
    ctx: TorchBuilder, elements: Operand, test_elements: Operand, assume_unique: bool = False, invert: bool = False
) -> Value:
    x, y = ctx.together(elements, test_elements)
    flat = ctx.op("Reshape", y, ctx.const([-1]))
    same = ctx.op("BinaryOp", ctx.unsqueeze(x, ctx.rank_of(x)), flat, opType="EQUAL")
    found = ctx.op("Reduction", ctx.cast(same, DType.I32), operation="MAXIMUM", dim=[ctx.rank_of(x)])
    return ctx.op("Not", ctx.cast(found, DType.BOOL)) if invert else ctx.cast(found, DType.BOOL)


@aten("topk")
def topk(ctx: TorchBuilder, x: Value, k: Int, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Value]:
    if ctx.rank_of(x) == 0:
        return [ctx.op("Identity", x), ctx.const(np.int64(0))]
    attrs = {"sorted": True, "largest": largest, "outputDataType": "DT_INT64"}
    return ctx.emit("TopKV2", [x, ctx.scalar(k, DType.I64), _axis(ctx, ctx.axis(x, dim))], 2, **attrs)


@aten("sort")
def sort(
    ctx: TorchBuilder, x: Value, *args: object, dim: int = -1, descending: bool = False, stable: bool = False
) -> list[Value]:
    """``sort(x, dim, descending)``, or with ``stable`` in front."""
    given = list(args)
    if given and (isinstance(given[0], bool) or given[0] is None):
        given = given[1:]
    axis = given[0] if given else dim
    down = given[1] if len(given) > 1 else descending
    assert isinstance(axis, int)
    if ctx.rank_of(x) == 0:
        return [ctx.op("Identity", x), ctx.const(np.int64(0))]
    at = ctx.axis(x, axis)
    attrs = {"sorted": True, "largest": bool(down), "outputDataType": "DT_INT64"}
    wide = ctx.cast(x, DType.I32) if x.dtype is DType.BOOL else x
    values, places = ctx.emit("TopKV2", [wide, ctx.scalar(ctx.size(x, at), DType.I64), _axis(ctx, at)], 2, **attrs)
    return [ctx.cast(values, ctx.type_of(x)), places]


@aten("argsort")
def argsort(
    ctx: TorchBuilder, x: Value, *args: object, dim: int = -1, descending: bool = False, stable: bool = False
) -> Value:
    return sort(ctx, x, *args, dim=dim, descending=descending)[1]


@aten("msort")
def msort(ctx: TorchBuilder, x: Value) -> Value:
    return sort(ctx, x, 0)[0]


@aten("kthvalue")
def kthvalue(ctx: TorchBuilder, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> list[Value]:
    if ctx.rank_of(x) == 0:
        return [ctx.op("Identity", x), ctx.const(np.int64(0))]
    axis = ctx.axis(x, dim)
    found = topk(ctx, x, k, axis, False)
    last = [slice_(ctx, v, axis, k - 1, END) for v in found]
    return last if keepdim else [ctx.squeeze(v, axis) for v in last]


@aten("searchsorted", "bucketize")
def searchsorted(
    ctx: TorchBuilder, a: Value, b: Operand, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Value | None = None,
) -> Value:  # fmt: skip
    """How many of the sorted numbers are smaller (with ``right``: no larger): all for one that is none."""
    bounds, given = (b, a) if ctx.name == "bucketize" else (a, b)
    if not isinstance(bounds, Value):
        raise ctx.unsupported("a number to be looked for in a number")
    if sorter is not None:
        bounds = ctx.op("GatherElements", bounds, sorter, _axis(ctx, ctx.rank_of(bounds) - 1))
    dtype = ctx.common(bounds, given)
    wanted = ctx.operand(given, dtype)
    lines = ctx.cast(bounds, dtype)
    rank = ctx.rank_of(wanted)
    if ctx.rank_of(lines) > 1:
        lines = ctx.unsqueeze(lines, ctx.rank_of(lines) - 1)
    kind = "GREATER" if right or side == "right" else "GREATER_EQUAL"
    above = ctx.cast(ctx.op("BinaryOp", lines, ctx.unsqueeze(wanted, rank), opType=kind), DType.I64)
    below = ctx.op("BinaryOp", ctx.const(1), above, opType="SUB")
    count = ctx.op("Reduction", below, operation="SUM", dim=[rank])
    return ctx.cast(count, DType.I32 if out_int32 else DType.I64)
