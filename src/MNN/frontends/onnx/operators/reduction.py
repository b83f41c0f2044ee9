"""Reductions, extremes' positions and running sums."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import cast
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_KINDS = {
    "ReduceSum": "SUM",
    "ReduceMean": "MEAN",
    "ReduceMax": "MAXIMUM",
    "ReduceMin": "MINIMUM",
    "ReduceProd": "PROD",
    "ReduceL1": "SUM",
    "ReduceL2": "SUM",
    "ReduceSumSquare": "SUM",
    "ReduceLogSum": "SUM",
    "ReduceLogSumExp": "SUM",
}


_OF_SEVERAL = frozenset(("ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"))
"""Those that are several operators here: what lies between may be larger or smaller than f16 has."""


@onnx_op(*_KINDS, operands=Operands(lists=(1,)))
def reduce(ctx: Context, node: OnnxNode) -> Value:
    x = node.input(0)
    if node.op in _OF_SEVERAL and x.dtype in (DType.F16, DType.BF16):
        return cast(ctx, _reduced(ctx, node, cast(ctx, x, DType.F32)), x.dtype)
    return _reduced(ctx, node, x)


def _reduced(ctx: Context, node: OnnxNode, x: Value) -> Value:
    """Axes are an attribute, from opset 13 (sum) or 18 (others) on an operand."""
    axes = node.optional(1)
    keep = node.bool_attr("keepdims", True)
    dims = node.ints_attr("axes", None) if axes is None else ctx.constant_ints(axes)
    nothing = node.bool_attr("noop_with_empty_axes", False)
    if nothing and not dims and (axes is None or axes.is_const):
        if node.op == "ReduceLogSumExp":  # the logarithm of the exponential function
            return ctx.op("Identity", x)
        return _inner(ctx, node.op, x, lambda t: ctx.op("Identity", t))
    inputs: list[Value | None] = [] if dims is not None or axes is None else [axes]

    def total(t: Value, kind: str = "", keep_axes: bool | None = None) -> Value:
        flag = keep if keep_axes is None else keep_axes
        return ctx.op(
            "ReductionOrNone" if nothing and inputs else "Reduction",
            t,
            *inputs,
            operation=kind or _KINDS[node.op],
            dim=dims or None,
            keepDims=flag,
        )

    if node.op == "ReduceLogSumExp":
        return _log_sum_exp(ctx, _as_float(ctx, x), total)
    return _inner(ctx, node.op, x, total)


def _inner(ctx: Context, op: str, x: Value, total: object) -> Value:
    """What comes before and after the plain reduction."""
    assert callable(total)
    if op in ("ReduceL1", "ReduceL2", "ReduceSumSquare"):
        x = ctx.op("UnaryOp", x, opType="ABS" if op == "ReduceL1" else "SQUARE")
    out = total(x)
    assert isinstance(out, Value)
    if op == "ReduceL2":
        return _restore(ctx, x, ctx.op("UnaryOp", _as_float(ctx, out, x.dtype), opType="SQRT"))
    if op in ("ReduceLogSum", "ReduceLogSumExp"):
        return _restore(ctx, x, ctx.op("UnaryOp", _as_float(ctx, out, x.dtype), opType="LOG"))
    return out


def _as_float(ctx: Context, x: Value, dtype: DType | None = None) -> Value:
    """Integers as f64: roots and logarithms need it, and ONNX rounds the result back."""
    kind = dtype or x.dtype
    return ctx.op("Cast", x, dstT=data_type(DType.F64)) if kind is not None and not kind.is_float else x


def _restore(ctx: Context, source: Value, out: Value) -> Value:
    kind = source.dtype
    return ctx.op("Cast", out, dstT=data_type(kind)) if kind is not None and not kind.is_float else out


def _log_sum_exp(ctx: Context, x: Value, total: object) -> Value:
    """``m + log(sum(exp(x - m)))`` with the largest finite ``m``, so that nothing overflows."""
    assert callable(total)

    def peak(keep: bool | None) -> Value:
        found = total(x, "MAXIMUM", keep)
        most = float(np.finfo(np.float16 if x.dtype is DType.F16 else np.float32).max)
        found = ctx.op("BinaryOp", found, ctx.const_like(-most, x), opType="MAXIMUM")
        return ctx.op("BinaryOp", found, ctx.const_like(most, x), opType="MINIMUM")

    shifted = ctx.op("BinaryOp", x, peak(True), opType="SUB")
    summed = total(ctx.op("UnaryOp", shifted, opType="EXP"), "SUM", None)
    return ctx.op("BinaryOp", ctx.op("UnaryOp", summed, opType="LOG"), peak(None), opType="ADD")


@onnx_op("ArgMax", "ArgMin")
def arg_extreme(ctx: Context, node: OnnxNode) -> Value:
    axis = node.int_attr("axis", 0)
    last = node.bool_attr("select_last_index", False)
    attrs: dict[str, object] = {"axis": axis, "topK": 1, "outputDataType": "DT_INT64"}
    if last:
        attrs["selectLastIndex"] = True
    out = ctx.op(node.op, node.input(0), **attrs)
    return ctx.op("Unsqueeze", out, squeezeDims=[axis]) if node.bool_attr("keepdims", True) else out


@onnx_op("CumSum", "CumProd", operands=Operands(singles=(1,)))
def cumulative(ctx: Context, node: OnnxNode) -> Value:
    exclusive, reverse = node.bool_attr("exclusive", False), node.bool_attr("reverse", False)
    return ctx.op(node.op, node.input(0), node.input(1), exclusive=exclusive, reverse=reverse)
