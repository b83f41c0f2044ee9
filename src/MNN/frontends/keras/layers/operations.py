"""Operations on numbers (``keras.ops``): one by one, in pairs, and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.frontends.common.expressions import binary, clamp, unary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import keras_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis

_UNARY = {
    "Absolute": "Abs", "Arccos": "Acos", "Arccosh": "Acosh", "Arcsin": "Asin", "Arcsinh": "Asinh", "Arctan": "Atan",
    "Arctanh": "Atanh", "Ceil": "Ceil", "Cos": "Cos", "Cosh": "Cosh", "Erf": "Erf", "Erfc": "Erfc", "Erfinv": "Erfinv",
    "Exp": "Exp", "Expm1": "Expm1", "Floor": "Floor", "Isfinite": "IsFinite", "Isinf": "IsInf", "Isnan": "IsNan",
    "Log": "Log", "Log1p": "Log1p", "LogicalNot": "LogicalNot", "Negative": "Neg", "Reciprocal": "Reciprocal",
    "Rsqrt": "Rsqrt", "Sign": "Sign", "Sin": "Sin", "Sinh": "Sinh", "Sqrt": "Sqrt", "Square": "Square", "Tan": "Tan",
    "ZerosLike": "ZerosLike", "OnesLike": "OnesLike", "Fabs": "Abs",
}  # fmt: skip
_KEPT = {"Absolute", "Floor", "Ceil", "LogicalNot", "Negative", "Sign", "Square", "ZerosLike", "OnesLike"}
"""Of integers these give integers; the others compute with floats."""
_TRUTHS = {"Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalOr"}
_BINARY = {
    "Add": "ADD", "Subtract": "SUB", "Multiply": "MUL", "Divide": "REALDIV", "TrueDivide": "REALDIV",
    "Maximum": "MAXIMUM", "Minimum": "MINIMUM", "Power": "POW", "FloorDivide": "FLOORDIV", "Mod": "FLOORMOD",
    "Arctan2": "ATAN2", "Equal": "EQUAL", "NotEqual": "NOTEQUAL", "Greater": "GREATER", "GreaterEqual": "GREATER_EQUAL",
    "Less": "LESS", "LessEqual": "LESS_EQUAL", "LogicalAnd": "MUL", "LogicalOr": "LOGICALOR",
}  # fmt: skip


def floating(ctx: KerasContext, x: Value) -> Value:
    return x if x.dtype is None or x.dtype.is_float else ctx.cast(x, DType.F32)


@keras_op(*_UNARY)
def one(ctx: KerasContext, node: KerasNode) -> Value:
    kind = node.op.removeprefix("ops.")
    x = node.input(0)
    y = ctx.tf(_UNARY[kind], x if kind in _KEPT else floating(ctx, x))
    y.dtype = y.dtype or x.dtype
    return y


@keras_op(*_BINARY)
def two(ctx: KerasContext, node: KerasNode) -> Value:
    kind = node.op.removeprefix("ops.")
    return paired(ctx, kind, node.argument(0, "x1"), node.argument(1, "x2"))


def paired(ctx: KerasContext, kind: str, first: Any, second: Any) -> Value:
    """Two operands, one of which may be a number, in a common type."""
    x, y = operands(ctx, first, second)
    if kind in ("Divide", "TrueDivide"):
        x, y = floating(ctx, x), floating(ctx, y)
    out = ctx.op("BinaryOp", x, y, opType=_BINARY[kind])
    out.dtype = DType.BOOL if kind in _TRUTHS else x.dtype
    return out


def operands(ctx: KerasContext, first: Any, second: Any) -> tuple[Value, Value]:
    tensors = [v for v in (first, second) if isinstance(v, Value)]
    like = tensors[0]
    dtype = like.dtype or DType.F32
    for other in (first, second):
        kind = other.dtype if isinstance(other, Value) else None
        number = np.asarray(0 if isinstance(other, Value) else other)
        wider = kind is not None and (kind.is_float, kind.numpy.itemsize) > (dtype.is_float, dtype.numpy.itemsize)
        if kind is not None and kind is not DType.BOOL and (wider or dtype is DType.BOOL):
            dtype = kind
        elif kind is None and number.dtype.kind == "f" and not dtype.is_float:
            dtype = DType.F32
        elif kind is None and number.dtype.kind == "i" and dtype is DType.BOOL:
            dtype = DType.I32
    x, y = (ctx.cast(v, dtype) if isinstance(v, Value) else ctx.const(np.asarray(v), dtype) for v in (first, second))
    return x, y


@keras_op("Clip")
def clip(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    low, high = (node.argument(i, k, node.config.get(k)) for i, k in ((1, "x_min"), (2, "x_max")))
    if all(isinstance(v, int | float) for v in (low, high)) and (x.dtype is None or x.dtype.is_float):
        return clamp(ctx, x, float(low), float(high), slope_at_bounds=1.0)
    return paired(ctx, "Minimum", paired(ctx, "Maximum", x, low), high)


@keras_op("Log2", "Log10", "Exp2", "Deg2rad", "Rad2deg")
def scaled(ctx: KerasContext, node: KerasNode) -> Value:
    x, kind = floating(ctx, node.input(0)), node.op.removeprefix("ops.")
    if kind in ("Deg2rad", "Rad2deg"):
        return binary(ctx, "MUL", x, np.pi / 180 if kind == "Deg2rad" else 180 / np.pi)
    if kind == "Exp2":
        return unary(ctx, "EXP", binary(ctx, "MUL", x, float(np.log(2))))
    return binary(ctx, "MUL", unary(ctx, "LOG", x), float(1 / np.log(2 if kind == "Log2" else 10)))


@keras_op("Round")
def rounded(ctx: KerasContext, node: KerasNode) -> Value:
    x, decimals = node.input(0), node.int_attr("decimals", 0)
    if not decimals or x.dtype is None or not x.dtype.is_float:
        if decimals < 0:
            raise node.unsupported("whole numbers rounded to tens", "round floats")
        return unary(ctx, "ROUND", x)
    scale = float(10.0**decimals)
    return binary(ctx, "REALDIV", unary(ctx, "ROUND", binary(ctx, "MUL", x, scale)), scale)


@keras_op("Trunc")
def truncated(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    return binary(ctx, "MUL", unary(ctx, "SIGN", x), unary(ctx, "FLOOR", unary(ctx, "ABS", x)))


@keras_op("LogicalXor")
def exclusive(ctx: KerasContext, node: KerasNode) -> Value:
    return paired(ctx, "NotEqual", node.argument(0, "x1"), node.argument(1, "x2"))


@keras_op("DivideNoNan")
def divide_no_nan(ctx: KerasContext, node: KerasNode) -> Value:
    return ctx.tf("DivNoNan", *operands(ctx, node.argument(0, "x1"), node.argument(1, "x2")))


@keras_op("Where")
def where(ctx: KerasContext, node: KerasNode) -> Value:
    x, y = operands(ctx, node.argument(1, "x1"), node.argument(2, "x2"))
    out = ctx.op("Select", ctx.cast(node.input(0), DType.BOOL), x, y)
    out.dtype = x.dtype
    return out


@keras_op("Cast", "SaturateCast", "ConvertToTensor")
def cast(ctx: KerasContext, node: KerasNode) -> Value:
    dtype = node.get("dtype", None)
    if dtype is None:
        return node.input(0)
    known = {d.numpy.name: d for d in DType if d is not DType.STR}
    if dtype not in known:
        raise node.unsupported(f"the element type {dtype!r:.40}")
    return ctx.cast(node.input(0), known[dtype])


@keras_op("StopGradient", "Copy", "Array")
def same(ctx: KerasContext, node: KerasNode) -> Value:
    return node.input(0)


# -- reductions --------------------------------------------------------------------------------------------------------

_REDUCTIONS = {k: k for k in ("Sum", "Mean", "Max", "Min", "Prod", "All", "Any")} | {"Amax": "Max", "Amin": "Min"}
"""As TensorFlow calls them."""


def axes(ctx: KerasContext, node: KerasNode, x: Value, key: str = "axis") -> list[int]:
    """The axes that a reduction is configured with; all of them by default."""
    rank, given = ctx.sizes(x, node.where), node.config.get(key)
    listed = range(rank) if given is None else [given] if isinstance(given, int) else given
    return sorted(normalize_axis(int(a), rank, node.where) for a in listed)


@keras_op(*_REDUCTIONS)
def reduce(ctx: KerasContext, node: KerasNode) -> Value:
    kind, x = _REDUCTIONS[node.op.removeprefix("ops.")], node.input(0)
    if kind in ("All", "Any"):
        x = ctx.cast(x, DType.BOOL)
    elif kind == "Mean":
        x = floating(ctx, x)
    elif x.dtype is DType.BOOL:
        x = ctx.cast(x, DType.I32)
    return ctx.tf_like(kind, x, ctx.const(axes(ctx, node, x)), keep_dims=node.bool_attr("keepdims"))


@keras_op("Var", "Std")
def spread(ctx: KerasContext, node: KerasNode) -> Value:
    x = floating(ctx, node.input(0))
    dims, keep = axes(ctx, node, x), node.bool_attr("keepdims")
    mean = ctx.op("Reduction", x, operation="MEAN", dim=dims, keepDims=True)
    mean.dtype = x.dtype
    square = unary(ctx, "SQUARE", binary(ctx, "SUB", x, mean))
    out = ctx.op("Reduction", square, operation="MEAN", dim=dims, keepDims=keep)
    out.dtype = x.dtype
    return unary(ctx, "SQRT", out) if node.op.endswith("Std") else out


@keras_op("Argmax", "Argmin")
def extreme(ctx: KerasContext, node: KerasNode) -> Value:
    x, axis = node.input(0), node.config.get("axis")
    if axis is None:
        x, axis = ctx.op("Reshape", x, ctx.const([-1])), 0
    out = ctx.tf("ArgMax" if node.op.endswith("max") else "ArgMin", x, ctx.const(int(axis)), output_type=DType.I32)
    return ctx.op("Unsqueeze", out, squeezeDims=[int(axis)]) if node.bool_attr("keepdims") else out


@keras_op("Logsumexp")
def log_sum_exp(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    dims = axes(ctx, node, x)
    largest = ctx.op("Reduction", x, operation="MAXIMUM", dim=dims, keepDims=True)
    largest.dtype = x.dtype
    total = ctx.op(
        "Reduction", unary(ctx, "EXP", binary(ctx, "SUB", x, largest)), operation="SUM", dim=dims, keepDims=True
    )
    total.dtype = x.dtype
    out = binary(ctx, "ADD", unary(ctx, "LOG", total), largest)
    return out if node.bool_attr("keepdims") else ctx.op("Squeeze", out, squeezeDims=dims)


@keras_op("Cumsum", "Cumprod")
def cumulative(ctx: KerasContext, node: KerasNode) -> Value:
    x, axis = node.input(0), node.config.get("axis")
    if axis is None:
        x, axis = ctx.op("Reshape", x, ctx.const([-1])), 0
    return ctx.tf(node.op.removeprefix("ops."), x, ctx.const(int(axis), DType.I32))


@keras_op("Normalize")
def normalize(ctx: KerasContext, node: KerasNode) -> Value:
    x, order, least = node.input(0), node.get("order", 2), node.float_attr("epsilon", 1e-7)
    if order == 1:
        total = ctx.op("Reduction", unary(ctx, "ABS", x), operation="SUM", dim=axes(ctx, node, x), keepDims=True)
        total.dtype = x.dtype
        return binary(ctx, "REALDIV", x, binary(ctx, "MAXIMUM", total, least))
    if order != 2:
        raise node.unsupported("a norm of another order than 1 and 2", "use one of these")
    square = ctx.op("Reduction", unary(ctx, "SQUARE", x), operation="SUM", dim=axes(ctx, node, x), keepDims=True)
    square.dtype = x.dtype
    return binary(ctx, "MUL", x, unary(ctx, "RSQRT", binary(ctx, "MAXIMUM", square, least**2)))
