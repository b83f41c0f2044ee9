"""Reductions of parts of an axis that follow each other, given by their lengths or their bounds."""

from __future__ import annotations

import math

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int, Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.frontends.torch.scalars import compute
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_STARTS = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0),
           "max": ("amax", -math.inf), "min": ("amin", math.inf)}  # fmt: skip
"""How each kind is written to its place, and what it is of nothing."""


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
    rank = ctx.rank_of(data)
    count = ctx.size(ends, axis)
    places = apply(ctx, "arange", [ctx.size(data, axis)], {})
    number = passed(ctx, ends, ctx.size(data, axis), axis)
    before = ctx.binary("LESS", places, apply(ctx, "slice", [begins, axis, 0, 1], {}))
    number = apply(ctx, "where", [before, ctx.scalar(count, DType.I64), number], {})  # what is in none goes to one more
    wide = apply(ctx, "expand", [ctx.unsqueeze(number, *range(axis + 1, rank)), ctx.sizes(data)], {})
    kind, start = _STARTS[reduce]
    room = [compute(ctx, "add", count, 1) if i == axis else n for i, n in enumerate(ctx.sizes(data))]
    blank = apply(ctx, "full", [room, start if initial is None else initial], {"dtype": ctx.type_of(data)})
    found = apply(ctx, "scatter_reduce", [blank, axis, wide, data, kind], {})
    found = apply(ctx, "slice", [found, axis, 0, -1], {})
    if reduce != "mean":
        return found  # type: ignore[no-any-return]
    lines = ctx.unsqueeze(ctx.cast(ctx.binary("SUB", ends, begins), ctx.type_of(data)), *range(axis + 1, rank))
    nothing = apply(ctx, "eq", [lines, 0], {})
    return apply(  # type: ignore[no-any-return]
        ctx, "where", [nothing, math.nan if initial is None else initial, ctx.binary("REALDIV", found, lines)], {}
    )


def passed(ctx: TorchBuilder, ends: Value, length: Int, axis: int) -> Value:
    """How many ends ``[*batch, S]`` are at each of so many places, or before it: ``[*batch, length]``. Each end counts
    one where it is, and places add up."""
    room = apply(ctx, "zeros", [[*ctx.sizes(ends)[:axis], compute(ctx, "add", length, 1)]], {"dtype": DType.I64})
    at = ctx.binary("MINIMUM", ctx.cast(ends, DType.I64), ctx.scalar(length, DType.I64))  # no place is behind the last
    marks = apply(ctx, "scatter_add", [room, axis, at, apply(ctx, "ones_like", [at], {})], {})
    return apply(ctx, "cumsum", [apply(ctx, "slice", [marks, axis, 0, -1], {}), axis], {})  # type: ignore[no-any-return]
