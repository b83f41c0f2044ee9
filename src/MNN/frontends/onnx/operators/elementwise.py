"""Elementwise arithmetic, comparisons, logic, choice and casts."""

from __future__ import annotations

from MNN.frontends.common.expressions import select
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.frontends.onnx.tensors import dtype_of
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type
from MNN.ops.elementwise.narrow import ROUND_MODES

_UNARY = {
    "Abs": "ABS",
    "Acos": "ACOS",
    "Acosh": "ACOSH",
    "Asin": "ASIN",
    "Asinh": "ASINH",
    "Atan": "ATAN",
    "Atanh": "ATANH",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Cosh": "COSH",
    "Erf": "ERF",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "Log": "LOG",
    "Neg": "NEG",
    "Reciprocal": "RECIPROCAL",
    "Round": "ROUND",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sinh": "SINH",
    "Sqrt": "SQRT",
    "Tan": "TAN",
}
_BINARY = {
    "Add": "ADD",
    "And": "MUL",
    "BitwiseAnd": "BITWISE_AND",
    "BitwiseOr": "BITWISE_OR",
    "BitwiseXor": "BITWISE_XOR",
    "Div": "REALDIV",
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
    "Mul": "MUL",
    "Or": "LOGICALOR",
    "Sub": "SUB",
    "Xor": "LOGICALXOR",
}


@onnx_op(*_UNARY)
def unary(ctx: Context, node: OnnxNode) -> Value:
    node.ignore("consumed_inputs")
    return ctx.op("UnaryOp", node.input(0), opType=_UNARY[node.op])


@onnx_op(*_BINARY)
def binary(ctx: Context, node: OnnxNode) -> Value:
    x, y = node.input(0), node.input(1)
    node.ignore("consumed_inputs")
    if node.bool_attr("broadcast", False):
        y = _old_broadcast(ctx, node, x, y)
    return ctx.op("BinaryOp", x, y, opType=_BINARY[node.op])


def _old_broadcast(ctx: Context, node: OnnxNode, x: Value, y: Value) -> Value:
    """Opset below 7: ``axis`` says where the second operand's axes lie in the first's."""
    axis = node.int_attr("axis", -1)
    ranks = ctx.rank(x), ctx.rank(y)
    if axis == -1:
        return y
    if ranks[0] is None or ranks[1] is None:
        raise node.unsupported("broadcast with an axis between tensors of unknown rank", "use opset 7 or newer")
    behind = ranks[0] - axis - ranks[1]
    if behind <= 0:
        return y
    return ctx.op("Unsqueeze", y, squeezeDims=[ranks[1] + i for i in range(behind)])


@onnx_op("Pow")
def power(ctx: Context, node: OnnxNode) -> Value:
    x, y = node.input(0), node.input(1)
    if node.bool_attr("broadcast", False):
        y = _old_broadcast(ctx, node, x, y)
    if x.dtype is not None and y.dtype is not None and x.dtype is not y.dtype and x.dtype.is_float:
        y = ctx.op("Cast", y, dstT=data_type(x.dtype))
    return ctx.op("BinaryOp", x, y, opType="POW")


@onnx_op("Mod")
def modulo(ctx: Context, node: OnnxNode) -> Value:
    x, y = node.input(0), node.input(1)
    dtype = x.dtype or y.dtype
    if not node.bool_attr("fmod", False):
        return ctx.op("BinaryOp", x, y, opType="FLOORMOD" if dtype is None or dtype.is_float else "MOD")
    if dtype is not None and dtype.is_float:
        return ctx.op("BinaryOp", x, y, opType="MOD")
    return ctx.op("Remainder", x, y)


@onnx_op("BitShift")
def bit_shift(ctx: Context, node: OnnxNode) -> Value:
    left = node.choice_attr("direction", "", "LEFT", "RIGHT") == "LEFT"
    return ctx.op("BinaryOp", node.input(0), node.input(1), opType="LEFTSHIFT" if left else "RIGHTSHIFT")


