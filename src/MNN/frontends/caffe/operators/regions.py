"""Layers of networks with regions (Faster R-CNN and others)."""

from __future__ import annotations

import re

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.frontends.caffe.unsupported import ADVICE
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


@caffe_layer("PSROIPooling")
def position_sensitive_pooling(ctx: Context, node: CaffeNode) -> Value:
    """The mean of every bin of every region, each bin in channels of its own (Dai et al. 2016, arXiv:1605.06409)."""
    param = node.params("psroi_pooling_param")
    outputs, bins = param.integer("output_dim", 0), param.integer("group_size", 0)
    if not (1 <= bins <= MAX_BINS) or outputs < 1 or node.size(1) != outputs * bins * bins:
        raise node.malformed(f"{node.size(1)} channels for {outputs} outputs in {bins} x {bins} bins")
    return ctx.op(
        "PositionSensitivePooling", node.input(0), node.input(1), channels=outputs, bins=bins,
        spatialScale=param.number("spatial_scale", 1.0),
    )  # fmt: skip


@caffe_layer("Proposal")
def proposal(ctx: Context, node: CaffeNode) -> list[Value]:
    """Regions that may hold something: rows of 0 and corners, best first, and their scores."""
    param = node.params("proposal_param")
    return ctx.emit(
        "RegionProposal", [node.input(i) for i in range(3)], node.outputs, step=param.integer("feat_stride", 16),
        base=param.integer("base_size", 16), smallest=float(param.number("min_size", 16.0)),
        ratios=param.numbers("ratio") or [0.5, 1.0, 2.0], scales=param.numbers("scale") or [8.0, 16.0, 32.0],
        candidates=param.integer("pre_nms_topn", 6000), most=param.integer("post_nms_topn", 300),
        overlap=param.number("nms_thresh", 0.7),
    )  # fmt: skip


@caffe_layer("Python")
def python(ctx: Context, node: CaffeNode) -> list[Value]:
    """Faster R-CNN's layer for proposals; others are programs that nobody has but their author."""
    param = node.params("python_param")
    kind, text = param.text("layer"), param.text("param_str") or param.text("param")
    param.text("module")
    if kind != "ProposalLayer":
        raise node.unsupported(f"the Python layer '{kind}'", ADVICE["Python"])
    found = re.search(r"feat_stride['\"]?\s*:\s*(\d+)", text)
    return ctx.emit(
        "RegionProposal", [node.input(i) for i in range(3)], node.outputs, step=int(found[1]) if found else 16
    )
