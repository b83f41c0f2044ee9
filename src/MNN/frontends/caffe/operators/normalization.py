"""Normalisations and softmax."""

from __future__ import annotations

import numpy as np

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.frontends.common.expressions import binary, unary
from MNN.ir.graph import Value


@caffe_layer("BatchNorm")
def batch_norm(ctx: Context, node: CaffeNode) -> Value:
    """Statistics of training, stored as sums with the weight of all (Ioffe & Szegedy 2015); ``use_global_stats: false``
    takes those of the batch. NVIDIA's fork scales and shifts too."""
    param, x = node.params("batch_norm_param"), node.input(0)
    epsilon = param.number("eps", 1e-5)
    channels = node.size(1) if node.rank() > 1 else 1
    scaled = param.flag("scale_bias", False)
    factor, shift = (np.ones(channels, np.float32), np.zeros(channels, np.float32))
    if scaled:
        factor, shift = node.weight(3, channels), node.weight(4, channels)
    if not param.flag("use_global_stats", True):
        axes = [a for a in range(node.rank()) if a != 1]
        out = _standardized(ctx, x, axes, epsilon)
        return ctx.op("Scale", out, ctx.const(factor), ctx.const(shift), channels=channels) if scaled else out
    total = float(node.weight(2, 1)[0])
    share = np.float32(1 / total if total else 0.0)
    mean, variance = node.weight(0, channels) * share, node.weight(1, channels) * share
    operands = [ctx.const(a) for a in (factor, shift, mean, variance)]
    return ctx.op("BatchNorm", x, *operands, channels=channels, epsilon=epsilon)


@caffe_layer("BN")
def bn(ctx: Context, node: CaffeNode) -> Value:
    """Forks': slope, bias, mean and variance (PSPNet), or a slope and a bias into which the statistics were put
    (SegNet)."""
    param, x, channels = node.params("bn_param"), node.input(0), node.size(1)
    epsilon = param.number("eps", 1e-5)
    param.number("momentum", 0.0)
    param.flag("frozen", False)
    if node.blobs == 2:
        return ctx.op("Scale", x, *(ctx.const(node.weight(i, channels)) for i in (0, 1)), channels=channels)
    operands = [ctx.const(node.weight(i, channels)) for i in range(4)]
    return ctx.op("BatchNorm", x, *operands, channels=channels, epsilon=epsilon)


def _centred(ctx: Context, x: Value, axes: list[int]) -> Value:
    mean = ctx.op("Reduction", x, operation="MEAN", dim=axes, keepDims=True)
    return binary(ctx, "SUB", x, mean)


def _standardized(ctx: Context, x: Value, axes: list[int], epsilon: float) -> Value:
    """``(x - mean) / sqrt(variance + epsilon)``."""
    centred = _centred(ctx, x, axes)
    variance = ctx.op("Reduction", unary(ctx, "SQUARE", centred), operation="MEAN", dim=axes, keepDims=True)
    return binary(ctx, "REALDIV", centred, unary(ctx, "SQRT", binary(ctx, "ADD", variance, epsilon)))


@caffe_layer("MVN")
def mvn(ctx: Context, node: CaffeNode) -> Value:
    """``(x - mean) / (sqrt(variance) + eps)`` of each channel, or of all channels of a sample."""
    param, x = node.params("mvn_param"), node.input(0)
    across, scaled = param.flag("across_channels", False), param.flag("normalize_variance", True)
    epsilon = param.number("eps", 1e-9)
    axes = list(range(1 if across else 2, node.rank()))
    if not axes:
        raise node.malformed(f"there is nothing to normalise over in a blob of shape {list(node.shape())}")
    centred = _centred(ctx, x, axes)
    if not scaled:
        return centred
    variance = ctx.op("Reduction", unary(ctx, "SQUARE", centred), operation="MEAN", dim=axes, keepDims=True)
    return binary(ctx, "REALDIV", centred, binary(ctx, "ADD", unary(ctx, "SQRT", variance), epsilon))


@caffe_layer("LRN")
def lrn(ctx: Context, node: CaffeNode) -> Value:
    """``x / (k + alpha / n * sum of squares)^beta`` over neighbouring channels, or over a square in space (k is 1)."""
    param = node.params("lrn_param")
    size, k = param.integer("local_size", 5), param.number("k", 1.0)
    within = (
        node.choice(param, "norm_region", "ACROSS_CHANNELS", "ACROSS_CHANNELS", "WITHIN_CHANNEL") != "ACROSS_CHANNELS"
    )
    if size < 1 or size % 2 == 0:
        raise node.malformed(f"local_size {size}, expected an odd number")
    return ctx.op(
        "LRN", node.input(0), regionType=int(within), localSize=size, alpha=param.number("alpha", 1.0),
        beta=param.number("beta", 0.75), bias=1.0 if within else k,
    )  # fmt: skip


@caffe_layer("Normalize", "NormalizeBBox")
def normalize(ctx: Context, node: CaffeNode) -> Value:
    """SSD's: divided by the root of the sum of squares over channels, or channels and space, and scaled."""
    param = node.params("norm_param", "normalize_bbox_param")
    across, shared = param.flag("across_spatial", True), param.flag("channel_shared", True)
    epsilon = param.number("eps", 1e-10)
    if node.rank() < 2:
        raise node.malformed(f"a blob of shape {list(node.shape())} has no channels")
    channels = node.size(1)
    scale = node.weight(0, 1 if shared else channels)
    wide = np.ascontiguousarray(np.broadcast_to(scale, (channels,)))
    return ctx.op(
        "Normalize", node.input(0), ctx.const(wide), acrossSpatial=int(across), channelShared=0, eps=epsilon
    )  # fmt: skip


@caffe_layer("Softmax")
def softmax(ctx: Context, node: CaffeNode) -> Value:
    return ctx.op("Softmax", node.input(0), axis=node.axis(node.params("softmax_param").integer("axis", 1)))
