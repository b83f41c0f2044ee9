"""Extremes and sums until each place of an axis."""

from __future__ import annotations

from collections.abc import Callable

from MNN.frontends.torch.aten.slicing import END, cut
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

MOST = 1 << 20
"""Places of an axis that is scanned."""
Lines = list[Value]


def scanned(ctx: TorchBuilder, lines: Lines, axis: int, combine: Callable[[Lines, Lines], Lines]) -> Lines:
    """Everything until each place combined, in as many steps as the axis' size has bits (Hillis and Steele, "Data
    parallel algorithms", 1986): each step combines with what lies 1, 2, 4... places before.

    ``combine`` takes earlier lines and later ones and is associative. Of an open axis the last steps have no places to
    combine, as there are steps for the longest one.
    """
    count = ctx.size(lines[0], axis)
    if isinstance(count, Number):
        lines = [ctx.op("KeptAxes", v, axes=[axis], most=MOST) for v in lines]
    elif count > MOST:
        raise ctx.unsupported(f"scanning {count} places")
    reach = 1
    while reach < (MOST if isinstance(count, Number) else count):
        earlier, later = ([cut(ctx, v, axis, *part) for v in lines] for part in ((0, -reach), (reach, END)))
        joined = combine(earlier, later)
        heads = [cut(ctx, v, axis, 0, reach) for v in lines]
        lines = [apply(ctx, "cat", [[h, j], axis], {}) for h, j in zip(heads, joined, strict=True)]
        reach *= 2
    return lines


@aten("cummax", "cummin")
def cumulative_extreme(ctx: TorchBuilder, x: Value, dim: int) -> Lines:
    """The extreme until each place and where it is: the last one of equal ones, or the first that is no number."""
    largest = ctx.name == "cummax"
    if ctx.rank_of(x) == 0:
        return [x, apply(ctx, "zeros_like", [x], {"dtype": DType.I64})]
    axis, kind = ctx.axis(x, dim), ctx.type_of(x)
    wide = ctx.cast(x, DType.I32) if kind is DType.BOOL else x
    places = apply(ctx, "arange", [ctx.size(x, axis)], {})
    places = ctx.unsqueeze(places, *range(1, ctx.rank_of(x) - axis))
    places = apply(ctx, "expand_as", [places, x], {})

    def later_wins(earlier: Lines, later: Lines) -> Lines:
        wins = ctx.binary("GREATER_EQUAL" if largest else "LESS_EQUAL", later[0], earlier[0])
        if kind.is_float:
            wins = apply(ctx, "logical_or", [wins, apply(ctx, "isnan", [later[0]], {})], {})
            still = apply(ctx, "logical_not", [apply(ctx, "isnan", [earlier[0]], {})], {})
            wins = apply(ctx, "logical_and", [wins, still], {})
        return [apply(ctx, "where", [wins, b, a], {}) for a, b in zip(earlier, later, strict=True)]

    values, found = scanned(ctx, [wide, places], axis, later_wins)
    return [ctx.cast(values, kind), found]


@aten("logcumsumexp")
def logcumsumexp(ctx: TorchBuilder, x: Value, dim: int) -> Value:
    """The logarithm of the sum of exponentials until each place."""
    if ctx.rank_of(x) == 0:
        return x

    def added(earlier: Lines, later: Lines) -> Lines:
        return [apply(ctx, "logaddexp", [earlier[0], later[0]], {})]

    return scanned(ctx, [x], ctx.axis(x, dim), added)[0]
