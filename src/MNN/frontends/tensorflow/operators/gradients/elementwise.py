"""Derivatives of functions of single numbers, and of what broadcasts them."""

from __future__ import annotations

from collections.abc import Callable

from MNN.frontends.common.expressions import binary, cast, compare
from MNN.frontends.common.terms import Term
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_SCALE, _SCALED_ALPHA = 1.0507009873554805, 1.7580993408473768

_OF_RESULT: dict[str, Callable[[Term, Term], Term]] = {
    "SigmoidGrad": lambda y, d: d * y * (1 - y),
    "TanhGrad": lambda y, d: d * (1 - y * y),
    "SqrtGrad": lambda y, d: d * 0.5 / y,
    "RsqrtGrad": lambda y, d: d * -0.5 * y * y * y,
    "InvGrad": lambda y, d: d * y * y * -1.0,
    "ReciprocalGrad": lambda y, d: d * y * y * -1.0,
}
"""Of a result and the derivative with respect to it."""
_OF_OPERAND: dict[str, Callable[[Term, Term], Term]] = {
    "ReluGrad": lambda d, x: (x > 0).where(d, 0),
    "Relu6Grad": lambda d, x: ((x > 0) & (x < 6)).where(d, 0),
    "EluGrad": lambda d, y: (y < 0).where(d * (y + 1), d),
    "SeluGrad": lambda d, y: (y < 0).where(d * (y + _SCALED_ALPHA), d * _SCALE),
    "SoftplusGrad": lambda d, x: d / ((x * -1.0).exp() + 1),
    "SoftsignGrad": lambda d, x: d / ((abs(x) + 1) * (abs(x) + 1)),
}
"""Of the derivative and the operand (of ELU and SELU the result)."""


@tf_op(*_OF_RESULT)
def of_result(ctx: Context, node: TfNode) -> Value:
    y, slope = (Term(ctx, v) for v in node.tensors(0, 2))
    return _OF_RESULT[node.op](y, slope).value


@tf_op(*_OF_OPERAND)
def of_operand(ctx: Context, node: TfNode) -> Value:
    slope, x = (Term(ctx, v) for v in node.tensors(0, 2))
    return _OF_OPERAND[node.op](slope, x).value


@tf_op("LeakyReluGrad")
def leaky(ctx: Context, node: TfNode) -> Value:
    slope, x = (Term(ctx, v) for v in node.tensors(0, 2))
    return (x > 0).where(slope, slope * node.float_attr("alpha", 0.2)).value


@tf_op("BiasAddGrad")
def bias(ctx: Context, node: TfNode) -> Value:
    """Sums over all axes but that of the channels."""
    x, rank = node.input(0), ctx.rank(node.input(0))
    first = node.choice_attr("data_format", "NHWC", "NHWC", "NCHW") == "NCHW"
    if rank is None:
        raise node.unsupported("an input of unknown rank", "export the model with shapes")
    channels = 1 if first else rank - 1
    axes = [a for a in range(rank) if a != channels]
    return ctx.op("Reduction", x, operation="SUM", dim=axes, keepDims=False)


@tf_op("BroadcastGradientArgs")
def broadcast_axes(ctx: Context, node: TfNode) -> list[Value]:
    """The axes along which each of two shapes is repeated to fit the other: derivatives are summed up over them."""
    shapes = [cast(ctx, v, DType.I32) for v in node.tensors(0, 2)]
    ranks = [v.shape[0] if v.shape else None for v in shapes]
    if not all(isinstance(r, int) for r in ranks):
        raise node.unsupported("shapes of unknown rank", "export the model with shapes")
    rank = max(int(r) for r in ranks if isinstance(r, int))
    wide = []
    for shape, own in zip(shapes, ranks, strict=True):
        ones = ctx.const([1] * (rank - int(own or 0)), DType.I32)
        both = ctx.op("Concat", ones, shape, axis=0) if own != rank else shape
        both.dtype = DType.I32
        wide.append(both)
    differ = compare(ctx, "NOTEQUAL", *wide)
    found = []
    for shape, own in zip(wide, ranks, strict=True):
        missing = ctx.const([i < rank - int(own or 0) for i in range(rank)], DType.BOOL)
        repeated = binary(ctx, "MUL", compare(ctx, "EQUAL", shape, 1), differ)
        axes = ctx.op("Where", ctx.op("BinaryOp", repeated, missing, opType="LOGICALOR"), outputDataType="DT_INT32")
        flat = ctx.op("Reshape", axes, ctx.const([-1]))
        flat.dtype = DType.I32
        found.append(flat)
    return found
