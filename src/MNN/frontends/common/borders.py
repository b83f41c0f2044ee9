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


def behind_left_out(ctx: GraphBuilder, x: Value, windows: Mapping[int, tuple[int, int]]) -> Value:
    """``x`` from where windows begin that leave something out on both sides alike, as TensorFlow's three-dimensional
    operators have it with padding SAME (its two-dimensional ones leave out what is behind the last window alone).
    ``windows`` as in :func:`same_borders`."""
    for axis, (reach, step) in windows.items():
        size = (x.shape or ())[axis]
        if isinstance(size, int):
            begin = ctx.const([max((size - 1) % step + 1 - reach, 0) // 2], DType.I32)
        elif step - reach > 1:
            over = binary(ctx, "SUB", _left(ctx, x, axis, step), reach)
            begin = binary(ctx, "FLOORDIV", binary(ctx, "MAXIMUM", over, 0), 2)
        else:
            continue
        if ctx.constant_ints(begin) != [0]:
            end = ctx.const([np.iinfo(np.int32).max], DType.I32)
            at, one = ctx.const([axis], DType.I32), ctx.const([1], DType.I32)
            whole, x = x, ctx.op("StridedSlice", x, begin, end, at, one, fromType=1)
            x.dtype = whole.dtype
    return x


def _known(missing: int, cut: bool) -> list[int]:
    if missing < 0 and not cut:
        return [0, 0]
    low = missing // 2 if missing >= 0 else -(-missing // 2)
    return [low, missing - low]


def _computed(ctx: GraphBuilder, x: Value, axis: int, reach: int, step: int, cut: bool) -> Value:
    """The same for a size that is known only at run time."""
    left = _left(ctx, x, axis, step)
    missing = binary(ctx, "SUB", reach, left)
    above = binary(ctx, "MAXIMUM", missing, 0)
    low = binary(ctx, "FLOORDIV", above, 2)
    if not cut:
        return ctx.op("Concat", low, binary(ctx, "SUB", above, low), axis=0)
    below = binary(ctx, "MAXIMUM", binary(ctx, "SUB", left, reach), 0)
    low = binary(ctx, "SUB", low, binary(ctx, "FLOORDIV", below, 2))
    return ctx.op("Concat", low, binary(ctx, "SUB", missing, low), axis=0)


def _left(ctx: GraphBuilder, x: Value, axis: int, step: int) -> Value:
    """How many are left of the last step: 1 where the size is a multiple of ``step`` and one more."""
    size = ctx.op("Shape", x, hasStart=True, start=axis, hasEnd=True, end=axis + 1)
    size.dtype = DType.I32
    return binary(ctx, "ADD", binary(ctx, "FLOORMOD", binary(ctx, "SUB", size, 1), step), 1)
