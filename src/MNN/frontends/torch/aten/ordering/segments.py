"""Reductions of parts of an axis that follow each other, given by their lengths or their bounds."""

from __future__ import annotations

import math

from MNN.frontends.torch.aten.reductions import reduced
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.graph import Value

_STARTS = {"sum": ("SUM", 0.0), "mean": ("SUM", 0.0), "prod": ("PROD", 1.0),
           "max": ("MAXIMUM", -math.inf), "min": ("MINIMUM", math.inf)}  # fmt: skip
"""The reduction of each kind, and what it is of nothing."""


@aten("segment_reduce")
def segment_reduce(
    ctx: TorchBuilder, data: Value, reduce: str, *, lengths: Value | None = None, indices: Value | None = None,
    offsets: Value | None = None, axis: int = 0, unsafe: bool = False, initial: Scalar | None = None,
) -> Value:  # fmt: skip
    """``data`` ``[*batch, N, *rest]``, lengths ``[*batch, S]`` (offsets ``[*batch, S + 1]``): ``[*batch, S, *rest]``.

    The mean of nothing is NaN, or ``initial``; other reductions begin with ``initial``.
    """
    if indices is not None or reduce not in _STARTS:
        raise ctx.unsupported(f"'{reduce}' of segments by indices", "give lengths or offsets")
    axis = ctx.axis(data, axis)
    if offsets is not None:
        ends = apply(ctx, "slice", [offsets, axis, 1], {})
        begins = apply(ctx, "slice", [offsets, axis, 0, -1], {})
    else:
        if lengths is None:
            raise ctx.unsupported("segments without lengths", "give lengths or offsets")
        ends = apply(ctx, "cumsum", [lengths, axis], {})
        begins = ctx.binary("SUB", ends, lengths)
    places = apply(ctx, "arange", [ctx.size(data, axis)], {})
    within = ctx.op(
        "BinaryOp",
        ctx.binary("GREATER_EQUAL", places, ctx.unsqueeze(begins, axis + 1)),
        ctx.binary("LESS", places, ctx.unsqueeze(ends, axis + 1)),
        opType="MUL",
    )  # [*batch, S, N]
    rank = ctx.rank_of(data)
    wide = ctx.unsqueeze(within, *range(axis + 2, rank + 1))
    kind, start = _STARTS[reduce]
    lines = apply(ctx, "where", [wide, ctx.unsqueeze(data, axis), start], {})
    found = reduced(ctx, kind, lines, axis + 1, False)
    if reduce != "mean":
        return found if initial is None else ctx.binary(_JOINED[reduce], found, initial)
    count = ctx.unsqueeze(ctx.cast(ctx.binary("SUB", ends, begins), ctx.type_of(data)), *range(axis + 1, rank))
    found = found if initial is None else ctx.binary("ADD", found, initial)
    nothing = apply(ctx, "eq", [count, 0], {})
    return apply(  # type: ignore[no-any-return]
        ctx, "where", [nothing, math.nan if initial is None else initial, ctx.binary("REALDIV", found, count)], {}
    )


_JOINED = {"sum": "ADD", "prod": "MUL", "max": "MAXIMUM", "min": "MINIMUM"}
