"""Pooling over windows, and over so many windows as there are to be results."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.torch.aten.convolution import Spatial
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int, Number, Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.frontends.torch.scalars import compute
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.images.pooling import lowest

_COUNTS = {"1d": 1, "2d": 2, "3d": 3}


def _spatial(ctx: TorchBuilder) -> int:
    return next(n for text, n in _COUNTS.items() if text in ctx.name)


def _batched(ctx: TorchBuilder, x: Value, count: int) -> tuple[Value, bool]:
    """With a batch in front; whether it had none."""
    if x.shape is None:
        x.shape = tuple(f"{x.name}.{i}" for i in range(count + 2))
    alone = ctx.rank_of(x) == count + 1
    return (ctx.unsqueeze(x, 0) if alone else x), alone


def _window(
    ctx: TorchBuilder, count: int, kernel_size: Spatial, stride: Spatial | None, padding: Spatial
) -> tuple[list[int], list[int], list[int]]:
    kernel = ctx.known_ints(kernel_size, count, "the size of a window")
    strides = ctx.known_ints(stride, count, "a stride") if stride not in (None, [], ()) else kernel
    return kernel, strides, ctx.known_ints(padding, count, "a padding")


@aten("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(
    ctx: TorchBuilder, x: Value, kernel_size: Spatial, stride: Spatial | None = None, padding: Spatial = 0,
    dilation: Spatial = 1, ceil_mode: bool = False,
) -> Value:  # fmt: skip
    count = _spatial(ctx)
    x, alone = _batched(ctx, x, count)
    kernel, strides, pads = _window(ctx, count, kernel_size, stride, padding)
    dilations = ctx.known_ints(dilation, count, "a dilation")
    if any(d != 1 for d in dilations) or (count == 3 and ceil_mode) or not ctx.type_of(x).is_float:
        out = _general(ctx, "MaxPool", x, kernel, strides, pads, 1, dilations=dilations, ceil_mode=ceil_mode)[0]
    elif count == 3:
        out = ctx.op("Pooling3D", x, kernels=kernel, strides=strides, pads=pads, type="MAXPOOL", padType="CAFFE")
    else:
        out = _planar(ctx, x, kernel, strides, pads, ceil_mode, "MAXPOOL", None)
    return ctx.squeeze(out, 0) if alone else out


@aten("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices")
def max_pool_with_indices(
    ctx: TorchBuilder, x: Value, kernel_size: Spatial, stride: Spatial | None = None, padding: Spatial = 0,
    dilation: Spatial = 1, ceil_mode: bool = False,
) -> list[Value]:  # fmt: skip
    """Positions are those within one channel's image."""
    count = _spatial(ctx)
    x, alone = _batched(ctx, x, count)
    kernel, strides, pads = _window(ctx, count, kernel_size, stride, padding)
    dilations = ctx.known_ints(dilation, count, "a dilation")
    out, places = _general(ctx, "MaxPool", x, kernel, strides, pads, 2, dilations=dilations, ceil_mode=ceil_mode)
    image = ctx.const(np.int64(1))
    for n in ctx.sizes(x)[2:]:
        image = ctx.op("BinaryOp", image, ctx.scalar(n, DType.I64), opType="MUL")
    places = ctx.op("BinaryOp", places, image, opType="MOD")
    return [ctx.squeeze(v, 0) for v in (out, places)] if alone else [out, places]


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    ctx: TorchBuilder, x: Value, kernel_size: Spatial, stride: Spatial | None = None, padding: Spatial = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    kind = ctx.type_of(x)
    if not kind.is_float:  # quotients of integers, rounded towards 0: doubles are off by less than one window's part
        wide = avg_pool(
            ctx, ctx.cast(x, DType.F64), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )
        nudged = ctx.binary("ADD", wide, ctx.binary("MUL", ctx.unary("SIGN", wide), 2.0**-20))
        return ctx.cast(apply(ctx, "trunc", [nudged], {}), kind)
    count = _spatial(ctx)
    x, alone = _batched(ctx, x, count)
    kernel, strides, pads = _window(ctx, count, kernel_size, stride, padding)
    include = count_include_pad and any(pads)
    if divisor_override is not None:  # sums: averages of windows that count what is outside as zeros
        include = True
        if ceil_mode:
            x, pads, ceil_mode = _filled_up(ctx, x, kernel, strides, pads), [0] * count, False
    if count < 3:
        out = _planar(ctx, x, kernel, strides, pads, ceil_mode, "AVEPOOL", include)
    elif not ceil_mode and not include:
        out = ctx.op("Pooling3D", x, kernels=kernel, strides=strides, pads=pads, type="AVEPOOL", padType="CAFFE")
    else:
        out = _general(ctx, "AveragePool", x, kernel, strides, pads, 1, ceil_mode=ceil_mode, count_include_pad=include)[
            0
        ]
    if divisor_override is not None:
        out = ctx.binary("MUL", out, math.prod(kernel) / divisor_override)
    return ctx.squeeze(out, 0) if alone else out


