"""Layers that combine numbers along axes."""

from __future__ import annotations

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.ir.graph import Value

_KINDS = ("SUM", "ASUM", "SUMSQ", "MEAN", "MAXIMUM", "MINIMUM", "PROD", "ASUM", "SUMSQ", "SUM", "SUM")
_SQUARE_ROOT, _LOG_SUM, _LOG_SUM_EXP = 8, 9, 10


@ncnn_layer("Reduction")
def reduction(ctx: Context, node: NcnnNode) -> Value:
    """Parameters: the operation, whether over everything, a factor of the result, axes, whether these stay."""
    p, x = node.params, ctx.floats(node.input(0))
    kind = p.integer(0)
    if not 0 <= kind < len(_KINDS):
        raise node.unsupported(f"operation {kind}")
    if not p.flag(5) and p.ints(3):
        raise node.unsupported("axes as old tools wrote them", "write the .param file anew with ncnn's tools")
    dims = ctx.dims(node, x)
    everything = p.flag(1, True)
    axes = list(range(1, dims + 1)) if everything else sorted(set(ctx.axes(node, x, p.ints(3))))
    axes = [1] if dims == 1 else axes
    if not axes:
        raise node.unsupported("a reduction over no axis")
    keep = p.flag(4)
    source = ctx.unary("EXP", x) if kind == _LOG_SUM_EXP else x
    out = ctx.op("Reduction", source, operation=_KINDS[kind], dim=axes, keepDims=keep)
    if kind in (_LOG_SUM, _LOG_SUM_EXP):
        out = ctx.unary("LOG", out)
    if kind == _SQUARE_ROOT:
        out = ctx.unary("SQRT", out)
    out = ctx.affine(out, p.real(2, 1.0), 0)
    return ctx.reshape(out, [1]) if len(axes) == dims and not keep else out


@ncnn_layer("CumulativeSum")
def cumulative_sum(ctx: Context, node: NcnnNode) -> Value:
    x = node.input(0)
    axis = ctx.axis(node, x, node.params.integer(0))
    return ctx.op("CumSum", x, ctx.const(np.int32(axis)))


@ncnn_layer("ArgMax")
def arg_max(ctx: Context, node: NcnnNode) -> Value:
    """The places (counted in the whole tensor, as floats) of the largest numbers, or two rows: numbers and places."""
    p = node.params
    flat = ctx.reshape(node.input(0), [-1])
    count = p.integer(1, 1)
    if count < 1:
        raise node.malformed(f"the {count} largest")
    best, places = ctx.emit("TopKV2", [flat, ctx.const(np.int32(count)), ctx.const(np.int32(1))], 2, sorted=True)
    where = ctx.op("Cast", places, dstT="DT_FLOAT")
    rows = [ctx.op("Unsqueeze", v, squeezeDims=[1]) for v in ([best, where] if p.flag(0) else [where])]
    return ctx.op("Concat", *rows, axis=1) if len(rows) > 1 else rows[0]
