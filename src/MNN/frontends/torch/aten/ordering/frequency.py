"""Values by their order and their frequency: medians, the most frequent one, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.frontends.torch.aten.creation import bounded
from MNN.frontends.torch.aten.ordering.sorting import kthvalue, sort
from MNN.frontends.torch.aten.slicing import END, cut
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int, Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.frontends.torch.scalars import compute
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@aten("median", "nanmedian")
def median(ctx: TorchBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value | list[Value]:
    """The lower one of two in the middle. NaN where there is one, unless it is left out (``nanmedian``)."""
    name = ctx.name
    if dim is None:
        ctx.name = name
        return _middle(ctx, ctx.op("Reshape", x, ctx.const([-1])), 0, name == "nanmedian")[0]
    if x.shape == ():
        return [ctx.op("Identity", x), ctx.const(np.int64(0))]
    axis = ctx.axis(x, dim)
    found = _middle(ctx, x, axis, name == "nanmedian")
    return [ctx.unsqueeze(v, axis) for v in found] if keepdim else found


def _middle(ctx: TorchBuilder, x: Value, axis: int, left_out: bool) -> list[Value]:
    count = ctx.size(x, axis)
    if not ctx.type_of(x).is_float:
        return _lower_middle(ctx, x, axis, count)
    missing = apply(ctx, "isnan", [x], {})
    if not left_out:
        value, place = _lower_middle(ctx, x, axis, count)
        spoiled = apply(ctx, "any", [missing, axis], {})
        first = apply(ctx, "argmax", [missing, axis], {})
        return [apply(ctx, "where", [spoiled, *pair], {}) for pair in ((math.nan, value), (first, place))]
    there = apply(ctx, "sum", [ctx.op("Not", missing), axis, True], {})
    half = apply(ctx, "div", [apply(ctx, "clamp", [ctx.binary("SUB", there, 1), 0], {}), 2], {"rounding_mode": "floor"})
    found = sort(ctx, x, axis)  # NaN are the largest
    return [ctx.squeeze(apply(ctx, "gather", [v, axis, half], {}), axis) for v in found]


def _lower_middle(ctx: TorchBuilder, x: Value, axis: int, count: Int) -> list[Value]:
    """The middle one of so many in order, and its place."""
    if isinstance(count, int):
        return kthvalue(ctx, x, (count + 1) // 2, axis)
    at = compute(ctx, "floordiv", compute(ctx, "sub", count, 1), 2)
    return [apply(ctx, "select", [v, axis, at], {}) for v in sort(ctx, x, axis)]


@aten("mode")
def mode(ctx: TorchBuilder, x: Value, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """The most frequent value, the smallest of several; and where it stands last."""
    if x.shape == ():
        return [ctx.op("Identity", x), ctx.const(np.int64(0))]
    axis = ctx.axis(x, dim)
    values, places = sort(ctx, x, axis)
    first = cut(ctx, values, axis, 0, 1)
    apart = ctx.binary("NOTEQUAL", cut(ctx, values, axis, 1, END), cut(ctx, values, axis, 0, -1))
    begins = apply(ctx, "cat", [[ctx.binary("NOTEQUAL", first, first), apart], axis], {})
    order = apply(ctx, "arange", [ctx.size(x, axis)], {})
    order = ctx.unsqueeze(order, *range(1, ctx.rank_of(x) - axis))
    start = apply(ctx, "cummax", [ctx.binary("MUL", ctx.cast(begins, DType.I64), order), axis], {})[0]
    longest = apply(ctx, "argmax", [ctx.binary("SUB", order, start), axis, True], {})
    found = [apply(ctx, "gather", [v, axis, longest], {}) for v in (values, places)]
    return found if keepdim else [ctx.squeeze(v, axis) for v in found]


@aten("histc")
def histc(ctx: TorchBuilder, x: Value, bins: int = 100, min: Scalar = 0, max: Scalar = 0) -> Value:
    """How many numbers lie in each of ``bins`` equal parts from ``min`` to ``max``, or, where these are equal, from the
    smallest to the largest; those outside, and NaN, are not counted."""
    kind, flat = ctx.type_of(x), ctx.op("Reshape", x, ctx.const([-1]))
    bounded(ctx, bins, 1 << 24, "bins")
    low, high = (ctx.scalar(n, kind) for n in (min, max))
    if min == max:
        low, high = (apply(ctx, name, [flat], {}) for name in ("amin", "amax"))
        alone = ctx.cast(ctx.binary("EQUAL", low, high), kind)
        low, high = ctx.binary("SUB", low, alone), ctx.binary("ADD", high, alone)
    inside = ctx.binary("MUL", ctx.binary("GREATER_EQUAL", flat, low), ctx.binary("LESS_EQUAL", flat, high))
    part = ctx.binary("REALDIV", ctx.binary("MUL", ctx.binary("SUB", flat, low), bins), ctx.binary("SUB", high, low))
    part = apply(ctx, "where", [inside, ctx.binary("MINIMUM", ctx.unary("FLOOR", part), bins - 1), float(bins)], {})
    room = apply(ctx, "zeros", [[bins + 1]], {"dtype": kind})
    ones = apply(ctx, "ones_like", [flat], {})
    return cut(ctx, apply(ctx, "index_put", [room, [ctx.cast(part, DType.I64)], ones, True], {}), 0, 0, bins)


@aten("histogram")
def histogram(
    ctx: TorchBuilder, x: Value, bins: int | Value = 100, *, range: Sequence[float] | None = None,
    weight: Value | None = None, density: bool = False,
) -> list[Value]:  # fmt: skip
    """How many numbers (or how much of their weights) lie between edges, and the edges; the last part holds its upper
    one too."""
    kind, flat = ctx.type_of(x), ctx.op("Reshape", x, ctx.const([-1]))
    edges = bins if isinstance(bins, Value) else _edges(ctx, flat, bins, range)
    last = ctx.known(ctx.size(edges, 0), "edges") - 1
    part = ctx.binary("SUB", apply(ctx, "searchsorted", [edges, flat], {"right": True}), 1)
    upper = apply(ctx, "select", [edges, 0, last], {})
    part = apply(ctx, "where", [ctx.binary("EQUAL", flat, upper), last - 1, part], {})
    outside = apply(ctx, "logical_or", [ctx.binary("LESS", part, 0), ctx.binary("GREATER_EQUAL", part, last)], {})
    part = apply(ctx, "where", [outside, last, part], {})
    shares = apply(ctx, "ones_like", [flat], {}) if weight is None else ctx.reshape(weight, [-1])
    room = apply(ctx, "zeros", [[last + 1]], {"dtype": kind})
    found = cut(ctx, apply(ctx, "index_put", [room, [part], shares, True], {}), 0, 0, last)
    if density:
        widths = ctx.binary("SUB", cut(ctx, edges, 0, 1, END), cut(ctx, edges, 0, 0, -1))
        found = ctx.binary("REALDIV", ctx.binary("REALDIV", found, apply(ctx, "sum", [found], {})), widths)
    return [found, edges]


def _edges(ctx: TorchBuilder, flat: Value, bins: int, span: Sequence[float] | None) -> Value:
    kind = ctx.type_of(flat)
    bounded(ctx, bins, 1 << 24, "bins")
    if span is not None:
        low, high = (ctx.scalar(float(v), kind) for v in span)
    else:
        low, high = (apply(ctx, name, [flat], {}) for name in ("amin", "amax"))
        half = ctx.binary("MUL", ctx.cast(ctx.binary("EQUAL", low, high), kind), 0.5)
        low, high = ctx.binary("SUB", low, half), ctx.binary("ADD", high, half)
    step = ctx.binary("REALDIV", ctx.binary("SUB", high, low), bins)
    order = np.arange(bins + 1)
    from_low, to_high = (ctx.binary("MUL", step, ctx.const(n, kind)) for n in (order, order[::-1]))
    below, above = ctx.binary("ADD", low, from_low), ctx.binary("SUB", high, to_high)  # ends are exact
    return apply(ctx, "where", [ctx.const(order < (bins + 1) // 2), below, above], {})  # type: ignore[no-any-return]
