"""Cutting, joining and padding."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int, Ints, Number, Scalar
from MNN.frontends.torch.registry import aten
from MNN.frontends.torch.scalars import compute
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

END = np.iinfo(np.int64).max


def cut(ctx: TorchBuilder, x: Value, axis: int, start: Int, end: Int, step: Int = 1) -> Value:
    """Elements along an axis."""
    at = ctx.const(np.asarray([axis], np.int64))
    begin, stop = ctx.ints([start]), ctx.ints([end])
    if isinstance(step, int) and step == 1:
        return ctx.op("StridedSlice", x, begin, stop, at, fromType=1)
    return ctx.op("StridedSlice", x, begin, stop, at, ctx.ints([step]), fromType=1)


def pieces(ctx: TorchBuilder, x: Value, axis: int, sizes: list[int]) -> list[Value]:
    """Pieces of these sizes."""
    if len(sizes) == 1:
        return [ctx.op("Identity", x)]
    return ctx.emit("Slice", [x], len(sizes), axis=axis, slicePoints=list(sizes), sourceType="TORCH")


@aten("slice", "slice_copy")
def slice_(
    ctx: TorchBuilder, x: Value, dim: int = 0, start: Int | None = None, end: Int | None = None, step: Int = 1
) -> Value:
    whole = (start is None or start == 0) and (end is None or (isinstance(end, int) and end >= END)) and step == 1
    return (
        ctx.op("Identity", x) if whole else cut(ctx, x, ctx.axis(x, dim), start or 0, END if end is None else end, step)
    )


@aten("narrow", "narrow_copy")
def narrow(ctx: TorchBuilder, x: Value, dim: int, start: Int | Value, length: Int) -> Value:
    axis = ctx.axis(x, dim)
    if isinstance(start, int) and isinstance(length, int):
        if start < 0:
            start += ctx.known(ctx.size(x, axis), "a size that a place is counted back from")
        return cut(ctx, x, axis, start, start + length)
    begin = ctx.operand(start, DType.I64)
    stop = ctx.op("BinaryOp", begin, ctx.scalar(length, DType.I64), opType="ADD")
    return cut(
        ctx,
        x,
        axis,
        Number(ctx.op("Reshape", begin, ctx.const([]))) if begin.shape != () else Number(begin),
        Number(stop),
    )


@aten("select", "select_copy")
def select(ctx: TorchBuilder, x: Value, dim: int, index: Int) -> Value:
    axis = ctx.axis(x, dim)
    return ctx.op("GatherV2", x, ctx.scalar(index, DType.I64), ctx.const(np.int32(axis)))


@aten("split", "split_with_sizes", "split_copy", "split_with_sizes_copy", "unsafe_split", "unsafe_split_with_sizes")
def split(ctx: TorchBuilder, x: Value, sizes: int | Ints, dim: int = 0) -> list[Value]:
    axis = ctx.axis(x, dim)
    if isinstance(sizes, (int, Number)):
        total = ctx.known(ctx.size(x, axis), "a size that is split into pieces")
        size = ctx.known(sizes, "the size of pieces")
        count = max(-(-total // size), 1) if size else 1
        sizes = [size] * (count - 1) + [total - size * (count - 1)]
    if not any(isinstance(n, Number) for n in sizes):
        return pieces(ctx, x, axis, [int(n) for n in sizes])  # type: ignore[arg-type]
    return ctx.emit("Slice", [x, ctx.ints(sizes)], len(sizes), axis=axis, sourceType="TORCH")


@aten("chunk", "unsafe_chunk")
def chunk(ctx: TorchBuilder, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    axis = ctx.axis(x, dim)
    size = ctx.size(x, axis)
    if isinstance(size, Number):
        x = ctx.op("KeptAxes", x, axes=[axis], pieces=chunks) if chunks > 1 else x
        each = compute(ctx, "floordiv", compute(ctx, "add", size, chunks - 1), chunks)
        bounds: list[Any] = [compute(ctx, "mul", each, i) for i in range(chunks)]
        return [cut(ctx, x, axis, a, b) for a, b in itertools.pairwise([*bounds, END])]
    if size == 0:
        return [ctx.op("Identity", x) for _ in range(chunks)]
    each = -(-size // chunks)
    return split(ctx, x, each, axis)


@aten("tensor_split", "hsplit", "vsplit", "dsplit")
def tensor_split(ctx: TorchBuilder, x: Value, at: int | list[int] | Value, dim: int | None = None) -> list[Value]:
    named = {"hsplit": 0 if ctx.rank_of(x) == 1 else 1, "vsplit": 0, "dsplit": 2}
    axis = ctx.axis(x, next((d for n, d in named.items() if n in ctx.name), 0) if dim is None else dim)
    whole_size = ctx.size(x, axis)
    if isinstance(at, Value):
        found = ctx.constant(at)
        if found is None:
            raise ctx.unsupported("pieces by a tensor that is known only when the model runs", "give a list")
        at = found.reshape(-1).tolist() if found.ndim else int(found)
    assert not isinstance(at, Value)
    if isinstance(at, int) and isinstance(whole_size, Number):
        return split(ctx, x, [_share(ctx, whole_size, at, i) for i in range(at)], axis)
    if not isinstance(at, int) and isinstance(whole_size, Number):
        return [cut(ctx, x, axis, a, b) for a, b in itertools.pairwise([0, *at, END])]
    size = ctx.known(whole_size, "a size that is split into pieces")
    if isinstance(at, int):
        whole, left = divmod(size, at)
        return pieces(ctx, x, axis, [whole + (i < left) for i in range(at)])
    bounds = [0, *[slice(n).indices(size)[1] for n in at], size]
    return [cut(ctx, x, axis, a, max(b, a)) for a, b in itertools.pairwise(bounds)]


def _share(ctx: TorchBuilder, size: Int, count: int, i: int) -> Int:
    """The size of piece ``i`` of ``count``: the first ones are longer by one where there is a rest."""
    rest = compute(ctx, "sub", compute(ctx, "mod", size, count), i)
    more = compute(ctx, "min", compute(ctx, "max", rest, 0), 1)
    return compute(ctx, "add", compute(ctx, "floordiv", size, count), more)  # type: ignore[return-value]


@aten("unbind", "unbind_copy")
def unbind(ctx: TorchBuilder, x: Value, dim: int = 0) -> list[Value]:
    axis = ctx.axis(x, dim)
    count = ctx.known(ctx.size(x, axis), "a size that is taken apart")
    return ctx.emit("Unpack", [x], count, axis=axis) if count else []


@aten("cat", "concat", "concatenate")
def cat(ctx: TorchBuilder, tensors: list[Value], dim: int = 0) -> Value:
    """Tensors of rank 1 without elements are left out, as torch does."""
    kept = [t for t in tensors if t.shape != (0,)] or list(tensors[:1])
    dtype = ctx.common(*tensors)
    cast = [ctx.cast(t, dtype) for t in kept]
    return ctx.op("Concat", *cast, axis=ctx.axis(kept[0], dim)) if len(cast) > 1 else ctx.op("Identity", cast[0])


@aten("stack", "_stack")
def stack(ctx: TorchBuilder, tensors: list[Value], dim: int = 0) -> Value:
    dtype = ctx.common(*tensors)
    return ctx.op("Pack", *[ctx.cast(t, dtype) for t in tensors], axis=ctx.axis(tensors[0], dim, 1))


@aten("hstack", "vstack", "dstack", "column_stack", "row_stack")
def stacked(ctx: TorchBuilder, tensors: list[Value]) -> Value:
    kind = next(n for n in ("column_stack", "hstack", "vstack", "dstack", "row_stack") if n in ctx.name)
    wanted, dim = {"hstack": (1, 1), "vstack": (2, 0), "row_stack": (2, 0), "dstack": (3, 2), "column_stack": (2, 1)}[
        kind
    ]
    raised = []
    for t in tensors:
        rank = ctx.rank_of(t)
        if kind == "column_stack" and rank < 2:
            t = ctx.op("Reshape", t, ctx.const([-1, 1]))
        elif rank < wanted:
            sizes = ctx.sizes(t)
            t = ctx.reshape(t, _raised(sizes, wanted))
        raised.append(t)
    return cat(ctx, raised, 0 if kind == "hstack" and ctx.rank_of(raised[0]) == 1 else dim)


def _raised(sizes: list[Int], wanted: int) -> list[Int]:
    """Sizes of 1, 2 or 3 dimensions, as numpy's ``atleast_1d`` to ``atleast_3d`` have them."""
    if not sizes:
        return [1] * wanted
    if wanted == 2:
        return [1, *sizes]
    return [1, sizes[0], 1] if len(sizes) == 1 else [*sizes, 1]


