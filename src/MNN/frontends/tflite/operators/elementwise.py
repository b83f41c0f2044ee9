"""Arithmetic, comparisons, activations and other functions of single numbers."""

from __future__ import annotations

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_ARITHMETIC = {"ADD": "ADD", "SUB": "SUB", "MUL": "MUL"}
_BINARY = {
    "MAXIMUM": "MAXIMUM", "MINIMUM": "MINIMUM", "POW": "POW", "FLOOR_DIV": "FLOORDIV", "FLOOR_MOD": "FLOORMOD",
    "ATAN2": "ATAN2", "EQUAL": "EQUAL", "NOT_EQUAL": "NOTEQUAL",
    "LESS": "LESS", "LESS_EQUAL": "LESS_EQUAL", "GREATER": "GREATER", "GREATER_EQUAL": "GREATER_EQUAL",
    "BITWISE_XOR": "BITWISE_XOR", "RIGHT_SHIFT": "RIGHTSHIFT", "STABLEHLO_ADD": "ADD", "STABLEHLO_SUBTRACT": "SUB",
    "STABLEHLO_MULTIPLY": "MUL", "STABLEHLO_DIVIDE": "REALDIV", "STABLEHLO_MAXIMUM": "MAXIMUM",
    "STABLEHLO_MINIMUM": "MINIMUM", "STABLEHLO_POWER": "POW", "STABLEHLO_SHIFT_LEFT": "LEFTSHIFT",
}  # fmt: skip
_UNARY = {
    "NEG": "NEG", "SQRT": "SQRT", "SIN": "SIN",
    "COS": "COS", "SQUARE": "SQUARE", "FLOOR": "FLOOR", "CEIL": "CEIL", "ROUND": "ROUND", "SIGN": "SIGN",
    "STABLEHLO_ABS": "ABS", "STABLEHLO_NEGATE": "NEG", "STABLEHLO_EXPONENTIAL": "EXP", "STABLEHLO_LOG": "LOG",
    "STABLEHLO_RSQRT": "RSQRT", "STABLEHLO_COSINE": "COS", "STABLEHLO_FLOOR": "FLOOR",
}  # fmt: skip
_DIRECTIONS = {
    "EQ": "EQUAL",
    "NE": "NOTEQUAL",
    "GE": "GREATER_EQUAL",
    "GT": "GREATER",
    "LE": "LESS_EQUAL",
    "LT": "LESS",
}


@tflite_op(*_ARITHMETIC)
def arithmetic(ctx: Context, node: TfliteNode) -> Value:
    made = ctx.binary(_ARITHMETIC[node.op], ctx.real(node, 0), ctx.real(node, 1))
    return ctx.activated(node, made)


@tflite_op(*_BINARY)
def binary(ctx: Context, node: TfliteNode) -> Value:
    return ctx.binary(_BINARY[node.op], ctx.real(node, 0), ctx.real(node, 1))


@tflite_op(*_UNARY)
def unary(ctx: Context, node: TfliteNode) -> Value:
    return ctx.unary(_UNARY[node.op], ctx.real(node, 0))


@tflite_op("STABLEHLO_CBRT")
def cube_root(ctx: Context, node: TfliteNode) -> Value:
    x = ctx.real(node, 0)
    root = ctx.binary("POW", ctx.unary("ABS", x), ctx.const_like(1 / 3, x))
    return ctx.binary("MUL", ctx.unary("SIGN", x), root)


