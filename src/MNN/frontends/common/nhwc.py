"""Image operators of formats that keep channels last: the engine's own have them second.

Transposes are put around each operator; passes cancel those that meet, so that users see the file's own shapes and
nothing is moved at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.graph import Value


def permuted(ctx: GraphBuilder, x: Value, order: Sequence[int]) -> Value:
    """The axes of ``x`` in another order (``y.shape[i] = x.shape[order[i]]``); a constant is turned at once."""
    if list(order) == list(range(len(order))):
        return x
    if isinstance(x.data, np.ndarray):
        return ctx.const(np.ascontiguousarray(x.data.transpose(order)))
    out = ctx.op("Permute", x, dims=list(order))
    out.dtype = x.dtype
    return out


def channels_first(ctx: GraphBuilder, x: Value, rank: int = 4) -> Value:
    """``[N, spatial..., C]`` to ``[N, C, spatial...]``; ``rank`` is that of ``x``."""
    return permuted(ctx, x, [0, rank - 1, *range(1, rank - 1)])


def channels_last(ctx: GraphBuilder, x: Value, rank: int = 4) -> Value:
    """``[N, C, spatial...]`` to ``[N, spatial..., C]``; ``rank`` is that of ``x``."""
    return permuted(ctx, x, [0, *range(2, rank), 1])


def filter_first(ctx: GraphBuilder, w: Value, rank: int = 4) -> Value:
    """A filter ``[spatial..., I, O]`` as ``[O, I, spatial...]``."""
    return permuted(ctx, w, [rank - 1, rank - 2, *range(rank - 2)])
