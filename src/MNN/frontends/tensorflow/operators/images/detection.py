"""Non-maximum suppression."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.lists import one
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@tf_op("NonMaxSuppression")
def suppression_1(ctx: Context, node: TfNode) -> Value:
    limit = ctx.const(node.float_attr("iou_threshold", 0.5), DType.F32)
    return ctx.op("NonMaxSuppressionV2", *node.tensors(0, 3), limit)


@tf_op("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def suppression(ctx: Context, node: TfNode) -> Value:
    return ctx.op("NonMaxSuppressionV2", *node.tensors(0, 4 if node.op.endswith("2") else 5))


@tf_op("NonMaxSuppressionV4")
def suppression_padded(ctx: Context, node: TfNode) -> list[Value]:
    found = ctx.op("NonMaxSuppressionV2", *node.tensors(0, 5))
    count = ctx.op("Size", found)
    if node.bool_attr("pad_to_max_output_size", False):
        found = _filled(ctx, found, count, node.input(2))
    return [found, count]


@tf_op("NonMaxSuppressionV5")
def suppression_soft(ctx: Context, node: TfNode) -> list[Value]:
    sigma = ctx.constant(node.input(5))
    if sigma is None or float(sigma.reshape(-1)[0]) != 0:
        raise node.unsupported("soft suppression (soft_nms_sigma)", "use a sigma of 0")
    found = ctx.op("NonMaxSuppressionV2", *node.tensors(0, 5))
    count = ctx.op("Size", found)
    scores = ctx.op("GatherV2", node.input(1), found, ctx.const(0, DType.I32))
    if node.bool_attr("pad_to_max_output_size", False):
        found, scores = (_filled(ctx, v, count, node.input(2)) for v in (found, scores))
    return [found, scores, count]


def _filled(ctx: Context, x: Value, count: Value, size: Value) -> Value:
    """Zeros behind ``x`` up to ``size``."""
    missing = one(ctx, binary(ctx, "SUB", size, count))
    return ctx.op("Padding", x, ctx.op("Concat", ctx.const([0], DType.I32), missing, axis=0), mode="CONSTANT")
