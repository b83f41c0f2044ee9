"""Slopes at points of an axis.

B. Fornberg, "Generation of finite difference formulas on arbitrarily spaced grids", 1988.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from MNN.frontends.torch.aten.slicing import END, cut
from MNN.frontends.torch.builder import Operand, TorchBuilder
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.graph import Value


@aten("gradient")
def gradient(
    ctx: TorchBuilder, x: Value, *args: Any, spacing: Any = None, dim: int | list[int] | None = None,
    edge_order: int = 1,
) -> list[Value]:  # fmt: skip
    """Along each axis; neighbours are ``spacing`` apart, a number of all axes or of each, or lie at its tensors."""
    given = list(args)
    if given and (len(given) > 1 or not isinstance(given[0], list) or (spacing is None and dim is not None)):
        spacing = given.pop(0)
    if given:
        dim = given[0]
    axes = ctx.axes(x, dim)
    apart = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    if len(apart) != len(axes) or edge_order not in (1, 2):
        raise ctx.unsupported(f"{len(apart)} spacings of {len(axes)} axes, edges of order {edge_order}")
    return [
        _slope(ctx, ctx.as_float(x), a, 1 if s is None else s, edge_order) for a, s in zip(axes, apart, strict=True)
    ]


def _slope(ctx: TorchBuilder, x: Value, axis: int, spacing: Operand, order: int) -> Value:
    """Of the parabola through a point and both neighbours; at ends of the line, or of the parabola of order 2."""

    def part(v: Value, at: int, start: int, end: int) -> Value:
        return cut(ctx, v, at, start, end)

    apart: Callable[[int, int], Operand]
    if isinstance(spacing, Value) and ctx.rank_of(spacing) > 0:
        places = ctx.unsqueeze(ctx.cast(spacing, ctx.type_of(x)), *range(1, ctx.rank_of(x) - axis))
        widths = ctx.binary("SUB", part(places, 0, 1, END), part(places, 0, 0, -1))

        def apart(start: int, end: int) -> Operand:
            return part(widths, 0, start, end)
    else:
        width = ctx.operand(spacing, ctx.type_of(x))

        def apart(start: int, end: int) -> Operand:
            return width

    steps = ctx.binary("SUB", part(x, axis, 1, END), part(x, axis, 0, -1))

    def line(start: int, end: int) -> Value:
        return ctx.binary("REALDIV", part(steps, axis, start, end), apart(start, end))

    def mixed(left: Value, right: Value, near: Operand, far: Operand, sign: str) -> Value:
        """``left`` and what it differs from ``right`` in, by the share of a width."""
        share = ctx.binary("REALDIV", near, ctx.binary("ADD", near, far))
        return ctx.binary(sign, left, ctx.binary("MUL", ctx.binary("SUB", right, left), share))

    before, behind = line(0, -1), line(1, END)
    middle = mixed(before, behind, apart(0, -1), apart(1, END), "ADD")
    first, last = line(0, 1), line(-1, END)
    if order == 2:
        first = mixed(first, line(1, 2), apart(0, 1), apart(1, 2), "SUB")
        last = mixed(last, line(-2, -1), apart(-1, END), apart(-2, -1), "SUB")
    return apply(ctx, "cat", [[first, middle, last], axis], {})  # type: ignore[no-any-return]


__all__ = ["gradient"]
