"""Losses that a model gives as results; what they give for training besides."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, insert_axis, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@tf_op("SoftmaxCrossEntropyWithLogits")
def cross_entropy(ctx: Context, node: TfNode) -> list[Value]:
    """Of scores and shares of classes, row by row; and its gradient."""
    scores, shares = node.input(0), node.input(1)
    logs = ctx.op("LogSoftmax", scores, axis=1)
    logs.dtype = scores.dtype
    loss = ctx.op("Reduction", binary(ctx, "MUL", logs, shares), operation="SUM", dim=[1], keepDims=False)
    return [unary(ctx, "NEG", loss), binary(ctx, "SUB", unary(ctx, "EXP", logs), shares)]


@tf_op("SparseSoftmaxCrossEntropyWithLogits")
def cross_entropy_of_classes(ctx: Context, node: TfNode) -> list[Value]:
    """Of scores and the class of each row; and its gradient."""
    scores, classes = node.input(0), node.input(1)
    logs = ctx.op("LogSoftmax", scores, axis=1)
    logs.dtype = scores.dtype
    loss = ctx.op("GatherND", logs, insert_axis(ctx, classes, 1), batchDims=1)
    loss.dtype = scores.dtype
    count = ctx.op("Shape", scores, hasStart=True, start=1, hasEnd=True, end=2)
    hot = ctx.op(
        "OneHot", classes, ctx.op("Squeeze", count), ctx.const_like(1, scores), ctx.const_like(0, scores), axis=-1
    )
    return [unary(ctx, "NEG", loss), binary(ctx, "SUB", unary(ctx, "EXP", logs), hot)]


@tf_op("InTopK", "InTopKV2")
def in_top_k(ctx: Context, node: TfNode) -> Value:
    """Whether fewer than ``k`` classes have a higher score than the row's own; false where a score is not finite."""
    scores, classes = node.input(0), node.input(1)
    k = node.input(2) if node.op == "InTopKV2" else ctx.const(node.int_attr("k"), DType.I32)
    own = ctx.op("GatherND", scores, insert_axis(ctx, classes, 1), batchDims=1)
    own.dtype = scores.dtype
    above = ctx.op("BinaryOp", scores, insert_axis(ctx, own, 1), opType="GREATER")
    kind = "DT_INT64" if k.dtype is DType.I64 else "DT_INT32"
    number = ctx.op("Reduction", ctx.op("Cast", above, dstT=kind), operation="SUM", dim=[1], keepDims=False)
    strange = ctx.op("BinaryOp", *(ctx.op(o, scores) for o in ("IsNaN", "IsInf")), opType="LOGICALOR")
    finite = ctx.op("Not", ctx.op("Reduction", strange, operation="ANY", dim=[1], keepDims=False))
    return ctx.op("BinaryOp", ctx.op("BinaryOp", number, k, opType="LESS"), finite, opType="MUL")
