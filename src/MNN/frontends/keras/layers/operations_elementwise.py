"""Further operations on numbers (``keras.ops``), one by one and in pairs, and statistics over axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.frontends.common.expressions import binary, select, unary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.activations import glu, hard_shrink, soft_shrink, squareplus
from MNN.frontends.keras.layers.operations import axes, floating, operands, paired
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import keras_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_LOG2 = float(np.log(2))


def _pair(ctx: KerasContext, node: KerasNode) -> tuple[Value, Value]:
    return operands(ctx, node.argument(0, "x1"), node.argument(1, "x2"))


def compared(ctx: KerasContext, kind: str, x: Value, y: Value | float) -> Value:
    """A comparison, bool; ``kind`` is a name of BinaryOpOperation."""
    out = ctx.op("BinaryOp", x, y if isinstance(y, Value) else ctx.const_like(y, x), opType=kind)
    out.dtype = DType.BOOL
    return out


def chosen(ctx: KerasContext, condition: Value, x: Value, y: Value | float) -> Value:
    """``x`` where the condition holds, else ``y``, in the type of ``x``."""
    out = select(ctx, condition, x, y if isinstance(y, Value) else ctx.const_like(y, x))
    out.dtype = x.dtype
    return out


def is_nan(ctx: KerasContext, x: Value) -> Value:
    out = ctx.tf("IsNan", x)
    out.dtype = DType.BOOL
    return out


def reduced(ctx: KerasContext, kind: str, x: Value, dims: list[int], keep: bool) -> Value:
    out = ctx.op("Reduction", x, operation=kind, dim=dims, keepDims=keep)
    out.dtype = x.dtype
    return out


# -- in pairs ----------------------------------------------------------------------------------------------------------


@keras_op("Fmax", "Fmin")
def extreme_number(ctx: KerasContext, node: KerasNode) -> Value:
    """What is no number gives way to the other one."""
    x, y = _pair(ctx, node)
    kind = "Maximum" if node.op.endswith("max") else "Minimum"
    if x.dtype is None or not x.dtype.is_float:
        return paired(ctx, kind, x, y)
    return paired(ctx, kind, chosen(ctx, is_nan(ctx, x), y, x), chosen(ctx, is_nan(ctx, y), x, y))


@keras_op("Hypot")
def hypotenuse(ctx: KerasContext, node: KerasNode) -> Value:
    """``sqrt(x^2 + y^2)``, the larger of them taken out so that squares do not overflow."""
    x, y = (unary(ctx, "ABS", floating(ctx, v)) for v in _pair(ctx, node))
    large, small = binary(ctx, "MAXIMUM", x, y), binary(ctx, "MINIMUM", x, y)
    ratio = ctx.tf("DivNoNan", small, large)
    ratio.dtype = large.dtype
    return binary(ctx, "MUL", large, unary(ctx, "SQRT", binary(ctx, "ADD", unary(ctx, "SQUARE", ratio), 1)))


@keras_op("Logaddexp", "Logaddexp2")
def log_of_sum(ctx: KerasContext, node: KerasNode) -> Value:
    x, y = (floating(ctx, v) for v in _pair(ctx, node))
    apart = unary(ctx, "NEG", unary(ctx, "ABS", binary(ctx, "SUB", x, y)))
    largest = binary(ctx, "MAXIMUM", x, y)
    if node.op.endswith("2"):
        rest = unary(ctx, "LOG1P", unary(ctx, "EXP", binary(ctx, "MUL", apart, _LOG2)))
        return binary(ctx, "ADD", largest, binary(ctx, "MUL", rest, 1 / _LOG2))
    return binary(ctx, "ADD", largest, unary(ctx, "LOG1P", unary(ctx, "EXP", apart)))


_BITS = {
    "BitwiseAnd": "BitwiseAnd", "BitwiseOr": "BitwiseOr", "BitwiseXor": "BitwiseXor", "BitwiseLeftShift": "LeftShift",
    "BitwiseRightShift": "RightShift", "LeftShift": "LeftShift", "RightShift": "RightShift", "Fmod": "TruncateMod",
}  # fmt: skip
"""As TensorFlow calls them."""


@keras_op(*_BITS)
def of_tensorflow(ctx: KerasContext, node: KerasNode) -> Value:
    x, y = _pair(ctx, node)
    return ctx.tf_like(_BITS[node.op.removeprefix("ops.")], x, y)


@keras_op("BitwiseInvert", "BitwiseNot")
def inverted(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    return ctx.tf_like("Invert", x)


@keras_op("Heaviside")
def heaviside(ctx: KerasContext, node: KerasNode) -> Value:
    x, at_zero = _pair(ctx, node)
    above = ctx.cast(compared(ctx, "GREATER", x, 0), x.dtype or DType.F32)
    return chosen(ctx, compared(ctx, "EQUAL", x, 0), binary(ctx, "MUL", at_zero, 1), above)


@keras_op("Isclose")
def is_close(ctx: KerasContext, node: KerasNode) -> Value:
    if node.bool_attr("equal_nan"):
        raise node.unsupported("equal_nan=True", "compare without it")
    x, y = (floating(ctx, v) for v in _pair(ctx, node))
    relative, absolute = (float(node.argument(i, k, d)) for i, k, d in ((2, "rtol", 1e-5), (3, "atol", 1e-8)))
    bound = binary(ctx, "ADD", binary(ctx, "MUL", unary(ctx, "ABS", y), relative), absolute)
    near = compared(ctx, "LESS_EQUAL", unary(ctx, "ABS", binary(ctx, "SUB", x, y)), bound)
    return paired(ctx, "LogicalOr", near, compared(ctx, "EQUAL", x, y))  # infinities are close to themselves


# -- one by one --------------------------------------------------------------------------------------------------------


@keras_op("Cbrt")
def cube_root(ctx: KerasContext, node: KerasNode) -> Value:
    x = floating(ctx, node.input(0))
    return binary(ctx, "MUL", unary(ctx, "SIGN", x), binary(ctx, "POW", unary(ctx, "ABS", x), 1 / 3))


@keras_op("Sinc")
def sinc(ctx: KerasContext, node: KerasNode) -> Value:
    x = binary(ctx, "MUL", floating(ctx, node.input(0)), float(np.pi))
    ratio = ctx.tf("DivNoNan", unary(ctx, "SIN", x), x)
    ratio.dtype = x.dtype
    zero = compared(ctx, "EQUAL", x, 0)
    return binary(ctx, "ADD", ratio, ctx.cast(zero, x.dtype or DType.F32))


@keras_op("Signbit")
def sign_bit(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    below = compared(ctx, "LESS", x, 0)
    if x.dtype is None or not x.dtype.is_float:
        return below
    inverse = binary(ctx, "REALDIV", ctx.const_like(1, x), x)  # -0 gives minus infinity
    return paired(ctx, "LogicalOr", below, compared(ctx, "LESS", inverse, 0))


@keras_op("Isposinf", "Isneginf")
def is_infinity(ctx: KerasContext, node: KerasNode) -> Value:
    x = floating(ctx, node.input(0))
    return compared(ctx, "EQUAL", x, float("-inf" if "neg" in node.op else "inf"))


@keras_op("NanToNum")
def finite(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    if x.dtype is None or not x.dtype.is_float:
        return x
    limits = np.finfo(np.float16 if x.dtype is DType.F16 else np.float64 if x.dtype is DType.F64 else np.float32)
    for key, number, found in (("posinf", limits.max, "inf"), ("neginf", limits.min, "-inf")):
        x = chosen(ctx, compared(ctx, "EQUAL", x, float(found)), ctx.const_like(float(node.get(key, number)), x), x)
    return chosen(ctx, is_nan(ctx, x), ctx.const_like(node.float_attr("nan", 0.0), x), x)


@keras_op("Glu", "HardShrink", "SoftShrink", "Squareplus", "Threshold")
def bent(ctx: KerasContext, node: KerasNode) -> Value:
    x, kind = node.input(0), node.op.removeprefix("ops.")
    if kind == "Glu":
        return glu(ctx, x, node.int_attr("axis", -1))
    if kind == "Squareplus":
        return squareplus(ctx, x, float(node.get("b", 4)))
    if kind == "Threshold":
        limit, other = float(node.get("threshold")), float(node.get("default_value"))
        return chosen(ctx, compared(ctx, "GREATER", x, limit), x, other)
    return (hard_shrink if kind == "HardShrink" else soft_shrink)(ctx, x, float(node.get("threshold", 0.5)))


@keras_op("Conj", "Conjugate", "Real")
def of_real_numbers(ctx: KerasContext, node: KerasNode) -> Value:
    return node.input(0)


@keras_op("FullLike")
def full_like(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    zeros = ctx.tf_like("ZerosLike", x)
    return paired(ctx, "Add", zeros, node.argument(1, "fill_value"))


@keras_op("Select")
def select_first(ctx: KerasContext, node: KerasNode) -> Value:
    """Of several choices the first one whose condition holds."""
    conditions, choices = node.argument(0, "condlist"), node.argument(1, "choicelist")
    found: Any = node.argument(2, "default", 0)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        x, y = operands(ctx, choice, found)
        found = chosen(ctx, ctx.cast(condition, DType.BOOL), x, y)
    return found  # type: ignore[no-any-return]


@keras_op("Digitize", "SearchSorted")
def reached(ctx: KerasContext, node: KerasNode) -> Value:
    """How many of the boundaries a number has reached, or has passed (``side`` left)."""
    searched = node.op.endswith("SearchSorted")
    bins, x = (node.argument(i, k) for i, k in ((0, "sorted_sequence"), (1, "values")))
    if not searched:
        bins, x = node.argument(1, "bins"), node.argument(0, "x")
    line = bins if isinstance(bins, Value) else ctx.const(np.asarray(bins))
    if not isinstance(x, Value) or ctx.rank(line) != 1:
        raise node.unsupported("boundaries of several axes", "give one list of boundaries")
    left = searched and node.get("side", "left") == "left"
    apart = ctx.op("Unsqueeze", x, squeezeDims=[-1])
    apart.dtype = x.dtype
    passed = paired(ctx, "Greater" if left else "GreaterEqual", apart, line)
    return reduced(ctx, "SUM", ctx.cast(passed, DType.I32), [ctx.sizes(x, node.where)], False)


# -- over axes ---------------------------------------------------------------------------------------------------------


@keras_op("Average")
def average(ctx: KerasContext, node: KerasNode) -> Value:
    """The mean; with weights ``sum(w x) / sum(w)``, where weights of one axis are those of the one that is summed."""
    x = floating(ctx, node.input(0))
    dims, weights = axes(ctx, node, x), node.argument(1, "weights", None)
    if weights is None:
        return reduced(ctx, "MEAN", x, dims, False)
    w = weights if isinstance(weights, Value) else ctx.const(np.asarray(weights))
    w = ctx.cast(w, x.dtype or DType.F32)
    rank = ctx.sizes(x, node.where)
    if ctx.rank(w) != rank:
        if ctx.rank(w) != 1 or len(dims) != 1:
            raise node.unsupported("weights of another rank than the tensor", "broadcast them before")
        w = ctx.op("Reshape", w, ctx.const([-1 if a == dims[0] else 1 for a in range(rank)]))
        w.dtype = x.dtype
    total = reduced(ctx, "SUM", binary(ctx, "MUL", x, w), dims, False)
    ones = ctx.tf_like("OnesLike", x)
    return binary(ctx, "REALDIV", total, reduced(ctx, "SUM", binary(ctx, "MUL", ones, w), dims, False))


@keras_op("CountNonzero")
def count_non_zero(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    other = compared(ctx, "NOTEQUAL", ctx.cast(x, DType.I32) if x.dtype is DType.BOOL else x, 0)
    return reduced(ctx, "SUM", ctx.cast(other, DType.I32), axes(ctx, node, x), False)


@keras_op("Ptp")
def peak_to_peak(ctx: KerasContext, node: KerasNode) -> Value:
    x, keep = node.input(0), node.bool_attr("keepdims")
    most, least = (reduced(ctx, kind, x, axes(ctx, node, x), keep) for kind in ("MAXIMUM", "MINIMUM"))
    return binary(ctx, "SUB", most, least)


@keras_op("Moments")
def moments(ctx: KerasContext, node: KerasNode) -> list[Value]:
    """The mean and the variance."""
    x, keep = floating(ctx, node.input(0)), node.bool_attr("keepdims")
    dims = axes(ctx, node, x, "axes")
    apart = binary(ctx, "SUB", x, reduced(ctx, "MEAN", x, dims, True))
    return [reduced(ctx, "MEAN", x, dims, keep), reduced(ctx, "MEAN", unary(ctx, "SQUARE", apart), dims, keep)]


@keras_op("Nansum", "Nanmean", "Nanmax", "Nanmin", "Nanprod")
def of_numbers(ctx: KerasContext, node: KerasNode) -> Value:
    """Reductions that leave out what is no number."""
    x, keep = floating(ctx, node.input(0)), node.bool_attr("keepdims")
    dims, kind = axes(ctx, node, x), node.op.removeprefix("ops.Nan")
    nan = is_nan(ctx, x)
    absent = {"max": float("-inf"), "min": float("inf"), "prod": 1.0}.get(kind, 0.0)
    known = chosen(ctx, nan, ctx.const_like(absent, x), x)
    if kind != "mean":
        found = {"max": "MAXIMUM", "min": "MINIMUM", "prod": "PROD", "sum": "SUM"}[kind]
        out = reduced(ctx, found, known, dims, keep)
        if kind in ("sum", "prod"):
            return out
        every = ctx.op("Reduction", nan, operation="ALL", dim=dims, keepDims=keep)
        every.dtype = DType.BOOL
        return chosen(ctx, every, ctx.const_like(float("nan"), out), out)
    ones = ctx.cast(paired(ctx, "Equal", nan, False), x.dtype or DType.F32)
    return binary(ctx, "REALDIV", reduced(ctx, "SUM", known, dims, keep), reduced(ctx, "SUM", ones, dims, keep))
