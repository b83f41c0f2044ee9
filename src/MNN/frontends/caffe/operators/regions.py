"""Layers of networks with regions (Faster R-CNN and others)."""

from __future__ import annotations

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.ir.graph import Value

MAX_BINS = 1 << 10


@caffe_layer("ROIPooling")
def roi_pooling(ctx: Context, node: CaffeNode) -> Value:
    """The largest number in every bin of every region; regions are rows of a sample's number and corners."""
    param = node.params("roi_pooling_param")
    height, width = param.integer("pooled_h", 0), param.integer("pooled_w", 0)
    if not (1 <= height <= MAX_BINS and 1 <= width <= MAX_BINS):
        raise node.malformed(f"{height} x {width} bins")
    return ctx.op(
        "ROIPooling", node.input(0), node.input(1), pooledHeight=height, pooledWidth=width,
        spatialScale=param.number("spatial_scale", 1.0),
    )  # fmt: skip
