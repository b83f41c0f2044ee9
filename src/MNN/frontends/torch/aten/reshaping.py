"""Views: other sizes, other orders of axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from MNN.frontends.torch.aten.creation import bounded
from MNN.frontends.torch.aten.ordering.segments import passed
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int, Ints, Number
from MNN.frontends.torch.registry import apply, aten
from MNN.frontends.torch.scalars import compute
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@aten("view", "reshape", "_unsafe_view", "view_copy", "_reshape_alias", "_reshape_copy")
def view(ctx: TorchBuilder, x: Value, size: Ints | DType | int, *_: object) -> Value:
    """To other sizes; with a type, the same bits in that type."""
    if isinstance(size, (DType, int)):
        kind = ctx.element_type(size)
        if kind.size != ctx.type_of(x).size:
            raise ctx.unsupported(f"a view of {ctx.type_of(x).value} as {kind.value}, which has another width")
        return ctx.op("BitCast", x, dstT=data_type(kind))
    return ctx.reshape(x, list(size))


@aten("view_as", "reshape_as")
def view_as(ctx: TorchBuilder, x: Value, other: Value) -> Value:
    return ctx.op("Reshape", x, ctx.shape_like(other))


@aten("flatten", "ravel")
def flatten(ctx: TorchBuilder, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    if x.shape is None and start_dim == 1 and end_dim == -1:
        return ctx.op("Flatten", x, axis=1)
    rank = ctx.rank_of(x)
    if rank == 0:
        return ctx.op("Reshape", x, ctx.const([1]))
    first, last = ctx.axis(x, start_dim), ctx.axis(x, end_dim)
    if first == last:
        return ctx.op("Identity", x)
    if any(n == 0 for n in x.shape or ()):
        middle = int(np.prod([ctx.known(n, "a size") for n in ctx.sizes(x)[first : last + 1]]))
        return ctx.reshape(x, [*ctx.sizes(x)[:first], middle, *ctx.sizes(x)[last + 1 :]])
    if last == rank - 1:
        return ctx.op("Flatten", x, axis=1) if first == 1 else ctx.op("Reshape", x, ctx.const([0] * first + [-1]))
    return ctx.reshape(x, [*ctx.sizes(x)[:first], -1, *ctx.sizes(x)[last + 1 :]])


@aten("unflatten")
def unflatten(ctx: TorchBuilder, x: Value, dim: int, sizes: Ints) -> Value:
    axis, before = ctx.axis(x, dim), ctx.sizes(x)
    return ctx.reshape(x, [*before[:axis], *sizes, *before[axis + 1 :]])


@aten("squeeze", "squeeze_copy")
def squeeze(ctx: TorchBuilder, x: Value, dim: int | list[int] | None = None) -> Value:
    """Axes whose size is not 1 stay; open ones too, and a run in which one is 1 ends with an error."""
    rank = ctx.rank_of(x)
    asked = range(rank) if dim is None else ctx.axes(x, dim) if rank and dim != [] else []
    sizes = x.shape or ()
    dropped = [a for a in asked if a < rank and sizes[a] == 1]
    if kept := [a for a in asked if a < rank and not isinstance(sizes[a], int)]:
        x = ctx.op("KeptAxes", x, axes=kept)
    if not dropped:
        return ctx.op("Identity", x)
    return ctx.squeeze(x, *dropped)


@aten("unsqueeze", "unsqueeze_copy")
def unsqueeze(ctx: TorchBuilder, x: Value, dim: int) -> Value:
    return ctx.op("Unsqueeze", x, squeezeDims=[ctx.axis(x, dim, 1)])


@aten("permute", "permute_copy")
def permute(ctx: TorchBuilder, x: Value, dims: list[int]) -> Value:
    return ctx.op("Permute", x, dims=[d % max(len(dims), 1) for d in dims])


@aten("transpose", "swapaxes", "swapdims", "transpose_copy")
def transpose(ctx: TorchBuilder, x: Value, dim0: int, dim1: int) -> Value:
    order = list(range(ctx.rank_of(x)))
    if not order:
        return ctx.op("Identity", x)
    a, b = ctx.axis(x, dim0), ctx.axis(x, dim1)
    order[a], order[b] = order[b], order[a]
    return ctx.op("Permute", x, dims=order)


@aten("t", "numpy_T", "mT", "mH", "matrix_H", "adjoint", "t_copy")
def transposed(ctx: TorchBuilder, x: Value) -> Value:
    order = list(range(ctx.rank_of(x)))
    if "numpy_T" in ctx.name:
        order.reverse()
    elif len(order) > 1:
        order[-1], order[-2] = order[-2], order[-1]
    return ctx.op("Permute", x, dims=order) if order else ctx.op("Identity", x)


@aten("movedim", "moveaxis")
def movedim(ctx: TorchBuilder, x: Value, source: int | list[int], destination: int | list[int]) -> Value:
    rank = ctx.rank_of(x)
    if rank == 0:
        return ctx.op("Identity", x)
    before, after = ctx.axes(x, source), ctx.axes(x, destination)
    order = [-1] * rank
    for a, b in zip(before, after, strict=True):
        order[b] = a
    left = iter(a for a in range(rank) if a not in before)
    return ctx.rows(x, [a if a >= 0 else next(left) for a in order])


@aten("expand", "expand_copy")
def expand(ctx: TorchBuilder, x: Value, size: Ints, implicit: bool = False) -> Value:
    """-1 keeps a size."""
    rank, sizes = ctx.rank_of(x), list(size)
    lead = len(sizes) - rank
    for i, n in enumerate(sizes):
        if isinstance(n, int) and n == -1 and i >= lead:
            sizes[i] = 1  # broadcasting keeps the tensor's own
    own = x.shape or ()
    if lead == 0 and all(
        n == 1 or n == own[i] or (isinstance(n, Number) and n.size == own[i]) for i, n in enumerate(sizes)
    ):
        return ctx.op("Identity", x)
    return ctx.expand(x, ctx.ints(sizes))


@aten("expand_as")
def expand_as(ctx: TorchBuilder, x: Value, other: Value) -> Value:
    return ctx.expand(x, ctx.shape_like(other))


@aten("broadcast_to", "broadcast_as")
def broadcast_to(ctx: TorchBuilder, x: Value, size: Ints) -> Value:
    return expand(ctx, x, size)


@aten("broadcast_tensors")
def broadcast_tensors(ctx: TorchBuilder, tensors: list[Value]) -> list[Value]:
    """Each is broadcast against all others, one after the other."""
    out = []
    for t in tensors:
        for other in tensors:
            t = ctx.expand(t, ctx.shape_like(other)) if other is not t else t
        out.append(t)
    return out


@aten("repeat", "tile")
def repeat(ctx: TorchBuilder, x: Value, repeats: Ints) -> Value:
    rank, times = ctx.rank_of(x), list(repeats)
    if "tile" in ctx.name:
        times = [*[1] * (rank - len(times)), *times]
    if len(times) > rank:
        x = ctx.reshape(x, [*[1] * (len(times) - rank), *ctx.sizes(x)])
    if all(n == 1 for n in times if isinstance(n, int)) and not any(isinstance(n, Number) for n in times):
        return ctx.op("Identity", x)
    return ctx.op("Tile", x, ctx.ints(times))


@aten("repeat_interleave")
def repeat_interleave(
    ctx: TorchBuilder,
    x: Value,
    repeats: Value | Int | None = None,
    dim: int | None = None,
    output_size: Int | None = None,
) -> Value:
    if repeats is None:  # the tensor holds the numbers; its places are what is repeated
        return ctx.cast(_repeated(ctx, x, output_size), ctx.type_of(x))
    if isinstance(repeats, Value):
        repeats = Number(ctx.op("Reshape", repeats, ctx.ints([]))) if repeats.shape in ((), (1,)) else repeats
    if dim is None:
        x, dim = ctx.op("Reshape", x, ctx.const([-1])), 0
    axis, sizes = ctx.axis(x, dim), ctx.sizes(x)
    if isinstance(repeats, Value):
        return ctx.op("GatherV2", x, _repeated(ctx, repeats, output_size), ctx.const(np.int32(axis)))
    raised = ctx.unsqueeze(x, axis + 1)
    shape: list[Int] = [1] * (len(sizes) + 1)
    shape[axis + 1] = repeats
    spread = ctx.expand(raised, ctx.ints(shape))
    longer: Any = compute(ctx, "mul", sizes[axis], repeats)  # -1 does not stand for it where another one is 0
    return ctx.reshape(spread, [*sizes[:axis], longer, *sizes[axis + 1 :]])


def _repeated(ctx: TorchBuilder, repeats: Value, total: Int | None) -> Value:
    """Places, each as often as ``repeats`` says."""
    known = ctx.constant_ints(repeats)
    if known is not None:
        if min(known, default=0) < 0:
            raise ctx.unsupported(f"repeats of {min(known)}")
        bounded(ctx, sum(known), 1 << 24, "elements")
        return ctx.const(np.repeat(np.arange(len(known)), known))
    ends = apply(ctx, "cumsum", [repeats, 0], {})
    return passed(ctx, ends, Number(apply(ctx, "sum", [repeats], {})) if total is None else total, 0)


@aten("pixel_shuffle")
def pixel_shuffle(ctx: TorchBuilder, x: Value, upscale_factor: int) -> Value:
    return _blocks(ctx, x, "DepthToSpace", upscale_factor)


@aten("pixel_unshuffle")
def pixel_unshuffle(ctx: TorchBuilder, x: Value, downscale_factor: int) -> Value:
    return _blocks(ctx, x, "SpaceToDepth", downscale_factor)


def _blocks(ctx: TorchBuilder, x: Value, op: str, factor: int) -> Value:
    rank, sizes = ctx.rank_of(x), ctx.sizes(x)
    if factor == 1:
        return ctx.op("Identity", x)
    flat = x if rank == 4 else ctx.reshape(x, [-1, *sizes[-3:]])
    out = ctx.op(op, flat, blockSize=factor, mode="CRD")
    return out if rank == 4 else ctx.reshape(out, [*sizes[:-3], *ctx.sizes(out)[1:]])


@aten("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(ctx: TorchBuilder, x: Value, groups: int) -> Value:
    sizes = ctx.sizes(x)
    channels = ctx.known(sizes[1], "a number of channels")
    split = ctx.reshape(x, [sizes[0], groups, channels // groups, *sizes[2:]])
    turned = ctx.rows(split, [0, 2, 1, *range(3, len(sizes) + 1)])
    return ctx.reshape(turned, [sizes[0], channels, *sizes[2:]])


@aten("diagonal", "diagonal_copy")
def diagonal(ctx: TorchBuilder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The two axes become one, at the end."""
    a, b, rank = ctx.axis(x, dim1), ctx.axis(x, dim2), ctx.rank_of(x)
    rest = [i for i in range(rank) if i not in (a, b)]
    turned = ctx.rows(x, [*rest, a, b])
    first = (max(-offset, 0), max(offset, 0))
    sides = ctx.size(x, a), ctx.size(x, b)
    if any(isinstance(n, Number) for n in sides):
        return _open_diagonal(ctx, turned, sides, first)
    height, width = (bounded(ctx, n, 1 << 20, "rows whose diagonal is taken") for n in sides)
    count = max(min(height - first[0], width - first[1]), 0)
    flat = ctx.reshape(turned, [*ctx.sizes(turned)[:-2], height * width])
    places = np.array([(first[0] + i) * width + first[1] + i for i in range(count)], np.int64)
    return ctx.op("GatherV2", flat, ctx.const(places), ctx.const(np.int32(rank - 2)))


