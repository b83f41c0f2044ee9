"""Operators on images that move pixels: blocks, grids, regions, deformable convolution."""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.operators.convolution import ints
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value


@onnx_op("DepthToSpace", "SpaceToDepth")
def blocks(ctx: Context, node: OnnxNode) -> Value:
    mode = node.choice_attr("mode", "DCR", "DCR", "CRD")
    return ctx.op(node.op, node.input(0), blockSize=node.int_attr("blocksize"), mode=mode)


@onnx_op("Col2Im", operands=Operands(lists=(1, 2)))
def col2im(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op(
        "OnnxCol2Im", node.input(0), node.input(1), node.input(2), dilations=node.ints_attr("dilations", None),
        pads=node.ints_attr("pads", None), strides=node.ints_attr("strides", None),
    )  # fmt: skip


@onnx_op("GridSample")
def grid_sample(ctx: Context, node: OnnxNode) -> Value:
    mode = node.choice_attr("mode", "linear", "linear", "bilinear", "nearest", "cubic", "bicubic")
    padding = node.choice_attr("padding_mode", "zeros", "zeros", "border", "reflection")
    kind = {"nearest": "NEAREST", "cubic": "CUBIC", "bicubic": "CUBIC"}.get(mode, "BILINEAR")
    return ctx.op(
        "OnnxGridSample" if kind == "CUBIC" else "GridSample", node.input(0), node.input(1), mode=kind,
        paddingMode={"zeros": "ZEROS", "border": "CLAMP", "reflection": "REFLECTION"}[padding],
        alignCorners=node.bool_attr("align_corners", False),
    )  # fmt: skip


@onnx_op("RoiAlign")
def roi_align(ctx: Context, node: OnnxNode) -> Value:
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    transform = node.choice_attr("coordinate_transformation_mode", default, "half_pixel", "output_half_pixel")
    largest = node.choice_attr("mode", "avg", "avg", "max") == "max"
    return ctx.op(
        "ROIAlign", node.input(0), node.input(1), node.input(2), pooledHeight=node.int_attr("output_height", 1),
        pooledWidth=node.int_attr("output_width", 1), spatialScale=node.float_attr("spatial_scale", 1.0),
        samplingRatio=node.int_attr("sampling_ratio", 0), aligned=transform == "half_pixel",
        poolType="MAXPOOL" if largest else "AVEPOOL",
    )  # fmt: skip


@onnx_op("MaxRoiPool")
def max_roi_pool(ctx: Context, node: OnnxNode) -> Value:
    height, width = ints(node, "pooled_shape", 2, 1)
    return ctx.op(
        "ROIPooling", node.input(0), node.input(1), pooledHeight=height, pooledWidth=width,
        spatialScale=node.float_attr("spatial_scale", 1.0), poolType="MAXPOOL",
    )  # fmt: skip


@onnx_op("DeformConv", operands=Operands(lists=(3,)))
def deform_conv(ctx: Context, node: OnnxNode) -> Value:
    if ctx.rank(node.input(0)) not in (4, None):
        raise node.unsupported("an input that is not [N, C, H, W]")
    node.ignore("kernel_shape")
    return ctx.op(
        "DeformConv", *(node.optional(i) for i in range(5)), strides=ints(node, "strides", 2, 1),
        dilations=ints(node, "dilations", 2, 1), pads=ints(node, "pads", 4, 0), group=node.int_attr("group", 1),
        offset_group=node.int_attr("offset_group", 1),
    )  # fmt: skip
