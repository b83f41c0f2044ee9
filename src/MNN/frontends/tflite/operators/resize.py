"""Resizing of images, and MediaPipe's sampling of them."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.nearest import taken, unlike_ours
from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.images.resize_tables import Method


@tflite_op("RESIZE_BILINEAR")
def resize_bilinear(ctx: Context, node: TfliteNode) -> Value:
    """Of 16 bits, pixels lie at whole 1024ths of the distance of two, as the only kernel for them has it."""
    half, aligned = node.flag("half_pixel_centers"), node.flag("align_corners")
    made, given, tensor = ctx.constant_ints(node.input(1)) or [], node.input(0).shape or (), node.tensors_in[0]
    sizes = [d for d in given[1:3] if isinstance(d, int) and d > 0]
    exact = tensor is not None and tensor.type == "INT16" and len(sizes) == len(made) == 2 and min(made) > 0
    transform = "half_pixel" if half else "align_corners" if aligned else "asymmetric"
    names = {"half_pixel": "HalfPixels", "align_corners": "AlignCorners", "asymmetric": "Asymmetric"}

    def resized(x: Value) -> Value:
        if exact:
            for axis, size, count in zip((2, 3), sizes, made, strict=True):
                x = _blended(ctx, x, axis, _places(size, count, half, aligned), size)
            return x
        return ctx.op(
            "Interp", x, ctx.cast(node.input(1), DType.I32), resizeType=2, ctm=names[transform], alignCorners=aligned,
            halfPixelCenters=half,
        )  # fmt: skip

    return ctx.channels_last(ctx.mean_of_steps(node, node.input(0), ctx.channels_first(node, 0), resized))


def _places(size: int, count: int, half: bool, aligned: bool) -> np.ndarray:
    """Where ``count`` pixels lie among ``size``, in 1024ths: at the last of them where a step that was rounded up leads
    beyond."""
    first, last = (size - 1, count - 1) if aligned and count > 1 else (size, count)
    step = (1024 * first + last // 2) // last
    return np.minimum(np.arange(count, dtype=np.int64) * step + (step // 2 - 512 if half else 0), 1024 * (size - 1))


def _blended(ctx: Context, x: Value, axis: int, places: np.ndarray, size: int) -> Value:
    """Neighbours along an axis, each by its share."""
    low = np.maximum(places, 0) // 1024
    high = np.minimum(-(-places // 1024), size - 1)
    column = [-1, *[1] * (3 - axis)]
    share = ((places - 1024 * low) / 1024).astype(np.float32).reshape(column)

    def taken(lines: np.ndarray, part: np.ndarray) -> Value:
        return ctx.binary("MUL", ctx.op("GatherV2", x, ctx.const(lines), ctx.const(axis)), ctx.const(part))

    return ctx.binary("ADD", taken(low, 1 - share), taken(high, share))


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
