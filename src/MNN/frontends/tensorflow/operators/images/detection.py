"""Non-maximum suppression."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import binary, clamp, insert_axis
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
    """With a sigma, scores of boxes that overlap better ones are lowered, and none is dropped for that."""
    sigma = ctx.constant(node.input(5))
    if sigma is None:
        raise node.unsupported("a soft_nms_sigma that is not constant", "use a constant")
    if float(sigma.reshape(-1)[0]) == 0:
        found = ctx.op("NonMaxSuppressionV2", *node.tensors(0, 5))
        scores = ctx.op("GatherV2", node.input(1), found, ctx.const(0, DType.I32))
    else:
        boxes, given, most, _, least, lowering = node.tensors(0, 6)
        found, scores = ctx.emit(
            "SoftSuppression", [boxes, given, most, ctx.const(np.inf, DType.F32), least, lowering], 2
        )
        found.dtype = DType.I32
    scores.dtype = node.input(1).dtype
    count = ctx.op("Size", found)
    if node.bool_attr("pad_to_max_output_size", False):
        found, scores = (_filled(ctx, v, count, node.input(2)) for v in (found, scores))
    return [found, scores, count]


@tf_op("CombinedNonMaxSuppression")
def suppression_by_class(ctx: Context, node: TfNode) -> list[Value]:
    """Boxes ``[N, K, 1 or C, 4]`` and scores ``[N, K, C]``: suppression for each class, and the best of what stays in
    all of them; zeros behind. Scores that do not stay become negative infinity in a table, whose largest are taken."""
    boxes, scores, most, total, overlap, least = node.tensors(0, 6)
    pad_per_class, clip = node.bool_attr("pad_per_class", False), node.bool_attr("clip_boxes", True)
    rows = ctx.constant_ints(total)
    kinds = scores.shape[-1] if scores.shape else None
    given = (boxes.shape or (None,) * 4)[2]
    limit = ctx.constant_ints(most)
    if not isinstance(kinds, int) or not isinstance(given, int) or not rows or not limit:
        raise node.unsupported("an open number of classes or of results", "export the model with shapes")
    count = min(rows[0], limit[0] * kinds) if pad_per_class else rows[0]
    by_class = ctx.op("Permute", scores, dims=[0, 2, 1])  # [N, C, K]
    places = ctx.op("Shape", by_class)
    if given == 1:
        all_boxes = ctx.op("Squeeze", boxes, squeezeDims=[2])  # [N, K, 4]
        kept = ctx.op("NonMaxSuppression", all_boxes, by_class, most, overlap, least)
        table = by_class
    else:
        boxes = ctx.op("Permute", boxes, dims=[0, 2, 1, 3])
        length = ctx.op("Shape", boxes, hasStart=True, start=2)
        all_boxes = ctx.op("Reshape", boxes, ctx.op("Concat", ctx.const([-1], DType.I32), length, axis=0))
        line = ctx.op("Shape", by_class, hasStart=True, start=2)
        table = ctx.op("Reshape", by_class, ctx.op("Concat", ctx.const([-1, 1], DType.I32), line, axis=0))
        kept = ctx.op("NonMaxSuppression", all_boxes, table, most, overlap, least)
    kept_scores = ctx.op("GatherND", table, kept)
    shape = ctx.op("Shape", table)
    none = ctx.op("Fill", shape, ctx.const(-np.inf, DType.F32))
    stay = ctx.op("Reshape", ctx.op("ScatterNd", kept, kept_scores, shape, none), places)
    flat = ctx.op("Reshape", stay, ctx.const([0, -1]))
    lacking = ctx.op("Padding", flat, ctx.const([0, 0, 0, count]), ctx.const(-np.inf, DType.F32), mode="CONSTANT")
    best, at = ctx.emit(
        "TopKV2", [lacking, ctx.const([count], DType.I32), ctx.const(-1, DType.I32)], 2, sorted=True, largest=True
    )
    best.dtype, at.dtype = DType.F32, DType.I32
    there = ctx.op("BinaryOp", best, ctx.const(-np.inf, DType.F32), opType="GREATER")
    size = ctx.op("Squeeze", ctx.op("Shape", stay, hasStart=True, start=2, hasEnd=True, end=3), squeezeDims=[0])
    safe = ctx.op("Select", there, at, ctx.const(0, DType.I32))
    safe.dtype = DType.I32
    kind, box = binary(ctx, "FLOORDIV", safe, size), binary(ctx, "FLOORMOD", safe, size)
    if given == 1:
        found = ctx.op("GatherND", all_boxes, insert_axis(ctx, box, 2), batchDims=1)
    else:
        both = ctx.op("Pack", kind, box, axis=2)
        found = ctx.op("GatherND", boxes, both, batchDims=1)
    found.dtype = DType.F32
    if clip:
        found = clamp(ctx, found, 0.0, 1.0)
    zero = ctx.const(0, DType.F32)
    number = ctx.op("Reduction", ctx.op("Cast", there, dstT="DT_INT32"), operation="SUM", dim=[1], keepDims=False)
    return [
        ctx.op("Select", insert_axis(ctx, there, 2), found, zero),
        ctx.op("Select", there, best, zero),
        ctx.op("Select", there, ctx.op("Cast", kind, dstT="DT_FLOAT"), zero),
        number,
    ]


def _filled(ctx: Context, x: Value, count: Value, size: Value) -> Value:
    """Zeros behind ``x`` up to ``size``."""
    missing = one(ctx, binary(ctx, "SUB", size, count))
    return ctx.op("Padding", x, ctx.op("Concat", ctx.const([0], DType.I32), missing, axis=0), mode="CONSTANT")
