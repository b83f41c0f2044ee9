"""Layers that normalise."""

from __future__ import annotations

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value


def _batch_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    return {name: r.plain(p.integer(0)) for name in ("slope", "mean", "variance", "bias")}


@ncnn_layer("BatchNorm", weights=_batch_weights)
def batch_norm(ctx: Context, node: NcnnNode) -> Value:
    """One set of numbers for each place of the first of ncnn's axes."""
    count, epsilon = node.params.integer(0), node.params.real(1)
    names = ("slope", "bias", "mean", "variance")
    slope, bias, mean, variance = (node.weight(n, [count]) for n in names)
    if not (variance + np.float32(epsilon) > 0).all():  # ncnn divides by 1e-4 where there is nothing to divide by
        root = np.sqrt(np.maximum(variance + np.float32(epsilon), 0))
        root = np.where(root == 0, np.float32(1e-4), root)
        scale = ctx.const(slope / root)
        return ctx.op("Scale", node.input(0), scale, ctx.const(bias - slope * mean / root), channels=count)
    given = [ctx.const(np.ascontiguousarray(a)) for a in (slope, bias, mean, variance)]
    return ctx.op("BatchNorm", node.input(0), *given, channels=count, epsilon=epsilon)


def _channel_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    return {"gamma": r.plain(p.integer(0)), "beta": r.plain(p.integer(0))} if p.flag(2, True) else {}


@ncnn_layer("InstanceNorm", weights=_channel_weights)
def instance_norm(ctx: Context, node: NcnnNode) -> Value:
    """Every channel by itself; lines and matrices are one channel."""
    x, epsilon = node.input(0), node.params.real(1, 0.001)
    dims = ctx.dims(node, x)
    shaped = x if dims > 2 else ctx.op("Unsqueeze", x, squeezeDims=[1])
    out = ctx.op("InstanceNorm", shaped, *_pair(ctx, node, dims > 2), epsilon=epsilon)
    return out if dims > 2 else ctx.op("Squeeze", out, squeezeDims=[1])


def _pair(ctx: Context, node: NcnnNode, whole: bool = True) -> list[Value]:
    if not node.has_weight("gamma"):
        return []
    found = [node.weights("gamma"), node.weights("beta")]
    return [ctx.const(np.ascontiguousarray(a if whole else a[:1])) for a in found]


def _group_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    return {"gamma": r.plain(p.integer(1)), "beta": r.plain(p.integer(1))} if p.flag(3, True) else {}


@ncnn_layer("GroupNorm", weights=_group_weights)
def group_norm(ctx: Context, node: NcnnNode) -> Value:
    p = node.params
    return ctx.op("GroupNorm", node.input(0), *_pair(ctx, node), group=p.integer(0, 1), epsilon=p.real(2, 0.001))


def _trailing(ctx: Context, node: NcnnNode, x: Value, size: int) -> list[int]:
    """The last axes that have ``size`` numbers; a vector is normalised whole."""
    dims = ctx.dims(node, x)
    most = max(dims - 1, 1)
    product = 1
    for count in range(1, most + 1):
        found = ctx.extent(x, dims + 1 - count)
        if found is None and count < most:
            raise node.unsupported("a last axis of unknown size", "give the shapes of the inputs (--input-shape)")
        product *= found or 0
        if product == size or count == most:
            return list(range(-count, 0))
    return [-1]


@ncnn_layer("LayerNorm", weights=_channel_weights)
def layer_norm(ctx: Context, node: NcnnNode) -> Value:
    """Over the last axes, as many as have ``affine_size`` numbers."""
    x = node.input(0)
    axes = _trailing(ctx, node, x, node.params.integer(0))
    return ctx.op("LayerNorm", x, *_pair(ctx, node), axis=axes, epsilon=node.params.real(1, 0.001))