@onnx_op("Max", "Min", "Sum", "Mean")
def variadic(ctx: Context, node: OnnxNode) -> Value:
    """Any number of operands that broadcast: a chain of binary operators."""
    node.ignore("consumed_inputs")
    kind = {"Max": "MAXIMUM", "Min": "MINIMUM"}.get(node.op, "ADD")
    out = node.input(0)
    for i in range(1, len(node.inputs)):
        out = ctx.op("BinaryOp", out, node.input(i), opType=kind)
    if node.op == "Mean" and len(node.inputs) > 1:
        count = ctx.const_like(len(node.inputs), node.input(0))
        return ctx.op("BinaryOp", out, count, opType="REALDIV")
    return out


@onnx_op("Not", "BitwiseNot")
def negate(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op(node.op, node.input(0))


@onnx_op("IsNaN")
def is_nan(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("IsNaN", node.input(0))


@onnx_op("IsInf")
def is_inf(ctx: Context, node: OnnxNode) -> Value:
    negative, positive = node.bool_attr("detect_negative", True), node.bool_attr("detect_positive", True)
    return ctx.op("IsInf", node.input(0), detectNegative=negative, detectPositive=positive)


@onnx_op("Where")
def where(ctx: Context, node: OnnxNode) -> Value:
    return select(ctx, node.input(0), node.input(1), node.input(2))


@onnx_op("Clip")
def clip(ctx: Context, node: OnnxNode) -> Value:
    """Opset 6 gives limits as attributes."""
    return limit(ctx, node.input(0), node.float_attr("min", float("-inf")), node.float_attr("max", float("inf")))


@onnx_op("Clip", since=11)
def clip_11(ctx: Context, node: OnnxNode) -> Value:
    x, low, high = node.input(0), node.optional(1), node.optional(2)
    numbers = [ctx.constant(low), ctx.constant(high)]
    if x.dtype is DType.F32 and all(n is not None and n.size == 1 for n in numbers):
        return limit(ctx, x, *[float(n.reshape(-1)[0]) for n in numbers if n is not None])
    out = x
    for value, kind in ((low, "MAXIMUM"), (high, "MINIMUM")):
        if value is not None:
            out = ctx.op("BinaryOp", out, value, opType=kind)
    return out


def limit(ctx: Context, x: Value, low: float, high: float) -> Value:
    """``min(max(x, low), high)``; an infinite limit is none."""
    inf = float("inf")
    if low > -inf and high < inf and x.dtype in (DType.F32, None):
        return ctx.op("ReLU6", x, minValue=low, maxValue=high)
    out = x
    if low > -inf:
        out = ctx.op("BinaryOp", out, ctx.const_like(low, x), opType="MAXIMUM")
    return ctx.op("BinaryOp", out, ctx.const_like(high, x), opType="MINIMUM") if high < inf else out


@onnx_op("Cast")
def cast(ctx: Context, node: OnnxNode) -> Value:
    if node.has("to") and node.opset < 6:
        name = node.str_attr("to")
        raise node.unsupported(f"a cast to '{name}' by name", "use opset 6 or newer")
    dtype = dtype_of(node.int_attr("to"), node.where)
    return ctx.op("Cast", node.input(0), dstT=data_type(dtype), **_narrowing(node))


def _narrowing(node: OnnxNode) -> dict[str, object]:
    """What a cast to a float of 8 bits is told, where it is not the usual."""
    saturate, mode = bool(node.int_attr("saturate", 1)), node.str_attr("round_mode", "up").lower()
    if mode not in ROUND_MODES:
        raise node.unsupported(f"round_mode '{mode}'", f"use one of {', '.join(ROUND_MODES)}")
    return {**({} if saturate else {"saturate": False}), **({} if mode == "up" else {"roundMode": mode})}


@onnx_op("CastLike")
def cast_like(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("CastLike", node.input(0), node.input(1), **_narrowing(node))


@onnx_op("BitCast")
def bit_cast(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("BitCast", node.input(0), dstT=data_type(dtype_of(node.int_attr("to"), node.where)))