@aten("flip")
def flip(ctx: TorchBuilder, x: Value, dims: list[int]) -> Value:
    axes = ctx.axes(x, dims) if dims and ctx.rank_of(x) else []
    if not axes:
        return ctx.op("Identity", x)
    count = len(axes)
    bounds = [ctx.const(np.full(count, n, np.int64)) for n in (-1, np.iinfo(np.int64).min + 1, -1)]
    return ctx.op("StridedSlice", x, bounds[0], bounds[1], ctx.const(np.asarray(axes, np.int64)), bounds[2], fromType=1)


@aten("fliplr", "flipud")
def flip_named(ctx: TorchBuilder, x: Value) -> Value:
    return flip(ctx, x, [1 if "fliplr" in ctx.name else 0])


@aten("roll")
def roll(ctx: TorchBuilder, x: Value, shifts: Int | list[Int], dims: int | list[int] = ()) -> Value:  # type: ignore[assignment]
    listed = list(shifts) if isinstance(shifts, (list, tuple)) else [shifts]
    axes = [dims] if isinstance(dims, int) else list(dims)
    if not axes:
        flat = ctx.op("Reshape", x, ctx.const([-1]))
        return ctx.reshape(roll(ctx, flat, listed[0], 0), ctx.sizes(x))
    out = x
    for shift, dim in zip(listed, axes, strict=True):
        axis = ctx.axis(x, dim)
        size = ctx.size(x, axis)
        if shift == 0 or size == 0:
            continue
        at = compute(
            ctx, "mod", compute(ctx, "neg", shift), compute(ctx, "max", size, 1)
        )  # it may go around several times
        if at == 0:
            continue
        known = out.shape
        out = ctx.op("Concat", cut(ctx, out, axis, at, END), cut(ctx, out, axis, 0, at), axis=axis)  # type: ignore[arg-type]
        out.shape = known
    return out if out is not x else ctx.op("Identity", x)


