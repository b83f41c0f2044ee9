"""Several blobs combined element by element, and factors and shifts along some axes."""

from __future__ import annotations

import math

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.frontends.common.expressions import binary
from MNN.ir.graph import Value

_KINDS = {"PROD": "MUL", "SUM": "ADD", "MAX": "MAXIMUM"}


@caffe_layer("Eltwise")
def eltwise(ctx: Context, node: CaffeNode) -> Value:
    """Products, sums (of multiples) and maxima of blobs of one shape."""
    param = node.params("eltwise_param")
    kind = node.choice(param, "operation", "SUM", *_KINDS)
    factors = param.numbers("coeff")
    if factors and (kind != "SUM" or len(factors) != len(node.inputs)):
        raise node.malformed(f"{len(factors)} coefficients for {kind} of {len(node.inputs)} blobs")
    if len(node.inputs) < 2:
        raise node.malformed(f"{len(node.inputs)} blobs, expected two or more")
    for i in range(1, len(node.inputs)):
        _check_same(node, i)
    parts = list(node.inputs)
    if factors:
        parts = [p if f == 1 else binary(ctx, "MUL", p, f) for p, f in zip(parts, factors, strict=True)]
    out = parts[0]
    for part in parts[1:]:
        out = binary(ctx, _KINDS[kind], out, part)
    return out


def _check_same(node: CaffeNode, index: int) -> None:
    one, other = node.shape(0), node.shape(index)
    known = len(one) == len(other) and all(
        a == b or isinstance(a, str) or isinstance(b, str) for a, b in zip(one, other, strict=True)
    )
    if not known:
        raise node.malformed(f"bottoms of shapes {list(one)} and {list(other)}, which should be the same")


@caffe_layer("Scale")
def scale(ctx: Context, node: CaffeNode) -> Value:
    """``x * factor + shift``: weights, or a factor that is the second blob."""
    param, x = node.params("scale_param"), node.input(0)
    axis, count, biased = param.integer("axis", 1), param.integer("num_axes", 1), param.flag("bias_term", False)
    if len(node.inputs) > 1:
        axis = 0 if not node.rank(1) else node.axis(axis)
        out = binary(ctx, "MUL", x, _spread(ctx, node, node.input(1), node.rank(1), axis))
        if not biased:
            return out
        shift = ctx.const(node.weight(0, *node.sizes(1)))
        return binary(ctx, "ADD", out, _spread(ctx, node, shift, node.rank(1), axis))
    shape, axis = _covered(node, axis, count)
    factor = ctx.const(node.weight(0, *shape))
    bias = ctx.const(node.weight(1, *shape)) if biased else None
    if axis == 1 and len(shape) == 1:
        return ctx.op("Scale", x, factor, bias, channels=shape[0])
    out = binary(ctx, "MUL", x, _spread(ctx, node, factor, len(shape), axis))
    return out if bias is None else binary(ctx, "ADD", out, _spread(ctx, node, bias, len(shape), axis))


@caffe_layer("Bias")
def bias(ctx: Context, node: CaffeNode) -> Value:
    """``x + shift``: weights, or the second blob."""
    param, x = node.params("bias_param"), node.input(0)
    axis, count = param.integer("axis", 1), param.integer("num_axes", 1)
    if len(node.inputs) > 1:
        axis = 0 if not node.rank(1) else node.axis(axis)
        return binary(ctx, "ADD", x, _spread(ctx, node, node.input(1), node.rank(1), axis))
    shape, axis = _covered(node, axis, count)
    return binary(ctx, "ADD", x, _spread(ctx, node, ctx.const(node.weight(0, *shape)), len(shape), axis))


def _covered(node: CaffeNode, axis: int, count: int) -> tuple[tuple[int, ...], int]:
    """Sizes of the axes that weights cover, and the first of these; ``count`` of -1 means all that follow."""
    if count == 0:
        return (), 0
    axis = node.axis(axis)
    end = node.rank() if count == -1 else axis + count
    if count < -1 or end > node.rank():
        raise node.malformed(f"{count} axes from axis {axis} on, of a blob of shape {list(node.shape())}")
    return tuple(node.size(i) for i in range(axis, end)), axis


def _spread(ctx: Context, node: CaffeNode, value: Value, rank: int, axis: int) -> Value:
    """A factor or shift that covers axes from ``axis`` on, so that it broadcasts against the first blob."""
    behind = node.rank() - axis - rank
    if behind < 0:
        raise node.malformed(f"{rank} axes from axis {axis} on, of a blob of shape {list(node.shape())}")
    if not behind or not rank:
        return value
    if value.data is not None:
        return ctx.const(value.array().reshape(*value.array().shape, *([1] * behind)))
    return ctx.op("Unsqueeze", value, squeezeDims=list(range(rank, rank + behind)))


@caffe_layer("Axpy")
def axpy(ctx: Context, node: CaffeNode) -> Value:
    """``factor * x + y`` with one factor per sample and channel (squeeze-and-excitation networks)."""
    factor, x, y = node.input(0), node.input(1), node.input(2)
    if math.prod(d for d in node.shape(0)[2:] if isinstance(d, int)) != 1 or node.rank(0) < 2:
        raise node.malformed(f"factors of shape {list(node.shape(0))}, expected one per channel")
    behind = node.rank(1) - node.rank(0)
    if behind > 0:
        factor = ctx.op("Unsqueeze", factor, squeezeDims=list(range(node.rank(0), node.rank(1))))
    return binary(ctx, "ADD", binary(ctx, "MUL", x, factor), y)
