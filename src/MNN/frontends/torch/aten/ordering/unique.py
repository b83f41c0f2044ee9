"""Different numbers, and how many of each there are."""

from __future__ import annotations

from MNN.frontends.torch.aten.slicing import END, cut
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def _different(ctx: TorchBuilder, x: Value, axis: int | None) -> list[Value]:
    """Sorted values, places of all in them, counts."""
    attrs = {"axis": axis, "sorted": True, "outputDataType": "DT_INT64"}
    wide = ctx.cast(x, DType.I32) if x.dtype is DType.BOOL else x
    values, _, inverse, counts = ctx.emit("Unique", [wide], 4, **attrs)
    for v in (inverse, counts):
        v.dtype = DType.I64
    values.dtype = ctx.type_of(wide)
    return [ctx.cast(values, ctx.type_of(x)), inverse, counts]


@aten("_unique2", "_unique")
def unique(
    ctx: TorchBuilder, x: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> list[Value]:
    values, inverse, counts = _different(ctx, x, None)
    return [values, ctx.reshape(inverse, ctx.sizes(x)), counts]


@aten("unique_dim")
def unique_dim(
    ctx: TorchBuilder, x: Value, dim: int, sorted: bool = True, return_inverse: bool = False,
    return_counts: bool = False,
) -> list[Value]:  # fmt: skip
    return _different(ctx, x, ctx.axis(x, dim))


@aten("unique_consecutive")
def unique_consecutive(
    ctx: TorchBuilder, x: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> list[Value]:
    """Each run of equal numbers (slices along an axis) once."""
    flat, axis = (ctx.reshape(x, [-1]), 0) if dim is None else (x, ctx.axis(x, dim))
    others = [a for a in range(ctx.rank_of(flat)) if a != axis]
    changes = ctx.binary("NOTEQUAL", cut(ctx, flat, axis, 1, END), cut(ctx, flat, axis, 0, -1))
    if others:
        changes = apply(ctx, "any", [changes], {"dim": others})
    count = ctx.size(flat, axis)
    first = apply(ctx, "ones", [[1]], {"dtype": DType.BOOL})
    begins = cut(ctx, apply(ctx, "cat", [[first, changes], 0], {}), 0, 0, count if isinstance(count, int) else END)
    starts = ctx.squeeze(apply(ctx, "nonzero", [begins], {}), 1)
    inverse = ctx.binary("SUB", apply(ctx, "cumsum", [ctx.cast(begins, DType.I64), 0], {}), 1)
    ends = apply(ctx, "cat", [[cut(ctx, starts, 0, 1, END), ctx.ints([count])], 0], {})
    values = apply(ctx, "index_select", [flat, axis, starts], {})
    if dim is None:
        inverse = ctx.reshape(inverse, ctx.sizes(x))
    return [values, inverse, ctx.binary("SUB", ends, starts)]


@aten("bincount")
def bincount(ctx: TorchBuilder, x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    """How often each number from 0 to the largest comes, or the sums of their weights."""
    numbers = ctx.cast(x, DType.I64)
    most = ctx.binary("ADD", apply(ctx, "amax", [numbers], {}), 1)
    length = Number(ctx.binary("MAXIMUM", most, minlength))
    if weights is None:
        weights = apply(ctx, "ones_like", [numbers], {})
    elif not ctx.type_of(weights).is_float:
        weights = ctx.cast(weights, DType.F64)
    room = apply(ctx, "zeros", [[length]], {"dtype": ctx.type_of(weights)})
    return apply(ctx, "scatter_add", [room, 0, numbers, weights], {})  # type: ignore[no-any-return]


@aten("quantile", "nanquantile")
def quantile(
    ctx: TorchBuilder, x: Value, q: Value | float, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Value:  # fmt: skip
    """Where so much of an axis' sorted numbers lies below; several of these are put in front. NaN counts as the largest
    number, and is what comes out, or is left out."""
    left_out = ctx.name == "nanquantile"
    rank = ctx.rank_of(x)
    flat, axis = (ctx.reshape(x, [-1]), 0) if dim is None or rank == 0 else (x, ctx.axis(x, dim))
    kind = ctx.type_of(x)
    lines = apply(ctx, "sort", [flat, axis], {})[0]
    wanted = q if isinstance(q, Value) else ctx.scalar(q, kind)
    several, unordered = wanted.shape != (), apply(ctx, "isnan", [flat], {})
    count: Value = ctx.scalar(ctx.size(flat, axis), DType.I64)
    if left_out:
        count = apply(ctx, "sum", [apply(ctx, "logical_not", [unordered], {}), axis, True], {})
    shares = ctx.unsqueeze(ctx.reshape(wanted, [-1]), *range(1, ctx.rank_of(flat) - axis))
    place = ctx.binary("MUL", shares, ctx.cast(ctx.binary("MAXIMUM", ctx.binary("SUB", count, 1), 0), kind))
    if interpolation == "nearest":
        place = ctx.unary("ROUND", place)
    ends = [ctx.cast(ctx.unary(way, place), DType.I64) for way in ("FLOOR", "CEIL")]
    if left_out:
        ends = [apply(ctx, "take_along_dim", [lines, at, axis], {}) for at in ends]
    else:
        ends = [apply(ctx, "index_select", [lines, axis, ctx.op("Reshape", at, ctx.const([-1]))], {}) for at in ends]
    if interpolation in ("lower", "higher"):
        out = ends[interpolation == "higher"]
    else:
        share = ctx.binary("SUB", place, ctx.unary("FLOOR", place))
        out = apply(ctx, "lerp", [*ends, share if interpolation != "midpoint" else ctx.scalar(0.5, kind)], {})
    missing = ctx.binary("EQUAL", count, 0) if left_out else apply(ctx, "any", [unordered, axis, True], {})
    out = apply(ctx, "where", [missing, float("nan"), out], {})
    out = apply(ctx, "movedim", [out, axis, 0], {})
    if keepdim:
        out = ctx.unsqueeze(out, *range(1, rank + 1)) if dim is None else ctx.unsqueeze(out, axis + 1)
    return out if several else ctx.squeeze(out, 0)
