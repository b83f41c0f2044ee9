"""Regions of images, as torchvision has them: boxes that stay, what lies in boxes, windows with offsets."""

from __future__ import annotations

from MNN.frontends.torch.aten.slicing import END, cut
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@aten("torchvision.nms")
def nms(ctx: TorchBuilder, boxes: Value, scores: Value, iou_threshold: float) -> Value:
    """Places of the boxes (x1, y1, x2, y2) that overlap no better one by more, best first."""
    limits = [ctx.scalar(ctx.size(boxes, 0), DType.I64), ctx.scalar(iou_threshold, DType.F32)]
    return ctx.op("NonMaxSuppressionV2", boxes, scores, *limits, outputDataType="DT_INT64")


@aten("torchvision.roi_align")
def roi_align(
    ctx: TorchBuilder, x: Value, rois: Value, spatial_scale: float | Number, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> Value:  # fmt: skip
    """torchvision's: rows of ``rois`` are the image's number and the corners of a box."""
    image = ctx.cast(ctx.squeeze(cut(ctx, rois, 1, 0, 1), 1), DType.I32)
    boxes, scale = _scaled(ctx, cut(ctx, rois, 1, 1, END), spatial_scale)
    return ctx.op(
        "ROIAlign", x, boxes, image, pooledWidth=pooled_width, pooledHeight=pooled_height,
        spatialScale=scale, samplingRatio=sampling_ratio, aligned=aligned, poolType="AVEPOOL",
    )  # fmt: skip


@aten("torchvision.deform_conv2d")
def deform_conv2d(
    ctx: TorchBuilder, x: Value, weight: Value, offset: Value, mask: Value, bias: Value | None, stride_h: int,
    stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int,
    use_mask: bool,
) -> Value:  # fmt: skip
    """torchvision's."""
    return ctx.op(
        "DeformConv", x, weight, offset, bias, mask if use_mask else None, strides=[stride_h, stride_w],
        dilations=[dilation_h, dilation_w], pads=[pad_h, pad_w, pad_h, pad_w], group=groups, offset_group=offset_groups,
    )  # fmt: skip


@aten("torchvision.roi_pool")
def roi_pool(
    ctx: TorchBuilder, x: Value, rois: Value, spatial_scale: float | Number, pooled_height: int, pooled_width: int
) -> list[Value | None]:
    """The largest number in every bin of every region; where it lies (the second result) is not computed."""
    boxes, scale = _scaled(ctx, cut(ctx, rois, 1, 1, END), spatial_scale)
    if isinstance(spatial_scale, Number):
        rois = ctx.op("Concat", cut(ctx, rois, 1, 0, 1), boxes, axis=1)
    out = ctx.op("ROIPooling", x, rois, pooledHeight=pooled_height, pooledWidth=pooled_width, spatialScale=scale)
    return [out, None]


def _scaled(ctx: TorchBuilder, boxes: Value, scale: float | Number) -> tuple[Value, float]:
    """Boxes and the scale they still need: one that the program computes from sizes is multiplied with here."""
    if not isinstance(scale, Number):
        return boxes, scale
    return ctx.op("BinaryOp", boxes, ctx.scalar(scale, ctx.type_of(boxes)), opType="MUL"), 1.0
