"""What is put around a picture so that windows reach everywhere, as TensorFlow's padding SAME has it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.frontends.common.expressions import binary
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def same_borders(ctx: GraphBuilder, x: Value, windows: Mapping[int, tuple[int, int]], cut: bool = False) -> Value:
    """Numbers before and behind each axis of ``x`` (a vector of i32, two an axis) such that as many windows fit as the
    axis' size over their step, rounded up; ``windows`` has reach and step by axis, other axes get nothing.

    With ``cut``, windows that leave something out leave it out on both sides alike: these numbers are below zero.
    Computed when the model runs where a size is open that matters.
    """
    known = x.shape or ()
    pieces: list[Value | list[int]] = []
    for axis, size in enumerate(known):
        reach, step = windows.get(axis, (1, 1))
        if isinstance(size, int):
            pieces.append(_known(-(-size // step) * step - step + reach - size, cut))
        elif step == 1:
            pieces.append(_known(reach - 1, cut))
        else:
            pieces.append(_computed(ctx, x, axis, reach, step, cut))
    if all(isinstance(p, list) for p in pieces):
        return ctx.const(np.asarray(pieces, np.int32).reshape(-1))
    return ctx.op("Concat", *(p if isinstance(p, Value) else ctx.const(p, DType.I32) for p in pieces), axis=0)


def _known(missing: int, cut: bool) -> list[int]:
    if missing < 0 and not cut:
        return [0, 0]
    low = missing // 2 if missing >= 0 else -(-missing // 2)
    return [low, missing - low]


def _computed(ctx: GraphBuilder, x: Value, axis: int, reach: int, step: int, cut: bool) -> Value:
    """The same for a size that is known only at run time."""
    size = ctx.op("Shape", x, hasStart=True, start=axis, hasEnd=True, end=axis + 1)
    size.dtype = DType.I32
    # so many are left of the last step: 1 where the size is a multiple of one and one more
    left = binary(ctx, "ADD", binary(ctx, "FLOORMOD", binary(ctx, "SUB", size, 1), step), 1)
    missing = binary(ctx, "SUB", reach, left)
    above = binary(ctx, "MAXIMUM", missing, 0)
    low = binary(ctx, "FLOORDIV", above, 2)
    if not cut:
        return ctx.op("Concat", low, binary(ctx, "SUB", above, low), axis=0)
    below = binary(ctx, "MAXIMUM", binary(ctx, "SUB", left, reach), 0)
    low = binary(ctx, "SUB", low, binary(ctx, "FLOORDIV", below, 2))
    return ctx.op("Concat", low, binary(ctx, "SUB", missing, low), axis=0)