@aten("fft_fftshift", "fft_ifftshift")
def fftshift(ctx: TorchBuilder, x: Value, dim: int | list[int] | None = None) -> Value:
    """Axes turned by half, so that frequency 0 comes to the middle, or back to the front."""
    axes = ctx.axes(x, dim)
    sizes = [ctx.known(ctx.size(x, a), "the size of an axis that is shifted") for a in axes]
    return roll(ctx, x, [-(n // 2) if ctx.name == "fft_ifftshift" else n // 2 for n in sizes], axes)


@aten("rot90")
def rot90(ctx: TorchBuilder, x: Value, k: int = 1, dims: list[int] | tuple[int, ...] = (0, 1)) -> Value:
    a, b = ctx.axes(x, list(dims))
    order = list(range(ctx.rank_of(x)))
    order[a], order[b] = order[b], order[a]
    turns = k % 4
    if turns == 0:
        return ctx.op("Identity", x)
    if turns == 2:
        return flip(ctx, x, [a, b])
    return flip(ctx, ctx.rows(x, order), [a]) if turns == 1 else ctx.rows(flip(ctx, x, [a]), order)


@aten("slice_scatter")
def slice_scatter(
    ctx: TorchBuilder,
    x: Value,
    source: Value,
    dim: int = 0,
    start: Int | None = None,
    end: Int | None = None,
    step: int = 1,
) -> Value:
    """``x`` with a slice of it replaced."""
    axis = ctx.axis(x, dim)
    size = ctx.size(x, axis)
    source = ctx.cast(source, ctx.type_of(x))
    if isinstance(size, int) and not isinstance(start, Number) and not isinstance(end, Number):
        begin, stop, _ = slice(start, end, step).indices(size)
        if step == 1:
            stop = max(stop, begin)
            parts = [cut(ctx, x, axis, 0, begin)] if begin else []
            parts += [source] if stop > begin else []
            parts += [cut(ctx, x, axis, stop, END)] if stop < size else []
            return ctx.op("Concat", *parts, axis=axis) if len(parts) > 1 else ctx.op("Identity", parts[0])
    # by the places that the slice has
    places = ctx.op("Range", ctx.const(np.int64(0)), ctx.scalar(size, DType.I64), ctx.const(np.int64(1)))
    taken = slice_(ctx, places, 0, start, end, step)
    rank = ctx.rank_of(x)
    raised = ctx.unsqueeze(taken, *[i for i in range(rank) if i != axis])
    index = ctx.expand(raised, ctx.shape_like(source))
    return ctx.op("ScatterElements", x, index, source, ctx.const(np.int32(axis)))


@aten("select_scatter")
def select_scatter(ctx: TorchBuilder, x: Value, source: Value, dim: int, index: Int) -> Value:
    axis = ctx.axis(x, dim)
    raised = ctx.unsqueeze(source, axis)
    if isinstance(index, Number):
        where = ctx.scalar(index, DType.I64)
        size = ctx.scalar(ctx.size(x, axis), DType.I64)
        placed = ctx.op("BinaryOp", where, size, opType="MOD")
        target = ctx.expand(ctx.op("Reshape", placed, ctx.const([1] * ctx.rank_of(x))), ctx.shape_like(raised))
        return ctx.op("ScatterElements", x, target, ctx.cast(raised, ctx.type_of(x)), ctx.const(np.int32(axis)))
    end = index + 1
    return slice_scatter(ctx, x, raised, axis, index, END if end == 0 else end)


_MODES = {"reflect": "REFLECT", "replicate": "EDGE"}


def padded(ctx: TorchBuilder, x: Value, pad: Ints, mode: str, value: Scalar = 0) -> Value:
    """``pad`` holds begin and end of the last axis, then of the one before it, and so on; negative ones cut."""
    rank = ctx.rank_of(x)
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise ctx.unsupported(f"{len(pad)} pads for a tensor of rank {rank}")
    borders: list[Int] = [0] * (2 * rank)
    out = x
    for i in range(len(pad) // 2):
        axis = rank - 1 - i
        begin, end = pad[2 * i], pad[2 * i + 1]
        if mode == "replicate":
            begin, end = _one_left(begin, end, ctx.size(x, axis))
        low = -begin if isinstance(begin, int) and begin < 0 else 0
        high = end if isinstance(end, int) and end < 0 else END
        if low or high != END:
            out = cut(ctx, out, axis, low, high)
        borders[2 * axis] = 0 if low else begin
        borders[2 * axis + 1] = 0 if high != END else end
    if not any(isinstance(n, Number) or n for n in borders):
        return ctx.op("Identity", out)
    if mode == "circular":
        return ctx.op("PadWrap", out, ctx.ints(borders))
    if mode == "constant":
        return ctx.op("Padding", out, ctx.ints(borders), ctx.scalar(value, ctx.type_of(x)), mode="CONSTANT")
    return ctx.op("Padding", out, ctx.ints(borders), mode=_MODES[mode])


def _one_left(begin: Int, end: Int, size: Int) -> tuple[Int, Int]:
    """Pads that cut an axis away on one side and repeat its last element on the other: that one stays."""
    if not (isinstance(begin, int) and isinstance(end, int) and isinstance(size, int)):
        return begin, end
    if begin <= -size and end > 0:
        return 1 - size, end + begin + size - 1
    if end <= -size and begin > 0:
        return begin + end + size - 1, 1 - size
    return begin, end


@aten("pad", "_pad_enum")
def pad(ctx: TorchBuilder, x: Value, pad: Ints, mode: str | int = "constant", value: float | None = None) -> Value:
    if isinstance(mode, int):
        mode = ("constant", "reflect", "replicate", "circular")[mode]
    return padded(ctx, x, pad, mode, 0.0 if value is None else value)


@aten("constant_pad_nd")
def constant_pad(ctx: TorchBuilder, x: Value, pad: Ints, value: Scalar = 0) -> Value:
    return padded(ctx, x, pad, "constant", value)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(ctx: TorchBuilder, x: Value, padding: Ints) -> Value:
    return padded(ctx, x, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(ctx: TorchBuilder, x: Value, padding: Ints) -> Value:
    return padded(ctx, x, padding, "replicate")


@aten("_pad_circular")
def circular_pad(ctx: TorchBuilder, x: Value, padding: Ints) -> Value:
    return padded(ctx, x, padding, "circular")


@aten("pad_sequence")
def pad_sequence(
    ctx: TorchBuilder, sequences: list[Value], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Value:  # fmt: skip
    """Sequences ``[T, ...]`` filled up to the longest, side by side."""
    lengths = [ctx.known(ctx.size(x, 0), "the length of a sequence") for x in sequences]
    lines = []
    for x, length in zip(sequences, lengths, strict=True):
        ends = [0, max(lengths) - length] if padding_side == "right" else [max(lengths) - length, 0]
        lines.append(pad(ctx, x, [0, 0] * (ctx.rank_of(x) - 1) + ends, "constant", padding_value))
    return ctx.op("Pack", *lines, axis=0 if batch_first else 1)
