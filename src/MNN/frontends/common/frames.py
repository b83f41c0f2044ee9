"""Pieces of signals."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import binary
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def frames(ctx: GraphBuilder, x: Value, length: int, stride: int) -> Value:
    """Pieces of the last axis, one every ``stride`` numbers: ``[..., count, length]``."""
    size = ctx.op("Squeeze", ctx.op("Shape", x, hasStart=True, start=-1), squeezeDims=[0])
    size.dtype = DType.I32
    count = binary(ctx, "ADD", binary(ctx, "FLOORDIV", binary(ctx, "SUB", size, length), stride), 1)
    line = ctx.op("Range", ctx.const(0, DType.I32), count, ctx.const(1, DType.I32))
    line.dtype = DType.I32
    starts = ctx.op("Unsqueeze", binary(ctx, "MUL", line, stride), squeezeDims=[1])
    starts.dtype = DType.I32
    places = binary(ctx, "ADD", starts, ctx.const(np.arange(length, dtype=np.int32)))
    out = ctx.op("GatherV2", x, places, ctx.const(-1, DType.I32))
    out.dtype = x.dtype
    return out