@tflite_op("STABLEHLO_REMAINDER")
def remainder(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Remainder", ctx.real(node, 0), ctx.real(node, 1))


@tflite_op("STABLEHLO_COMPARE")
def compare(ctx: Context, node: TfliteNode) -> Value:
    direction = str(node.option("comparison_direction")).rpartition("_")[2]
    if direction not in _DIRECTIONS:
        raise node.unsupported(f"the comparison {direction}")
    return ctx.binary(_DIRECTIONS[direction], ctx.real(node, 0), ctx.real(node, 1))


@tflite_op("STABLEHLO_CLAMP")
def clamp(ctx: Context, node: TfliteNode) -> Value:
    low, x, high = (ctx.real(node, i) for i in range(3))
    return ctx.binary("MINIMUM", ctx.binary("MAXIMUM", x, low), high)


@tflite_op("ADD_N")
def add_n(ctx: Context, node: TfliteNode) -> Value:
    total = ctx.real(node, 0)
    for i in range(1, len(node.inputs)):
        total = ctx.binary("ADD", total, ctx.real(node, i))
    return ctx.op("Identity", total) if len(node.inputs) == 1 else total


@tflite_op("LOGICAL_AND")
def logical_and(ctx: Context, node: TfliteNode) -> Value:
    return ctx.binary("BITWISE_AND", node.input(0), node.input(1))


@tflite_op("LOGICAL_OR")
def logical_or(ctx: Context, node: TfliteNode) -> Value:
    return ctx.binary("LOGICALOR", node.input(0), node.input(1))


@tflite_op("STABLEHLO_AND", "STABLEHLO_OR")
def bits(ctx: Context, node: TfliteNode) -> Value:
    return ctx.binary("BITWISE_AND" if node.op.endswith("AND") else "BITWISE_OR", node.input(0), node.input(1))


@tflite_op("LOGICAL_NOT")
def logical_not(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Not", node.input(0))


@tflite_op("SELECT_V2", "STABLEHLO_SELECT")
def select_v2(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Select", node.input(0), ctx.real(node, 1), ctx.real(node, 2))


@tflite_op("SELECT")
def select(ctx: Context, node: TfliteNode) -> Value:
    """A condition of one dimension chooses whole entries of the first axis."""
    condition, x, y = node.input(0), ctx.real(node, 1), ctx.real(node, 2)
    ranks = node.rank(0), node.rank(1)
    if ranks[0] == 1 and ranks[1] > 1:
        condition = ctx.op("Reshape", condition, ctx.const([-1, *[1] * (ranks[1] - 1)]))
    return ctx.op("Select", condition, x, y)


@tflite_op("CAST", "STABLEHLO_CONVERT")
def cast(ctx: Context, node: TfliteNode) -> Value:
    """The numbers as they are stored: quantised ones count as integers."""
    result, given = node.tensors_out[0], node.tensors_in[0]
    if result.dtype is None:
        raise node.unsupported(f"a result of type {result.type}")
    x = node.input(0)
    if given is not None and given.type == "COMPLEX64" and result.type != "COMPLEX64":
        x = ctx.op("GatherV2", x, ctx.const(0), ctx.const(-1))
    if given is not None and given.type != "COMPLEX64" and result.type == "COMPLEX64":
        wide = ctx.cast(x, DType.F32)
        return ctx.op("Pack", wide, ctx.op("ZerosLike", wide), axis=-1)
    return ctx.op("Identity", x) if x.dtype is result.dtype else ctx.cast(x, result.dtype)


@tflite_op("BITCAST", stored=True)
def bitcast(ctx: Context, node: TfliteNode) -> Value:
    from MNN.ops.core.datatypes import data_type

    given, made = node.input(0).dtype, node.tensors_out[0].dtype
    if given is None or made is None or given.size != made.size:
        raise node.unsupported("a change of width", "cast the tensor in the model's source instead")
    return ctx.op("BitCast", node.input(0), dstT=data_type(made))


@tflite_op("FAKE_QUANT")
def fake_quant(ctx: Context, node: TfliteNode) -> Value:
    """Rounds to the steps that a range of integers would have (Jacob et al. 2018, arXiv:1712.05877): the range is
    moved so that zero is one of them."""
    x = ctx.real(node, 0)
    low, high, bits = float(node.option("min", 0.0)), float(node.option("max", 0.0)), node.number("num_bits")
    if not (2 <= bits <= 16 and low <= 0 <= high and low < high):
        raise node.malformed(f"a range of {low} to {high} in {bits} bits")
    first, last = int(node.flag("narrow_range")), (1 << bits) - 1
    step = np.float32(np.float32(high - low) / np.float32(last - first))
    zero = min(max(round(float(np.float32(first) - np.float32(low) / step)), first), last)
    start, stop = np.float32((first - zero) * step), np.float32((last - zero) * step)
    inside = ctx.op("ReLU6", x, minValue=float(start), maxValue=float(stop))
    steps = ctx.binary("MUL", ctx.binary("SUB", inside, ctx.const(start)), ctx.const(np.float32(1) / step))
    whole = ctx.unary("FLOOR", ctx.binary("ADD", steps, ctx.const(np.float32(0.5))))
    return ctx.binary("ADD", ctx.binary("MUL", whole, ctx.const(step)), ctx.const(start))


@tflite_op("DENSIFY", stored=True)
def densify(ctx: Context, node: TfliteNode) -> Value:
    """Sparse constants are read in full already."""
    return ctx.op("Identity", node.input(0))


@tflite_op("ELU")
def elu(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("ELU", ctx.real(node, 0), alpha=1.0)


@tflite_op("GELU")
def gelu(ctx: Context, node: TfliteNode) -> Value:
    return ctx.unary("GELU" if node.flag("approximate") else "GELU_STANDARD", ctx.real(node, 0))


@tflite_op("STABLEHLO_LOGISTIC")
def logistic(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Sigmoid", ctx.real(node, 0))


@tflite_op("STABLEHLO_TANH")
def tanh(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("TanH", ctx.real(node, 0))
