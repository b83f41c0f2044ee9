"""Gathering, scattering, sorting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.frontends.torch.aten.slicing import slice_
from MNN.frontends.torch.builder import Operand, TorchBuilder
from MNN.frontends.torch.numbers import Int
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def _axis(ctx: TorchBuilder, axis: int) -> Value:
    return ctx.const(np.int32(axis))


@aten("index_select")
def index_select(ctx: TorchBuilder, x: Value, dim: int, index: Value) -> Value:
    if ctx.rank_of(x) == 0:
        return ctx.op("Identity", x)
    if ctx.rank(index) == 0:
        index = ctx.op("Reshape", index, ctx.const([1]))
    return ctx.op("GatherV2", x, index, _axis(ctx, ctx.axis(x, dim)))


@aten("embedding_renorm")
def embedding_renorm(
    ctx: TorchBuilder, weight: Value, indices: Value, max_norm: float, norm_type: float = 2.0
) -> Value:
    """Rows that are read, and whose norm is above a bound, scaled down to it."""
    norms = apply(ctx, "linalg_vector_norm", [weight, norm_type, [1], True], {})
    scale = ctx.binary("REALDIV", max_norm, ctx.binary("ADD", norms, 1e-7))
    count = ctx.known(ctx.size(weight, 0), "a number of rows")
    flat = ctx.op("Reshape", indices, ctx.const([-1]))
    read = apply(ctx, "any", [ctx.binary("EQUAL", ctx.const(np.arange(count)[:, None]), flat), 1, True], {})
    large = ctx.op("BinaryOp", ctx.binary("GREATER", norms, max_norm), read, opType="MUL")
    return apply(ctx, "where", [large, ctx.binary("MUL", weight, scale), weight], {})  # type: ignore[no-any-return]


@aten("embedding")
def embedding(
    ctx: TorchBuilder, weight: Value, indices: Value, padding_idx: Int = -1, scale: bool = False, sparse: bool = False
) -> Value:
    """``padding_idx`` is a row that is not trained, -1 none."""
    still = {"paddingIndex": int(padding_idx)} if isinstance(padding_idx, int) and padding_idx >= 0 else {}
    return ctx.op("GatherV2", weight, indices, _axis(ctx, 0), **still)


@aten("_embedding_bag", "embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    ctx: TorchBuilder, weight: Value, indices: Value, offsets: Value, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Value | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> list[Value | None]:  # fmt: skip
    """Rows of the weights, summed (mode 0), averaged or their largest (2), in bags that begin at the offsets; the row
    ``padding_idx`` counts in none. ``embedding_bag`` counts it from the end where it is negative; in the operators
    below it, -1 is none."""
    if padding_idx is not None and padding_idx < 0 and ctx.name == "embedding_bag":
        padding_idx += ctx.known(ctx.size(weight, 0), "a number of rows")
    rows = ctx.op("GatherV2", weight, indices, _axis(ctx, 0))
    if per_sample_weights is not None:
        rows = ctx.op("BinaryOp", rows, ctx.unsqueeze(per_sample_weights, 1), opType="MUL")
    starts = ctx.cast(offsets, DType.I64)
    ends = ctx.op("Concat", slice_(ctx, starts, 0, 1), ctx.ints([ctx.size(indices, 0)]), axis=0)
    if include_last_offset:
        starts, ends = slice_(ctx, starts, 0, 0, -1), slice_(ctx, starts, 0, 1)
    place = ctx.op("Range", ctx.const(np.int64(0)), ctx.scalar(ctx.size(indices, 0), DType.I64), ctx.const(np.int64(1)))
    after = ctx.op("BinaryOp", place, ctx.unsqueeze(starts, 1), opType="GREATER_EQUAL")
    inside = ctx.op("BinaryOp", after, ctx.op("BinaryOp", place, ctx.unsqueeze(ends, 1), opType="LESS"), opType="MUL")
    if padding_idx is not None and padding_idx >= 0:
        inside = ctx.op("BinaryOp", inside, ctx.binary("NOTEQUAL", indices, padding_idx), opType="MUL")
    count = ctx.op("Reduction", ctx.cast(inside, DType.I64), operation="SUM", dim=[1], keepDims=True)
    if mode < 2:
        out = ctx.op("MatMul", ctx.cast(inside, ctx.type_of(weight)), rows)
        if mode == 1:
            least = ctx.op("BinaryOp", count, ctx.const(np.int64(1)), opType="MAXIMUM")
            out = ctx.op("BinaryOp", out, ctx.cast(least, ctx.type_of(weight)), opType="REALDIV")
        return [out, None, None, None]
    lowest = ctx.op("Select", ctx.unsqueeze(inside, 2), rows, ctx.const_like(-np.inf, weight))
    largest = ctx.op("Reduction", lowest, operation="MAXIMUM", dim=[1])
    some = ctx.op("BinaryOp", count, ctx.const(np.int64(0)), opType="GREATER")
    return [ctx.op("Select", some, largest, ctx.const_like(0, weight)), None, None, None]


@aten("gather")
def gather(ctx: TorchBuilder, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    """Where the index is smaller than the tensor along other axes, only so much of the tensor counts."""
    if 0 in (index.shape or ()):  # no index at all fits tensors of other ranks too
        return apply(ctx, "new_zeros", [x, ctx.sizes(index)], {})  # type: ignore[no-any-return]
    if ctx.rank_of(x) == 0 or ctx.rank_of(index) == 0:
        whole = ctx.op("Reshape", x, ctx.const([-1]))
        picked = ctx.op("GatherV2", whole, ctx.op("Reshape", index, ctx.const([-1])), _axis(ctx, 0))
        return ctx.op("Reshape", picked, ctx.shape_like(index))
    axis = ctx.axis(x, dim)
    return ctx.op("GatherElements", _within(ctx, x, index, axis), index, _axis(ctx, axis))


def _within(ctx: TorchBuilder, x: Value, index: Value, axis: int) -> Value:
    """As much of ``x`` as the index covers along axes other than ``axis``."""
    for i, (have, want) in enumerate(zip(x.shape or (), index.shape or (), strict=False)):
        if i != axis and isinstance(have, int) and isinstance(want, int) and want < have:
            x = slice_(ctx, x, i, 0, want)
    return x


@aten("take_along_dim")
def take_along_dim(ctx: TorchBuilder, x: Value, indices: Value, dim: int | None = None) -> Value:
    if dim is None:
        x, indices, dim = ctx.op("Reshape", x, ctx.const([-1])), ctx.op("Reshape", indices, ctx.const([-1])), 0
    axis = ctx.axis(x, dim)
    wanted = [1 if i == axis else n for i, n in enumerate(ctx.sizes(x))]
    indices = ctx.expand(indices, ctx.ints(wanted))
    reach = [1 if i == axis else n for i, n in enumerate(ctx.sizes(indices))]
    return ctx.op("GatherElements", ctx.expand(x, ctx.ints(reach)), indices, _axis(ctx, axis))


@aten("take")
def take(ctx: TorchBuilder, x: Value, index: Value) -> Value:
    return ctx.op("GatherV2", ctx.op("Reshape", x, ctx.const([-1])), index, _axis(ctx, 0))


_REDUCED = {"sum": "ADD", "add": "ADD", "prod": "MUL", "multiply": "MUL", "amax": "MAXIMUM", "amin": "MINIMUM"}


@aten("scatter")
def scatter(ctx: TorchBuilder, x: Value, dim: int, index: Value, source: Operand, reduce: str | None = None) -> Value:
    dtype = ctx.type_of(x)
    if not isinstance(source, Value) or source.shape == ():
        source = ctx.op("Fill", ctx.shape_like(index), ctx.operand(source, dtype))
    return _scatter(ctx, x, dim, index, source, None if reduce is None else _REDUCED[reduce])


def _scatter(ctx: TorchBuilder, x: Value, dim: int, index: Value, source: Value, combine: str | None) -> Value:
    if index.shape is not None and 0 in index.shape:
        return ctx.op("Identity", x)
    if ctx.rank_of(x) == 0:
        lines = [ctx.op("Reshape", v, ctx.const([-1])) for v in (x, index, source)]
        flat = _scatter(ctx, lines[0], 0, lines[1], lines[2], combine)
        return ctx.op("Reshape", flat, ctx.const(np.zeros(0, np.int64)))
    if ctx.rank_of(index) == 0:
        index, source = (ctx.op("Reshape", v, ctx.const([1])) for v in (index, source))
    axis = ctx.axis(x, dim)
    for i, (have, want) in enumerate(zip(source.shape or (), index.shape or (), strict=False)):
        if isinstance(have, int) and isinstance(want, int) and want < have:
            source = slice_(ctx, source, i, 0, want)
    source = ctx.cast(source, ctx.type_of(x))
    return ctx.op("ScatterElements", x, index, source, _axis(ctx, axis), opType=combine)


@aten("scatter_add")
def scatter_add(ctx: TorchBuilder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scatter(ctx, x, dim, index, source, "ADD")


@aten("scatter_reduce")
def scatter_reduce(
    ctx: TorchBuilder, x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool = True
) -> Value:
    if index.shape is not None and 0 in index.shape:
        return ctx.op("Identity", x)
    dtype = ctx.type_of(x)
    kind = "sum" if reduce == "mean" else reduce
    start = x
    if not include_self:
        neutral: float = {"sum": 0, "prod": 1, "amax": -np.inf, "amin": np.inf}[kind]
        if not np.isfinite(neutral) and not dtype.is_float:
            bits = 8 * dtype.size - dtype.is_signed
            neutral = (-(1 << bits) if dtype.is_signed else 0) if neutral < 0 else (1 << bits) - 1
        blank = ctx.op("Fill", ctx.shape_like(index), ctx.scalar(neutral, dtype))
        start = _scatter(ctx, x, dim, index, blank, None)
    out = _scatter(ctx, start, dim, index, source, _REDUCED[kind])
    if reduce != "mean":
        return out
    ones = ctx.op("Fill", ctx.shape_like(index), ctx.const_like(1, x))
    base = ctx.op("Fill", ctx.shape_like(x), ctx.const_like(1 if include_self else 0, x))
    count = _scatter(ctx, base, dim, index, ones, "ADD")
    count = ctx.op("BinaryOp", count, ctx.const_like(1, x), opType="MAXIMUM")
    return ctx.op("BinaryOp", out, count, opType="REALDIV" if dtype.is_float else "FLOORDIV")


@aten("index_add")
def index_add(ctx: TorchBuilder, x: Value, dim: int, index: Value, source: Value, alpha: float = 1) -> Value:
    if alpha != 1:
        source = ctx.op("BinaryOp", source, ctx.const_like(alpha, source), opType="MUL")
    return _along(ctx, x, dim, index, source, "ADD")


@aten("index_copy")
def index_copy(ctx: TorchBuilder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _along(ctx, x, dim, index, source, None)


@aten("index_fill")
def index_fill(ctx: TorchBuilder, x: Value, dim: int, index: Value, value: Operand) -> Value:
    if ctx.rank_of(x) == 0:
        return ctx.op("Fill", ctx.shape_like(x), ctx.operand(value, ctx.type_of(x)))
    axis = ctx.axis(x, dim)
    flat = ctx.op("Reshape", index, ctx.const([-1]))
    shape = ctx.ints([ctx.size(flat, 0) if i == axis else n for i, n in enumerate(ctx.sizes(x))])
    return _along(ctx, x, dim, flat, ctx.op("Fill", shape, ctx.operand(value, ctx.type_of(x))), None)


def _along(ctx: TorchBuilder, x: Value, dim: int, index: Value, source: Value, combine: str | None) -> Value:
    rank = ctx.rank_of(x)
    if rank == 0:
        x1, index, source = (ctx.op("Reshape", v, ctx.const([-1])) for v in (x, index, source))
        return ctx.op("Reshape", _along(ctx, x1, 0, index, source, combine), ctx.const(np.zeros(0, np.int64)))
    axis = ctx.axis(x, dim)
    flat = ctx.op("Reshape", index, ctx.const([1] * axis + [-1] + [1] * (rank - 1 - axis)))
    return _scatter(ctx, x, axis, ctx.expand(flat, ctx.shape_like(source)), source, combine)


@aten("masked_scatter")
def masked_scatter(ctx: TorchBuilder, x: Value, mask: Value, source: Value) -> Value:
    """Elements of ``source`` in their order take the places where the mask is true."""
    shape = ctx.shape_like(x) if mask.shape is None or x.shape is None or len(mask.shape) <= len(x.shape) else None
    whole = ctx.expand(mask, shape) if shape is not None else mask
    if shape is None or mask.shape != x.shape:
        x = ctx.expand(x, ctx.shape_like(whole))
        whole = ctx.expand(mask, ctx.shape_like(x))
    flat = ctx.cast(ctx.op("Reshape", whole, ctx.const([-1])), DType.I64)
    order = ctx.op("BinaryOp", ctx.op("CumSum", flat, _axis(ctx, 0)), ctx.const(np.int64(1)), opType="SUB")
    order = ctx.op("BinaryOp", order, ctx.const(np.int64(0)), opType="MAXIMUM")
    numbers = ctx.op("Reshape", source, ctx.const([-1]))
    if not all(isinstance(n, int) and n for n in source.shape or [0]):  # it may be empty, and the mask then false
        numbers = ctx.op("Concat", numbers, ctx.const(np.zeros(1, ctx.type_of(source).numpy)), axis=0)
    last = ctx.op("BinaryOp", ctx.scalar(ctx.size(numbers, 0), DType.I64), ctx.const(np.int64(1)), opType="SUB")
    taken = ctx.op("GatherV2", numbers, ctx.op("BinaryOp", order, last, opType="MINIMUM"), _axis(ctx, 0))
    return ctx.op("Select", ctx.not_zero(whole), ctx.op("Reshape", taken, ctx.shape_like(whole)), x)


@aten("masked_select")
def masked_select(ctx: TorchBuilder, x: Value, mask: Value) -> Value:
    whole = ctx.expand(mask, ctx.shape_like(x))
    x = ctx.expand(x, ctx.shape_like(whole))
    return ctx.op("Compress", x, ctx.op("Reshape", ctx.not_zero(whole), ctx.const([-1])))


@aten("nonzero", "argwhere")
def nonzero(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("Where", x, outputDataType="DT_INT64")


@aten("nonzero_numpy")
def nonzero_numpy(ctx: TorchBuilder, x: Value) -> list[Value]:
    x = ctx.unsqueeze(x, 0) if ctx.rank_of(x) == 0 else x
    places = nonzero(ctx, x)
    return [ctx.squeeze(v, 1) for v in ctx.emit("Slice", [places], ctx.rank_of(x), axis=1, sourceType="TORCH")]


@aten("index", "_unsafe_index", "__getitem__")
def index(ctx: TorchBuilder, x: Value, indices: Sequence[Value | None]) -> Value:
    """Indexing with tensors: the indexed axes give way to the axes of the broadcast indices, which stand where the
    first one was if they were neighbours, else in front. A mask counts as the places where it is true."""
    found = _places(ctx, indices)
    axes = [i for i, v in enumerate(found) if v is not None]
    rank = ctx.rank_of(x)
    if not axes:
        return ctx.op("Identity", x)
    if len(axes) == 1:
        picked = found[axes[0]]
        assert picked is not None
        return ctx.op("GatherV2", x, picked, _axis(ctx, axes[0]))
    neighbours = axes == list(range(axes[0], axes[-1] + 1))
    rest = [i for i in range(rank) if i not in axes]
    turned = ctx.rows(x, [*axes, *rest])
    places = _coordinates(ctx, [found[a] for a in axes])
    out = ctx.op("GatherND", turned, places)
    count = ctx.rank_of(places) - 1
    if not neighbours or axes[0] == 0:
        return out
    lead = axes[0]
    total = count + len(rest)
    return ctx.rows(out, [*range(count, count + lead), *range(count), *range(count + lead, total)])


def _places(ctx: TorchBuilder, indices: Sequence[Value | None]) -> list[Value | None]:
    """Indices with masks replaced by the places where they are true."""
    found: list[Value | None] = []
    for item in indices:
        if item is not None and item.dtype in (DType.BOOL, DType.U8):
            found += nonzero_numpy(ctx, item)
        else:
            found.append(item)
    return found


def _coordinates(ctx: TorchBuilder, indices: Sequence[Value | None]) -> Value:
    """Indices broadcast against each other, side by side on a new last axis."""
    given = [ctx.cast(v, DType.I64) for v in indices if v is not None]
    shapes = {v.shape for v in given}
    if len(shapes) > 1 or None in shapes:
        total = given[0]
        for v in given[1:]:
            total = ctx.op("BinaryOp", total, v, opType="ADD")
        shape = ctx.shape_like(total)
        given = [v if v.shape is not None and v.shape == total.shape else ctx.expand(v, shape) for v in given]
    return ctx.op("Pack", *given, axis=-1 if given[0].shape is None else len(given[0].shape))


@aten("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    ctx: TorchBuilder,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Value:
    dtype = ctx.type_of(x)
    values = ctx.cast(values, dtype)
    single = [(i, v) for i, v in enumerate(indices) if v is not None]
    if (
        len(single) == 1
        and single[0][1].dtype in (DType.BOOL, DType.U8)
        and not accumulate
        and values.shape in ((), (1,))
    ):
        axis, mask = single[0]
        more = ctx.rank_of(x) - ctx.rank_of(mask) - axis
        shaped = ctx.op("Reshape", values, ctx.const(np.zeros(0, np.int64))) if values.shape == (1,) else values
        raised = ctx.unsqueeze(mask, *range(ctx.rank_of(mask), ctx.rank_of(mask) + more)) if more else mask
        return ctx.op("Select", ctx.not_zero(raised), shaped, x)
    found = _places(ctx, indices)
    axes = [i for i, v in enumerate(found) if v is not None]
    rank = ctx.rank_of(x)
    if not axes:
        out = ctx.expand(values, ctx.shape_like(x))
        return ctx.op("BinaryOp", x, out, opType="ADD") if accumulate else out
    rest = [i for i in range(rank) if i not in axes]
    order = [*axes, *rest]
    turned = ctx.rows(x, order)
    places = _coordinates(ctx, [found[a] for a in axes])
    count = ctx.rank_of(places) - 1
    lead = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    sizes = ctx.sizes(x)
    index_sizes: list[Int] = ctx.sizes(places)[:-1]
    # values come in the order that indexing would give: axes before the first index stand in front
    target = [*[sizes[i] for i in rest[:lead]], *index_sizes, *[sizes[i] for i in rest[lead:]]]
    spread = ctx.expand(values, ctx.ints(target))
    if lead:
        spread = ctx.rows(spread, [*range(lead, lead + count), *range(lead), *range(lead + count, len(target))])
    updated = ctx.op("ScatterNd", places, spread, ctx.shape_like(turned), turned, opType="ADD" if accumulate else None)
    back = [order.index(i) for i in range(rank)]
    return ctx.rows(updated, back)
