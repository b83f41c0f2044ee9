"""Elementwise arithmetic, comparisons, logic, choice and casts."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import binary, clamp, unary
from MNN.frontends.tensorflow import complex_tensors
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_UNARY = {
    "ATan": "ATAN", "Abs": "ABS", "Acos": "ACOS", "Acosh": "ACOSH", "Asin": "ASIN", "Asinh": "ASINH", "Atan": "ATAN",
    "Atanh": "ATANH", "Ceil": "CEIL", "Cos": "COS", "Cosh": "COSH", "Erf": "ERF", "Erfc": "ERFC", "Erfinv": "ERFINV",
    "Exp": "EXP", "Expm1": "EXPM1", "Floor": "FLOOR", "Inv": "RECIPROCAL", "Log": "LOG", "Log1p": "LOG1P", "Neg": "NEG",
    "Reciprocal": "RECIPROCAL", "Rint": "ROUND", "Round": "ROUND", "Rsqrt": "RSQRT", "Sign": "SIGN", "Sin": "SIN",
    "Sinh": "SINH", "Sqrt": "SQRT", "Square": "SQUARE", "Tan": "TAN",
}  # fmt: skip
_BINARY = {
    "Add": "ADD", "AddV2": "ADD", "Atan2": "ATAN2", "BitwiseAnd": "BITWISE_AND", "BitwiseOr": "BITWISE_OR",
    "BitwiseXor": "BITWISE_XOR", "Div": "REALDIV", "Equal": "EQUAL", "FloorDiv": "FLOORDIV", "FloorMod": "FLOORMOD",
    "Greater": "GREATER", "GreaterEqual": "GREATER_EQUAL", "LeftShift": "LEFTSHIFT", "Less": "LESS",
    "LessEqual": "LESS_EQUAL", "LogicalAnd": "MUL", "LogicalOr": "LOGICALOR", "Maximum": "MAXIMUM",
    "Minimum": "MINIMUM", "Mul": "MUL", "NotEqual": "NOTEQUAL", "Pow": "POW", "RealDiv": "REALDIV",
    "RightShift": "RIGHTSHIFT", "SquaredDifference": "SquaredDifference", "Sub": "SUB",
}  # fmt: skip


@tf_op(*_UNARY)
def one(ctx: Context, node: TfNode) -> Value:
    return unary(ctx, _UNARY[node.op], node.input(0))


@tf_op(*_BINARY)
def two(ctx: Context, node: TfNode) -> Value:
    node.ignore("incompatible_shape_error")
    x, y = node.input(0), node.input(1)
    if node.op in ("Add", "AddV2") and DType.STR in (x.dtype, y.dtype):
        return ctx.op("StringConcat", x, y)
    return ctx.op("BinaryOp", x, y, opType=_BINARY[node.op])


@tf_op("TruncateDiv")
def truncate_div(ctx: Context, node: TfNode) -> Value:
    x, y = node.input(0), node.input(1)
    quotient = ctx.op("BinaryOp", x, y, opType="REALDIV")
    if x.dtype is not None and not x.dtype.is_float:
        return quotient
    sign, whole = unary(ctx, "SIGN", quotient), unary(ctx, "FLOOR", unary(ctx, "ABS", quotient))
    return binary(ctx, "MUL", sign, whole)


@tf_op("Mod", "TruncateMod")
def truncate_mod(ctx: Context, node: TfNode) -> Value:
    """The remainder with the sign of the dividend."""
    return ctx.op("Remainder", node.input(0), node.input(1))


@tf_op("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py")
def where_zero(ctx: Context, node: TfNode) -> Value:
    """Zero where the operand that decides is zero, whatever the other one is."""
    x, y = node.input(0), node.input(1)
    deciding = y if node.op in ("DivNoNan", "MulNoNan") else x
    zero = ctx.const_like(0, x)
    if node.op in ("Xlogy", "Xlog1py"):
        y = unary(ctx, "LOG" if node.op == "Xlogy" else "LOG1P", y)
    found = ctx.op("BinaryOp", x, y, opType="REALDIV" if "iv" in node.op else "MUL")
    return ctx.op("Select", ctx.op("BinaryOp", deciding, zero, opType="EQUAL"), zero, found)


@tf_op("ApproximateEqual")
def approximate_equal(ctx: Context, node: TfNode) -> Value:
    distance = unary(ctx, "ABS", binary(ctx, "SUB", node.input(0), node.input(1)))
    limit = ctx.const_like(node.float_attr("tolerance", 1e-5), distance)
    return ctx.op("BinaryOp", distance, limit, opType="LESS")


@tf_op("AddN", "AccumulateNV2")
def add_n(ctx: Context, node: TfNode) -> Value:
    node.ignore("N", "shape")
    out, *rest = node.tensors()
    for value in rest:
        out = binary(ctx, "ADD", out, value)
    return out


@tf_op("LogicalNot")
def logical_not(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Not", node.input(0))


@tf_op("Invert")
def invert(ctx: Context, node: TfNode) -> Value:
    return ctx.op("BitwiseNot", node.input(0))


@tf_op("IsNan")
def is_nan(ctx: Context, node: TfNode) -> Value:
    return ctx.op("IsNaN", node.input(0))


@tf_op("IsInf")
def is_inf(ctx: Context, node: TfNode) -> Value:
    return ctx.op("IsInf", node.input(0))


@tf_op("IsFinite")
def is_finite(ctx: Context, node: TfNode) -> Value:
    return ctx.op(
        "Not", ctx.op("BinaryOp", *(ctx.op(k, node.input(0)) for k in ("IsNaN", "IsInf")), opType="LOGICALOR")
    )


@tf_op("ClipByValue")
def clip_by_value(ctx: Context, node: TfNode) -> Value:
    x, low, high = node.tensors(0, 3)
    limits = [ctx.constant(v) for v in (low, high)]
    if x.dtype is DType.F32 and all(v is not None and v.size == 1 for v in limits):
        least, most = (float(v.reshape(-1)[0]) for v in limits if v is not None)
        return clamp(ctx, x, least, most, slope_at_bounds=1.0)
    return ctx.op("BinaryOp", ctx.op("BinaryOp", x, high, opType="MINIMUM"), low, opType="MAXIMUM")


@tf_op("Select")
def select(ctx: Context, node: TfNode) -> Value:
    """A condition of one axis chooses whole entries along the first axis of the others."""
    condition, x, y = node.tensors(0, 3)
    rank, others = ctx.rank(condition), ctx.rank(y) if ctx.rank(x) is None else ctx.rank(x)
    if rank == 1 and others is not None and others > 1:
        condition = ctx.op("Unsqueeze", condition, squeezeDims=list(range(1, others)))
    elif rank not in (0, others) and (rank is None or others is None) and others not in (0, 1):
        own = ctx.op("Shape", condition)  # axes of size 1 behind its own ones, as many as there are when it runs
        behind = binary(ctx, "SUB", ctx.op("Rank", x), ctx.op("Rank", condition))
        ones = ctx.op("Fill", ctx.op("Reshape", behind, ctx.const([1])), ctx.const(1, DType.I32))
        condition = ctx.op("Reshape", condition, ctx.op("Concat", own, ones, axis=0))
    return ctx.op("Select", condition, x, y)


@tf_op("SelectV2")
def select_v2(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Select", *node.tensors(0, 3))


@tf_op("Cast")
def cast(ctx: Context, node: TfNode) -> Value:
    if node.is_complex("DstT"):
        node.ignore("Truncate")
        return complex_tensors.cast(ctx, node)
    truncate, to = node.bool_attr("Truncate", False), node.dtype_attr("DstT")
    x = node.input(0)
    if truncate and to.is_float and x.dtype is not None and x.dtype.is_float:
        raise node.unsupported("a cast that cuts bits off (Truncate)", "use a cast that rounds")
    if x.dtype is to:
        return x
    known = None if x.is_const or x.shape is None or len(x.shape) != 1 else ctx.constant_ints(x)
    if known and (len(known),) == x.shape:  # sizes that are known, of an input where others are open
        return ctx.const(np.asarray(known).astype(to.numpy))
    return ctx.op("Cast", x, dstT=data_type(to))


@tf_op("Bitcast")
def bitcast(ctx: Context, node: TfNode) -> Value:
    to, x = node.dtype_attr("type"), node.input(0)
    if x.dtype is None or x.dtype.size != to.size:
        raise node.unsupported("a bitcast between types of different sizes", "use types of one size")
    return ctx.op("BitCast", x, dstT=data_type(to))


@tf_op("BiasAdd", "BiasAddV1")
def bias_add(ctx: Context, node: TfNode) -> Value:
    x, bias = node.input(0), node.input(1)
    first = node.choice_attr("data_format", "NHWC", "NHWC", "NCHW") == "NCHW"
    return plus_bias(ctx, node, x, bias, first)


def plus_bias(ctx: Context, node: TfNode, x: Value, bias: Value, first: bool) -> Value:
    """One number per channel added; ``first``: the channels are axis 1 and not the last."""
    if first:
        rank = ctx.rank(x)
        if rank is None:
            raise node.unsupported("an input of unknown rank with channels first", "export the model with shapes")
        if rank > 2:
            bias = ctx.op("Reshape", bias, ctx.const([-1, *(1,) * (rank - 2)]))
    return binary(ctx, "ADD", x, bias)


@tf_op("Cross")
def cross(ctx: Context, node: TfNode) -> Value:
    """The cross product of vectors along the last axis."""

    def turned(v: Value, by: int) -> Value:
        at = ctx.const([(i + by) % 3 for i in range(3)], DType.I32)
        return ctx.op("GatherV2", v, at, ctx.const(-1, DType.I32))

    x, y = node.input(0), node.input(1)
    return binary(
        ctx, "SUB", binary(ctx, "MUL", turned(x, 1), turned(y, 2)), binary(ctx, "MUL", turned(x, 2), turned(y, 1))
    )


@tf_op("L2Loss")
def l2_loss(ctx: Context, node: TfNode) -> Value:
    total = ctx.op("Reduction", unary(ctx, "SQUARE", node.input(0)), operation="SUM")
    total.dtype = node.input(0).dtype
    return binary(ctx, "MUL", total, 0.5)


@tf_op("ZerosLike", "OnesLike")
def full_like(ctx: Context, node: TfNode) -> Value:
    x = node.any_input(0)
    number = 0 if node.op == "ZerosLike" else 1
    sizes = ctx.static_shape(x)
    if sizes is not None and x.dtype is not None and x.dtype is not DType.STR:
        return ctx.const(np.full(sizes, number, x.dtype.numpy))
    return ctx.op("Fill", ctx.op("Shape", x), ctx.const_like(number, x))
