"""Resizing of images, and MediaPipe's sampling of them."""

from __future__ import annotations

from MNN.frontends.common.nearest import taken, unlike_ours
from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.images.resize_tables import Method


@tflite_op("RESIZE_BILINEAR")
def resize_bilinear(ctx: Context, node: TfliteNode) -> Value:
    half, aligned = node.flag("half_pixel_centers"), node.flag("align_corners")
    transform = "half_pixel" if half else "align_corners" if aligned else "asymmetric"
    names = {"half_pixel": "HalfPixels", "align_corners": "AlignCorners", "asymmetric": "Asymmetric"}

    def resized(x: Value) -> Value:
        return ctx.op(
            "Interp", x, ctx.cast(node.input(1), DType.I32), resizeType=2, ctm=names[transform], alignCorners=aligned,
            halfPixelCenters=half,
        )  # fmt: skip

    return ctx.channels_last(ctx.mean_of_steps(node, node.input(0), ctx.channels_first(node, 0), resized))


@tflite_op("RESIZE_NEAREST_NEIGHBOR", stored=True)
def resize_nearest(ctx: Context, node: TfliteNode) -> Value:
    """Rounds half away from zero with aligned corners, else down; pixels' centres count where half_pixel_centers."""
    half, aligned = node.flag("half_pixel_centers"), node.flag("align_corners")
    transform = "tf_half_pixel_for_nn" if half else "align_corners" if aligned else "asymmetric"
    method = Method("nearest", transform, "round_prefer_ceil" if aligned else "floor")
    lines = unlike_ours(node.input(0), ctx.constant_ints(node.input(1)), method, aligned, half)
    if lines is not None:
        return taken(ctx, node.input(0), lines)
    x = ctx.permuted(node.input(0), [0, 3, 1, 2])
    sizes = ctx.cast(node.input(1), DType.I64)
    made = ctx.op(
        "OnnxResize", x, None, None, sizes, mode=method.mode, coordinate_transformation_mode=method.transform,
        nearest_mode=method.rounding, axes=[2, 3],
    )  # fmt: skip
    return ctx.channels_last(made)