def _filled_up(ctx: TorchBuilder, x: Value, kernel: list[int], strides: list[int], pads: list[int]) -> Value:
    """With zeros around, so that the windows of ``ceil_mode`` are whole ones."""
    amounts = [0, 0, 0, 0]
    for n, k, s, p in zip(ctx.sizes(x)[2:], kernel, strides, pads, strict=True):
        size = ctx.known(n, "the size of an axis with divisor_override and ceil_mode")
        windows = -(-(size + 2 * p - k) // s) + 1
        windows -= (windows - 1) * s >= size + p  # none begins in the padding at the end
        amounts += [p, max((windows - 1) * s + k - size - p, 0)]
    return ctx.op("Padding", x, ctx.const(amounts), ctx.const_like(0, x), mode="CONSTANT")


def _general(
    ctx: TorchBuilder,
    op: str,
    x: Value,
    kernel: list[int],
    strides: list[int],
    pads: list[int],
    outputs: int,
    **more: object,
) -> list[Value]:
    return ctx.emit(
        op, [x], outputs, kernel_shape=kernel, strides=strides, pads=[*pads, *pads], padMode="CAFFE", **more
    )


def _planar(
    ctx: TorchBuilder, x: Value, kernel: list[int], strides: list[int], pads: list[int], ceil: bool, kind: str,
    include: bool | None,
) -> Value:  # fmt: skip
    one = len(kernel) == 1
    if one:
        x, kernel, strides, pads = ctx.unsqueeze(x, 2), [1, *kernel], [1, *strides], [0, *pads]
    counted = None if include is None else "INCLUDE_PADDING" if include else "EXCLUDE_PADDING"
    out = ctx.op(
        "Pooling", x, kernelY=kernel[0], kernelX=kernel[1], strideY=strides[0], strideX=strides[1], padType="CAFFE",
        pads=[*pads, *pads], ceilModel=ceil, type=kind, countType=counted,
    )  # fmt: skip
    return ctx.squeeze(out, 2) if one else out


@aten(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"
)
def adaptive_avg_pool(ctx: TorchBuilder, x: Value, output_size: Spatial) -> Value:
    return _adaptive(ctx, x, output_size, "AVEPOOL")


@aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(ctx: TorchBuilder, x: Value, output_size: Spatial) -> list[Value]:
    """Maxima, and their positions within one channel's image."""
    count = _spatial(ctx)
    batched, alone = _batched(ctx, x, count)
    sizes = ctx.sizes(batched)[2:]
    kernel = _even(sizes, _wanted(ctx, output_size, sizes, count))
    if kernel is None:
        return [_adaptive(ctx, x, output_size, "MAXPOOL"), _positions(ctx, x, output_size)]
    out, places = _general(ctx, "MaxPool", batched, kernel, kernel, [0] * count, 2)
    image = ctx.const(np.int64(math.prod([n for n in sizes if isinstance(n, int)])))
    places = ctx.op("BinaryOp", places, image, opType="MOD")
    return [ctx.squeeze(v, 0) for v in (out, places)] if alone else [out, places]


def _positions(ctx: TorchBuilder, x: Value, output_size: Spatial) -> Value:
    """Where the maximum of each window is, of windows of several sizes: axis by axis from the last one on, so that the
    first of equal ones counts. Windows that are shorter than others repeat their last place."""
    count = _spatial(ctx)
    x, alone = _batched(ctx, x, count)
    sizes = ctx.sizes(x)
    whole: Scalar = 1
    for n in sizes[2:]:
        whole = compute(ctx, "mul", whole, n)
    places = ctx.reshape(apply(ctx, "arange", [whole], {}), [1, 1, *sizes[2:]])
    places = ctx.expand(places, ctx.shape_like(x))
    wanted = _wanted(ctx, output_size, sizes[2:], count)
    for axis, w in reversed(list(enumerate(wanted, 2))):
        if w is None:
            continue
        size = ctx.scalar(sizes[axis], DType.I64)
        number = ctx.const(np.arange(w, dtype=np.int64)[:, None])
        begin = ctx.binary("FLOORDIV", ctx.binary("MUL", number, size), w)
        last = ctx.binary("SUB", ctx.binary("MUL", ctx.binary("ADD", number, 1), size), 1)
        longest = ctx.binary("ADD", ctx.binary("FLOORDIV", ctx.binary("SUB", size, 1), w), 2)
        within = ctx.op("Range", ctx.const(np.int64(0)), longest, ctx.const(np.int64(1)))
        index = ctx.binary("MINIMUM", ctx.binary("ADD", begin, within), ctx.binary("FLOORDIV", last, w))
        index.shape = index.shape or (w, f"{index.name}.1")
        windows, of_windows = (ctx.op("GatherV2", v, index, ctx.const(np.int32(axis))) for v in (x, places))
        x, chosen = apply(ctx, "max", [windows, axis + 1, True], {})
        places = ctx.squeeze(apply(ctx, "gather", [of_windows, axis + 1, chosen], {}), axis + 1)
        x = ctx.squeeze(x, axis + 1)
    return ctx.squeeze(places, 0) if alone else places


def _wanted(ctx: TorchBuilder, output_size: Spatial, sizes: list[Int], count: int) -> list[int | None]:
    """How many results each axis is to have; None: as many as there are elements."""
    listed = [output_size] * count if isinstance(output_size, (int, Number)) else list(output_size)
    listed = listed * count if len(listed) == 1 else listed
    return [
        None if n is None or _same(n, size) else ctx.known(n, "a number of results")
        for n, size in zip(listed, sizes, strict=True)
    ]


def _same(n: Int, size: Int) -> bool:
    """Whether both are one size of the program."""
    return isinstance(n, Number) and isinstance(size, Number) and n.size == size.size != ""


def _even(sizes: list[Int], wanted: list[int | None]) -> list[int] | None:
    """The windows, where they are known and all of one size."""
    found = []
    for n, w in zip(sizes, wanted, strict=True):
        if not isinstance(n, int) or (w is not None and n % w):
            return None
        found.append(1 if w is None else n // w)
    return found


def _adaptive(ctx: TorchBuilder, x: Value, output_size: Spatial, kind: str) -> Value:
    """Windows of result i go from ``floor(i * n / m)`` to ``ceil((i + 1) * n / m)``."""
    count = _spatial(ctx)
    if ctx.rank_of(x) > count + 2:  # torch takes these where one result is asked for
        return apply(ctx, "mean", [x, list(range(-count, 0)), True], {})  # type: ignore[no-any-return]
    x, alone = _batched(ctx, x, count)
    sizes = ctx.sizes(x)[2:]
    listed = [output_size] * count if isinstance(output_size, (int, Number)) else list(output_size)
    if all(n == 1 for n in listed):
        if count == 1:
            out = ctx.op("Pooling", ctx.unsqueeze(x, 2), type=kind, isGlobal=True)
            out = ctx.squeeze(out, 2)
        else:
            out = ctx.op("Pooling" if count == 2 else "Pooling3D", x, type=kind, isGlobal=True)
        return ctx.squeeze(out, 0) if alone else out
    wanted = _wanted(ctx, output_size, sizes, count)
    kernel = _even(sizes, wanted)
    if kernel is not None:
        if kernel != [1] * count:
            if count == 3:
                out = ctx.op("Pooling3D", x, kernels=kernel, strides=kernel, pads=[0] * 3, type=kind, padType="CAFFE")
            else:
                out = _planar(ctx, x, kernel, kernel, [0] * count, False, kind, None if kind == "MAXPOOL" else False)
        else:
            out = ctx.op("Identity", x)
        return ctx.squeeze(out, 0) if alone else out
    out = x
    for i, (n, w) in enumerate(zip(sizes, wanted, strict=True)):
        if w is None:
            continue
        if isinstance(n, int):
            out = _uneven(ctx, out, 2 + i, n, w, kind)
        else:
            out = _of_open_size(ctx, out, 2 + i, n, w, kind)
    return ctx.squeeze(out, 0) if alone else out


def _uneven(ctx: TorchBuilder, x: Value, axis: int, size: int, wanted: int, kind: str) -> Value:
    """One axis: averages by a matrix product, maxima over windows filled up by repeating their last place."""
    if size == wanted:
        return x
    bounds = [(i * size // wanted, -(-(i + 1) * size // wanted)) for i in range(wanted)]
    rank = ctx.rank_of(x)
    if kind == "AVEPOOL":
        weights = np.zeros((size, wanted), np.float64)
        for i, (a, b) in enumerate(bounds):
            weights[a:b, i] = 1 / (b - a)
        order = [i for i in range(rank) if i != axis] + [axis]
        out = ctx.op("MatMul", ctx.rows(x, order), ctx.cast_known(ctx.const(weights), ctx.type_of(x)))
        return ctx.rows(out, [order.index(i) for i in range(rank)])
    longest = max(b - a for a, b in bounds)
    places = np.array([[min(a + k, b - 1) for k in range(longest)] for a, b in bounds], np.int64)
    windows = ctx.op("GatherV2", x, ctx.const(places), ctx.const(np.int32(axis)))
    return ctx.op("Reduction", windows, operation="MAXIMUM", dim=[axis + 1])


def _of_open_size(ctx: TorchBuilder, x: Value, axis: int, size: Int, wanted: int, kind: str) -> Value:
    """The same where the windows follow from the size when the model runs: a table says which elements are in which."""
    count, rank = ctx.scalar(size, DType.I64), ctx.rank_of(x)
    number = np.arange(wanted, dtype=np.int64)
    first, last = (ctx.binary("MUL", ctx.const(number + i), count) for i in range(2))
    begin = ctx.binary("FLOORDIV", first, wanted)
    past = ctx.binary("FLOORDIV", ctx.binary("ADD", last, wanted - 1), wanted)
    place = ctx.unsqueeze(ctx.op("Range", ctx.const(np.int64(0)), count, ctx.const(np.int64(1))), 1)
    after, before = ctx.binary("GREATER_EQUAL", place, begin), ctx.binary("LESS", place, past)
    dtype = ctx.type_of(x)
    order = [i for i in range(rank) if i != axis] + [axis]
    rows = ctx.rows(x, order)
    if kind == "AVEPOOL":
        inside = ctx.binary("MUL", ctx.cast(after, dtype), ctx.cast(before, dtype))
        out = ctx.op("MatMul", rows, ctx.binary("REALDIV", inside, ctx.cast(ctx.binary("SUB", past, begin), dtype)))
    else:
        inside = ctx.binary("MUL", ctx.cast(after, DType.I32), ctx.cast(before, DType.I32))
        nothing = ctx.const(np.asarray(lowest(dtype), dtype.numpy))
        every = ctx.op("Select", ctx.cast(inside, DType.BOOL), ctx.unsqueeze(rows, rank), nothing)
        out = ctx.op("Reduction", every, operation="MAXIMUM", dim=[rank - 1])
    return ctx.rows(out, [order.index(i) for i in range(rank)])


@aten("lp_pool1d", "lp_pool2d", "lp_pool3d")
def lp_pool(
    ctx: TorchBuilder, x: Value, p: float, kernel_size: Spatial, stride: Spatial | None = None, ceil_mode: bool = False
) -> Value:
    count = _spatial(ctx)
    kernel, strides, pads = _window(ctx, count, kernel_size, stride, 0)
    return _general(ctx, "LpPool", x, kernel, strides, pads, 1, ceil_mode=ceil_mode, p=int(p))[0]


@aten("max_unpool2d", "max_unpool3d")
def max_unpool(ctx: TorchBuilder, x: Value, indices: Value, output_size: Spatial, *_: object) -> Value:
    """Values back at their places; zeros elsewhere."""
    count = _spatial(ctx)
    x, alone = _batched(ctx, x, count)
    if alone:
        indices = ctx.unsqueeze(indices, 0)
    sizes, image = (
        ctx.sizes(x),
        list(output_size) if not isinstance(output_size, (int, Number)) else [output_size] * count,
    )
    flat = ctx.op("Reshape", x, ctx.const([0, 0, -1]))
    total = ctx.const(np.int64(1))
    for n in image:
        total = ctx.op("BinaryOp", total, ctx.scalar(n, DType.I64), opType="MUL")
    blank = ctx.op("Fill", ctx.ints([*sizes[:2], Number(total)]), ctx.const_like(0, x))
    places = ctx.op("Reshape", indices, ctx.const([0, 0, -1]))
    filled = ctx.op("ScatterElements", blank, places, flat, ctx.const(np.int32(2)))
    out = ctx.reshape(filled, [*sizes[:2], *image])
    return ctx.squeeze(out, 0) if alone else out