def _open_diagonal(ctx: TorchBuilder, x: Value, sides: tuple[Int, Int], first: tuple[int, int]) -> Value:
    """The same along the last two axes, of which one at least is known only when the model runs."""
    lengths = [compute(ctx, "sub", n, at) for n, at in zip(sides, first, strict=True)]
    count = compute(ctx, "max", compute(ctx, "min", *lengths), 0)
    number = apply(ctx, "arange", [count], {})
    step = ctx.scalar(compute(ctx, "add", sides[1], 1), DType.I64)
    start = ctx.scalar(compute(ctx, "add", compute(ctx, "mul", sides[1], first[0]), first[1]), DType.I64)
    places = ctx.binary("ADD", ctx.binary("MUL", number, step), start)
    flat = apply(ctx, "flatten", [x, -2], {})
    return ctx.op("GatherV2", flat, places, ctx.const(np.int32(ctx.rank_of(x) - 2)))


@aten("linalg_diagonal")
def linalg_diagonal(ctx: TorchBuilder, x: Value, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    return diagonal(ctx, x, offset, dim1, dim2)


@aten("diag")
def diag(ctx: TorchBuilder, x: Value, diagonal_at: int = 0) -> Value:
    return diag_embed(ctx, x, diagonal_at) if ctx.rank_of(x) == 1 else diagonal(ctx, x, diagonal_at)


@aten("diagflat")
def diagflat(ctx: TorchBuilder, x: Value, offset: int = 0) -> Value:
    return diag_embed(ctx, ctx.reshape(x, [-1]), offset)


@aten("diag_embed")
def diag_embed(ctx: TorchBuilder, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    rank = ctx.rank_of(x) + 1
    a, b = dim1 % rank, dim2 % rank
    count = bounded(ctx, ctx.size(x, -1), 256, "elements of a diagonal")
    side = count + abs(offset)
    mask = np.zeros((count, side, side), bool)
    for i in range(count):
        mask[i, i + max(-offset, 0), i + max(offset, 0)] = True
    picked = np.where(mask.any(0), mask.argmax(0), count)
    padded = ctx.op("Padding", x, ctx.const([0, 0] * (rank - 2) + [0, 1]), ctx.const_like(0, x), mode="CONSTANT")
    square = ctx.op("GatherV2", padded, ctx.const(picked.reshape(-1)), ctx.const(np.int32(rank - 2)))
    square = ctx.reshape(square, [*ctx.sizes(x)[:-1], side, side])
    rest = iter(range(rank - 2))
    order = [rank - 2 if i == a else rank - 1 if i == b else next(rest) for i in range(rank)]
    return ctx.rows(square, order)


@aten("unfold", "unfold_copy")
def unfold(ctx: TorchBuilder, x: Value, dimension: int, size: int, step: int) -> Value:
    """Windows along an axis, on a new last axis."""
    if ctx.rank_of(x) == 0:
        return ctx.op("Reshape", x, ctx.const([1]))
    axis = ctx.axis(x, dimension)
    windows = ctx.op("GatherV2", x, _window_places(ctx, ctx.size(x, axis), size, step), ctx.const(np.int32(axis)))
    order = [i for i in range(ctx.rank_of(x) + 1) if i != axis + 1]
    return ctx.rows(windows, [*order, axis + 1])


def _window_places(ctx: TorchBuilder, length: Int, size: int, step: int) -> Value:
    """Places of windows' elements along an axis, a window a row."""
    width = np.arange(bounded(ctx, size, 1 << 22, "places of a window"), dtype=np.int64)
    if isinstance(length, Number):
        ends = ctx.binary("SUB", length.value, size - 1)
        starts = apply(ctx, "arange", [0, Number(ctx.cast(ends, DType.I64)), step], {})
        return ctx.binary("ADD", ctx.unsqueeze(starts, 1), ctx.const(width))
    starts = np.arange(0, max(length - size + 1, 0), step, dtype=np.int64)
    bounded(ctx, (starts.size + 1) * size, 1 << 26, "numbers of windows")
    return ctx.const(starts[:, None] + width)


def strided_places(ctx: TorchBuilder, size: list[int], stride: list[int], offset: int | None) -> np.ndarray:
    """Where the elements of a view lie in memory. Raises :class:`UnsupportedError` for very many."""
    bounded(ctx, int(np.prod(size)), 1 << 24, "elements")
    places = np.full(size, offset or 0, np.int64)
    for axis, (n, s) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * s).reshape([-1 if i == axis else 1 for i in range(len(size))])
    return places


@aten("resize")
def resize(ctx: TorchBuilder, x: Value, size: list[int]) -> Value:
    """The first elements in other sizes. There may be fewer of them, not more: nobody set those."""
    sizes = [ctx.known(n, "a size") for n in size]
    count, there = (math.prod(n) for n in (sizes, [ctx.known(n, "a size") for n in ctx.sizes(x)]))
    if count > there:
        raise ctx.unsupported(f"resize_ of {there} elements to {count}", "use a tensor of its own")
    line = ctx.reshape(x, [-1])
    return ctx.reshape(apply(ctx, "slice", [line, 0, 0, count], {}), sizes)


@aten("as_strided", "as_strided_copy")
def as_strided(
    ctx: TorchBuilder, x: Value, size: list[int], stride: list[int], storage_offset: int | None = None
) -> Value:
    """Of a tensor whose elements lie in memory in their order."""
    places = strided_places(ctx, size, stride, storage_offset)
    flat = ctx.op("Reshape", x, ctx.const([-1]))
    return (
        ctx.op("GatherV2", flat, ctx.const(places), ctx.const(np.int32(0)))
        if places.size
        else ctx.const(np.zeros(size, ctx.type_of(x).numpy))
    )


@aten("atleast_1d", "atleast_2d", "atleast_3d")
def atleast(ctx: TorchBuilder, x: Value | list[Value]) -> Value | list[Value]:
    """Axes come in front, the third one behind; of several tensors, each by itself."""
    least = int(ctx.name[-2])
    return [_raised(ctx, t, least) for t in x] if isinstance(x, list) else _raised(ctx, x, least)


def _raised(ctx: TorchBuilder, x: Value, least: int) -> Value:
    rank = ctx.rank_of(x)
    if rank >= least:
        return ctx.op("Identity", x)
    behind = [2] if least == 3 else []
    return ctx.unsqueeze(x, *range(least - rank - len(behind)), *behind)