def _gamma(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    return {"gamma": r.plain(p.integer(0))} if p.flag(2, True) else {}


@ncnn_layer("RMSNorm", weights=_gamma)
def rms_norm(ctx: Context, node: NcnnNode) -> Value:
    x = node.input(0)
    axes = _trailing(ctx, node, x, node.params.integer(0))
    gamma = [ctx.const(node.weights("gamma"))] if node.has_weight("gamma") else []
    epsilon = node.params.real(1, 0.001)
    return ctx.op("LayerNorm", x, *gamma, axis=axes, epsilon=epsilon, useRMSNorm=True)


@ncnn_layer("LRN")
def lrn(ctx: Context, node: NcnnNode) -> Value:
    p, x = node.params, ctx.expect(node, node.input(0), 3)
    if p.integer(0) == 0 and p.integer(1, 5) % 2 == 0:  # ncnn's windows over channels reach as far on both sides
        raise node.unsupported(f"{p.integer(1)} neighbouring channels, an even number")
    return ctx.op(
        "LRN", x, regionType=p.integer(0), localSize=p.integer(1, 5), alpha=p.real(2, 1.0), beta=p.real(3, 0.75),
        bias=p.real(4, 1.0),
    )  # fmt: skip


@ncnn_layer("MVN")
def mvn(ctx: Context, node: NcnnNode) -> Value:
    """Minus the mean, divided by the deviation plus epsilon."""
    p, x = node.params, node.input(0)
    dims = ctx.dims(node, x)
    if dims < 3:
        raise node.unsupported(f"an input of {dims} dimensions")
    axes = list(range(1 if p.flag(1) else 2, dims + 1))
    centred = ctx.binary("SUB", x, ctx.op("Reduction", x, operation="MEAN", dim=axes, keepDims=True))
    if not p.flag(0):
        return centred
    variance = ctx.op("Reduction", ctx.unary("SQUARE", centred), operation="MEAN", dim=axes, keepDims=True)
    return ctx.binary("REALDIV", centred, ctx.affine(ctx.unary("SQRT", variance), 1, p.real(2, 0.0001)))


def _normalize_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    return {"scale": r.plain(p.integer(3))}


@ncnn_layer("Normalize", weights=_normalize_weights)
def normalize(ctx: Context, node: NcnnNode) -> Value:
    """Divided by the root of the sum of squares over space, channels or both; parameter 9 says how epsilon counts:
    added to the sum (Caffe), at least this root (PyTorch), at least this sum (TensorFlow)."""
    p, x = node.params, node.input(0)
    dims = ctx.dims(node, x)
    if dims < 3:
        x = ctx.op("Unsqueeze", x, squeezeDims=[1])
    axes = [1] if p.flag(4, True) else []
    axes += list(range(2, max(dims + 1, (ctx.rank(x) or 0)))) if p.flag(0) else []
    if not axes:
        raise node.malformed("it normalises neither over space nor over channels")
    total = ctx.op("Reduction", ctx.unary("SQUARE", x), operation="SUM", dim=axes, keepDims=True)
    epsilon, mode = p.real(2, 0.0001), p.integer(9)
    if mode == 0:
        root = ctx.unary("SQRT", ctx.affine(total, 1, epsilon))
    elif mode == 1:
        root = ctx.binary("MAXIMUM", ctx.unary("SQRT", total), epsilon)
    else:
        root = ctx.unary("SQRT", ctx.binary("MAXIMUM", total, epsilon))
    out = ctx.binary("REALDIV", x, root)
    scale = node.weights("scale")
    scale = scale[:1] if p.flag(1) or dims < 3 else scale
    if not (scale == 1).all():
        out = ctx.binary("MUL", out, ctx.along(out, scale))
    return ctx.op("Squeeze", out, squeezeDims=[1]) if dims < 3 else out


@ncnn_layer("Softmax")
def softmax(ctx: Context, node: NcnnNode) -> Value:
    """Files without parameter 1 are of old tools, whose axes are ambiguous."""
    x, axis = node.input(0), node.params.integer(0)
    if axis != 0 and not node.params.flag(1):
        raise node.unsupported("an axis as old tools wrote it", "write the .param file anew with ncnn's tools")
    return ctx.op("Softmax", x, axis=ctx.axis(node, x, axis))
